//! The real perftest, unmodified, in simulated time.
//!
//! [`RealPerftest`] measures a [`PerfSpec`] as [`ferroce_perf::run`] does, but with Debian's
//! programs: it starts a world, runs the server and the client in it, and reads the table that the
//! client prints. So the real programs can replace the harness everywhere.
//!
//! - [`command`]: a specification as command lines of perftest.
//! - [`pair`]: the world and the two programs, each with a time limit.

pub mod command;
pub mod pair;

use std::path::PathBuf;

use ferroce_perf::{BandwidthRow, LatencyRow, Operation, PerfResult, PerfRow, PerfSpec, Test};
use pair::Pair;

use crate::reference::experiment::Simulator;
use crate::reference::table::GBPS_PER_MIBPS;
use crate::reference::{self, Rows};

/// Picoseconds of a microsecond.
const PS_PER_US: f64 = 1e6;

/// Debian's perftest, each run in a separate world.
#[derive(Debug, Clone)]
pub struct RealPerftest {
    /// The `ferroce` command.
    pub ferroce: PathBuf,
    /// True if payload is not moved.
    pub elide_payload: bool,
    /// True if no packet of a long message is skipped.
    pub every_packet: bool,
    /// More options of perftest.
    pub extra: Vec<String>,
}

/// A measurement, and an explanation of its last message.
#[derive(Debug, Clone)]
pub struct Explained {
    /// The row that perftest printed.
    pub row: PerfRow,
    /// The steps from the post of the last message to the post of the next one, with their times,
    /// as text.
    pub text: String,
    /// Their total time in microseconds.
    pub total_us: f64,
    /// The time that perftest printed for this message, if it prints each message: the total, or
    /// half of it.
    pub printed_us: Option<f64>,
}

/// Perftest prints each message, not sorted.
const EACH_MESSAGE: &str = "-U";
/// The last line of an explanation begins with this word.
const SUM: &str = "sum";

impl RealPerftest {
    /// Measures one size, and explains the last message. Messages overlap unless `spec` keeps only
    /// one outstanding.
    ///
    /// # Errors
    /// The errors of [`Simulator::run`]; no message was posted after the last one.
    pub fn explain(&self, spec: &PerfSpec) -> Result<Explained, String> {
        let mut run = command::runs(spec)?.swap_remove(0);
        let is_latency = spec.test == Test::Latency;
        if is_latency && !self.extra.iter().any(|option| option == EACH_MESSAGE) {
            run.arguments.push(EACH_MESSAGE.to_owned());
        }
        let ran = Pair::new(self, spec, &run, true)?.run()?;
        let rows = read(&run.program, &ran.client, messages(spec))?;
        let row = rows
            .into_iter()
            .next()
            .ok_or("perftest has printed no size")?;
        let sum_ns = ran.explanation.lines().find_map(|line| {
            let rest = line.trim_start().strip_prefix(SUM)?;
            rest.trim().parse::<f64>().ok()
        });
        Ok(Explained {
            row,
            total_us: sum_ns.ok_or_else(|| ran.explanation.clone())? / 1000.0,
            text: ran.explanation,
            printed_us: last_message_us(&ran.client).filter(|_| is_latency),
        })
    }
}

/// Returns the number by which perftest divides the time between two posts: 2 if each message is
/// answered by one, because perftest prints half of the round trip.
pub fn ways(spec: &PerfSpec) -> u32 {
    match (spec.test, spec.operation) {
        (Test::Latency, Operation::Write | Operation::Send) => 2,
        _ => 1,
    }
}

/// Returns the messages over all QPs.
fn messages(spec: &PerfSpec) -> u64 {
    command::iterations(spec) * u64::from(spec.qps.max(1))
}

/// Returns the time of the last message that perftest printed with its number.
fn last_message_us(output: &str) -> Option<f64> {
    let mut messages = output.lines().filter_map(|line| {
        let (number, time) = line.split_once(", ")?;
        number.trim().parse::<u64>().ok()?;
        time.trim().parse().ok()
    });
    messages.next_back()
}

impl Simulator for RealPerftest {
    fn run(&self, spec: &PerfSpec) -> Result<PerfResult, String> {
        let mut rows = Vec::new();
        for run in command::runs(spec)? {
            let ran = Pair::new(self, spec, &run, false)?.run()?;
            rows.extend(read(&run.program, &ran.client, messages(spec))?);
        }
        // Drop sizes of `-a` that were not requested.
        rows.retain(|row| spec.sizes.contains(&row.size));
        if rows.len() != spec.sizes.len() {
            let (wanted, found) = (spec.sizes.len(), rows.len());
            return Err(format!("perftest has printed {found} of {wanted} sizes"));
        }
        Ok(PerfResult { rows })
    }
}

/// Parses the rows that perftest printed, each of this many messages over all QPs.
fn read(program: &str, output: &str, messages: u64) -> Result<Vec<PerfRow>, String> {
    let tables = reference::perftest::parse(program, output)
        .map_err(|error| format!("what {program} has printed: {error}\n{output}"))?;
    let rows = tables.iter().flat_map(|table| match &table.rows {
        Rows::Bandwidth(rows) => {
            let rows = rows.iter().map(|row| bandwidth(row, messages));
            rows.collect::<Vec<_>>()
        }
        Rows::Latency(rows) => rows.iter().map(|row| latency(row, messages)).collect(),
    });
    let rows = rows.map(|row| PerfRow {
        iterations: messages,
        ..row
    });
    Ok(rows.collect())
}

fn bandwidth(row: &reference::BandwidthRow, messages: u64) -> PerfRow {
    PerfRow {
        size: row.bytes as u32,
        bandwidth: Some(BandwidthRow {
            peak_mib_per_s: row.peak_gbps.unwrap_or(0.0) / GBPS_PER_MIBPS,
            average_mib_per_s: row.average_gbps / GBPS_PER_MIBPS,
            message_rate_mpps: row.message_rate_mpps,
            elapsed_ps: (PS_PER_US * messages as f64 / row.message_rate_mpps) as u64,
            messages,
        }),
        ..PerfRow::default()
    }
}

/// perftest squares differences from the mean, in microseconds, in an `int`: this is the largest
/// one whose square fits.
const MOST_DEVIATION_US: f64 = 46_340.0;
/// With this many fewer samples than messages: the mean omits the two largest samples, and there is
/// one sample less than posts.
const NOT_IN_MEAN: u64 = 3;

/// Returns the standard deviation that perftest printed, if it is valid. If one of its squares has
/// overflowed, perftest prints `-nan` or a meaningless number.
fn deviation(row: &reference::LatencyRow, messages: u64) -> Option<f64> {
    let most = row
        .max_us
        .zip(row.average_us)
        .map(|(max, average)| max - average);
    let excess = row
        .average_us
        .map_or(0.0, |average| average - row.value_us());
    let samples = messages.saturating_sub(NOT_IN_MEAN).max(1) as f64;
    let has_overflowed =
        most.is_some_and(|most| most > MOST_DEVIATION_US) && excess * samples > MOST_DEVIATION_US;
    row.stdev_us.filter(|_| !has_overflowed)
}

fn latency(row: &reference::LatencyRow, messages: u64) -> PerfRow {
    let or_typical = |figure: Option<f64>| figure.unwrap_or(row.value_us());
    PerfRow {
        size: row.bytes as u32,
        latency: Some(LatencyRow {
            min_us: or_typical(row.min_us),
            max_us: or_typical(row.max_us),
            typical_us: row.value_us(),
            average_us: or_typical(row.average_us),
            stdev_us: deviation(row, messages).unwrap_or(f64::NAN),
            p99_us: or_typical(row.p99_us),
            p999_us: or_typical(row.p999_us),
            samples_ps: Vec::new(),
        }),
        ..PerfRow::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_latency_have_all_columns() {
        let text = "                    Send Latency Test\n \
                    #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    \
                    t_avg[usec]    \
                    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] \n \
                    2       1000          1.01           1.12         1.06             1.07        \
                    0.25            1.11            1.12   \n";
        let rows = read("ib_send_lat", text, 1000).expect("a table");
        let row = rows[0].latency.as_ref().expect("latency");
        assert_eq!(
            (row.min_us, row.typical_us, row.stdev_us),
            (1.01, 1.06, 0.25)
        );
    }

    /// Goal: a standard deviation that perftest could not compute is none, and not 0. Method: rows
    /// that perftest 4.5 printed for 60 READs with lost packets.
    #[test]
    fn a_deviation_that_has_overflowed_is_none() {
        let title = "                    RDMA_Read Latency Test\n";
        let columns = "#bytes #iterations t_min[usec] t_max[usec] t_typical[usec] t_avg[usec] \
                       t_stdev[usec] 99% percentile[usec] 99.9% percentile[usec]\n";
        let deviation = |figures: &str| {
            let rows = read(
                "ib_read_lat",
                &format!("{title}{columns} 8 60 1.82 {figures}\n"),
                60,
            );
            let row = rows.expect("a table").remove(0);
            row.latency.expect("latency").stdev_us
        };
        assert!(deviation("67110.74 1.86 3533.92 -nan 67110.74 67110.74").is_nan());
        assert!(deviation("268437.33 1.86 14130.06 8721.76 268437.33 268437.33").is_nan());
        let right = deviation("16779.09 1.86 884.89 3746.23 16779.09 16779.09");
        assert_eq!(right, 3746.23);
        let alone = deviation("268437.27 1.86 1.88 0.00 268437.27 268437.27");
        assert_eq!(alone, 0.0, "the longest is in no mean");
    }

    #[test]
    fn rows_are_what_perftest_has_printed() {
        let text = "                    RDMA_Write BW Test\n \
                    #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   \
                    MsgRate[Mpps]\n \
                    64         5000             120.00             100.00             1.638400\n";
        let rows = read("ib_write_bw", text, 5000).expect("a table");
        let row = rows[0].bandwidth.as_ref().expect("bandwidth");
        assert_eq!((rows[0].size, row.message_rate_mpps), (64, 1.6384));
        assert!((row.average_mib_per_s - 100.0).abs() < 1e-6);
        assert!((row.peak_mib_per_s - 120.0).abs() < 1e-6);
        assert_eq!((row.messages, rows[0].iterations), (5000, 5000));
        let messages = "#, usec\n1, 3.34\n2, 2.5\n 64      3          2.50  2.50\n";
        assert_eq!(last_message_us(messages), Some(2.5));
        assert_eq!(last_message_us(text), None);
        assert!(read("ib_write_bw", "Couldn't connect to 127.0.0.1:1\n", 5000).is_err());
    }
}
