//! `ferroce perftest`: Debian's perftest, unmodified, in simulated time.

use std::process::ExitCode;

use clap::Args;
use ferroce_lab::perftest::{Explained, RealPerftest, command, ways};
use ferroce_lab::reference::experiment::{self, Harness, Simulator};
use ferroce_lab::reference::{Table, Verb, builtin, comparison};
use ferroce_model::preset::Preset;
use ferroce_perf::explained::alone;
use ferroce_perf::sweep::{Job, Listener};
use ferroce_perf::table::LINE;
use ferroce_perf::{PerfRow, PerfSpec};

use super::measured::tables_of_file;
use super::perf::{ONE_SIZE, Output, Perf};
use super::{EXIT_FAILURE, report_error};

/// Run the real perftest in simulated time: unmodified ib_write_bw and its relatives, two
/// processes, with the verbs library and the driver of this project, on modelled cards.
///
/// The options are those of `ferroce perf`, which runs the same loops without the programs; the
/// figures are printed by perftest itself.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ferroce perftest write_bw --preset cx5-100g -a --elide-payload
  ferroce perftest send_bw --preset cx4lx-10g -a --against cx4lx_10g_roce_send_bw
  ferroce perftest write_lat --preset cx5-100g -a --beside
  ferroce perftest read_lat --preset cx5-100g -s 8 --explain
  ferroce perftest write_bw --preset cx5-100g -- --use_old_post_send")]
pub struct Perftest {
    /// What is measured.
    #[command(flatten)]
    perf: Perf,

    /// Put a measured table beside the figures: a name of `ferroce compare --list`, or a file with
    /// the output of perftest; can be given several times
    #[arg(long, value_name = "TABLE|FILE")]
    against: Vec<String>,

    /// Put the figures of `ferroce perf` beside those of perftest
    #[arg(long)]
    beside: bool,

    /// Do not move payload: only what is shorter than 128 bytes, and the end of what is longer
    #[arg(long)]
    elide_payload: bool,

    /// Simulate every packet, also those in the middle of long messages, which otherwise are
    /// skipped when they flow steadily: their time is taken from those before them
    #[arg(long, conflicts_with = "fast_forward")]
    every_packet: bool,

    /// Further options for perftest
    #[arg(last = true, value_name = "OPTION")]
    extra: Vec<String>,
}

/// Note on the parts that the figures include.
const MODELLED: &str = "modelled: card, PCIe, host memory, link, what verbs cost; other code of the \
                        program takes no time";

/// Note on the reason why a standard deviation is missing.
const NO_DEVIATION: &str = " t_stdev -: perftest squares differences from the mean in an int, \
                            which overflows above 46 ms; `ferroce perf` computes it";

impl Perftest {
    /// Measures and prints.
    pub fn execute(self) -> ExitCode {
        match self.measure() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => report_error(&error, EXIT_FAILURE),
        }
    }

    fn measure(&self) -> Result<(), String> {
        self.perf.shard.refuse("it belongs to `ferroce perf`")?;
        let (jobs, calibrations) = self.perf.calibrated_jobs()?;
        if self.perf.trace.only_explains() {
            return self.explain(&jobs);
        }
        if self.perf.trace.is_wanted() {
            return Err("--waveform, --pcap and --counters belong to `ferroce perf`".to_owned());
        }
        if self.perf.sensitivity {
            return Err("--sensitivity belongs to `ferroce perf`".to_owned());
        }
        let tables = self.tables()?;
        // Refuse options that perftest does not have before anything runs.
        for points in runs(&jobs) {
            command::runs(&points[0].spec)?;
        }
        let mut output = Output::new(&jobs, &self.perf.json)?;
        let real = self.real()?;
        output.begin_with(&self.header(&jobs)?);
        for calibration in &calibrations {
            output.print(&format!(" {}", calibration.text().replace('\n', "\n ")));
        }
        output.calibrated(calibrations);
        let mut measured = Vec::new();
        let mut index = 0;
        for points in runs(&jobs) {
            let rows = real.run(&points[0].spec)?.rows;
            for row in &rows {
                output.progress();
                output.row(index, row.clone());
                index += 1;
            }
            measured.push((points[0].spec.clone(), rows));
        }
        output.end();
        if output.has_table() && measured.iter().any(|(_, rows)| has_no_deviation(rows)) {
            println!("{NO_DEVIATION}");
        }
        if output.has_table() {
            self.print_comparisons(&tables, &measured)?;
        }
        output.write_json("perftest")?;
        output.write_csv(self.perf.csv.as_deref())
    }

    fn real(&self) -> Result<RealPerftest, String> {
        let ferroce = std::env::current_exe()
            .map_err(|error| format!("cannot find this executable: {error}"))?;
        Ok(RealPerftest {
            ferroce,
            elide_payload: self.elide_payload,
            every_packet: self.every_packet,
            extra: self.extra.clone(),
        })
    }

    /// Measures one size, and explains the time of the last message.
    fn explain(&self, jobs: &[Job]) -> Result<(), String> {
        let [job] = jobs else {
            return Err(ONE_SIZE.to_owned());
        };
        let mut job = job.clone();
        job.spec.sizes = vec![job.size];
        alone(&mut job.spec)?;
        let spec = job.spec.clone();
        let jobs = [job];
        let mut output = Output::new(&jobs, &self.perf.json)?;
        output.begin_with(&self.header(&jobs)?);
        let explained = self.real()?.explain(&spec)?;
        output.row(0, explained.row.clone());
        output.end();
        if output.has_table() {
            println!("\n{}", explained.text);
            println!("{}", conclusion(&explained, ways(&spec)));
        }
        output.write_json("perftest")
    }

    /// Returns the header: the command and the model.
    fn header(&self, jobs: &[Job]) -> Result<String, String> {
        let spec = &jobs.first().ok_or("nothing to measure")?.spec;
        let run = command::runs(spec)?.swap_remove(0);
        let line = [&[run.program], &run.arguments[..], &self.extra[..]]
            .concat()
            .join(" ");
        let stamp = experiment::stamp(&spec.preset, spec.seed);
        let payload = if self.elide_payload {
            "payload is not moved: time only"
        } else {
            "payload is moved"
        };
        let packets = if self.every_packet {
            "every packet"
        } else {
            "long messages by their beginning, pace and end"
        };
        Ok(format!(
            "{LINE}\n {line}\n {stamp}\n {payload}; {packets}; {MODELLED}\n{LINE}"
        ))
    }

    fn print_comparisons(
        &self,
        tables: &[Table],
        measured: &[(PerfSpec, Vec<PerfRow>)],
    ) -> Result<(), String> {
        for (spec, rows) in measured {
            let figures = experiment::figures(spec.test, rows);
            for table in tables {
                let mut beside = comparison::beside(&spec.preset, table, &figures);
                beside.notes.extend(difference(table, spec));
                print!("\n{}", beside.text());
            }
            if self.beside {
                print!("\n{}", beside_harness(&spec.preset, spec, rows)?);
            }
        }
        Ok(())
    }

    fn tables(&self) -> Result<Vec<Table>, String> {
        let mut tables = Vec::new();
        for name in &self.against {
            match builtin::find(name) {
                found if found.is_empty() => tables.extend(tables_of_file(name)?),
                found => tables.extend(found),
            }
        }
        Ok(tables)
    }
}

/// Returns true if perftest could not compute a standard deviation.
fn has_no_deviation(rows: &[PerfRow]) -> bool {
    let latencies = rows.iter().filter_map(|row| row.latency.as_ref());
    latencies.into_iter().any(|row| row.stdev_us.is_nan())
}

/// Returns the relation between the output of perftest and the parts of the time.
fn conclusion(explained: &Explained, ways: u32) -> String {
    let total_us = explained.total_us;
    let way = match ways {
        1 => String::new(),
        _ => format!(", a way {:.3}", total_us / f64::from(ways)),
    };
    let bandwidth = explained.row.bandwidth.as_ref();
    let printed = match (explained.printed_us, bandwidth) {
        (Some(printed), _) => format!("perftest has measured {printed:.3} for it"),
        (None, Some(row)) => {
            let average = 1.0 / row.message_rate_mpps;
            format!("perftest prints the average of all messages, {average:.3}")
        }
        (None, None) => "perftest has not printed it".to_owned(),
    };
    format!("In all {total_us:.3} us{way}; {printed}.")
}

/// Groups the jobs by specification: its sizes.
fn runs(jobs: &[Job]) -> impl Iterator<Item = &[Job]> {
    jobs.chunk_by(|one, next| one.point == next.point)
}

/// Returns a difference between the parameters of the table and of this run.
fn difference(table: &Table, spec: &PerfSpec) -> Option<String> {
    let verb = table.setup.verb;
    let runs = command::runs(spec).ok()?;
    let program = &runs.first()?.program;
    (Verb::find(program) != Some(verb))
        .then(|| format!("the table is of {verb}, this is {program}"))
}

/// Returns the figures of the harness, and the difference of perftest to them.
fn beside_harness(preset: &Preset, spec: &PerfSpec, rows: &[PerfRow]) -> Result<String, String> {
    let harness = Harness.run(spec)?.rows;
    let mut text = format!(
        "perftest and `ferroce perf` on {}\n{:>9}  {:>12} {:>12} {:>9}\n",
        preset.name(),
        "bytes",
        "perftest",
        "ferroce perf",
        "differ",
    );
    for (real, model) in rows.iter().zip(&harness) {
        let (real_figure, model_figure) = (figure(real), figure(model));
        text.push_str(&format!(
            "{:>9}  {real_figure:>12.3} {model_figure:>12.3} {:>+8.2}%\n",
            real.size,
            (real_figure / model_figure - 1.0) * 100.0
        ));
    }
    text.push_str("typical latency in us, or average bandwidth in Gb/s\n");
    Ok(text)
}

/// Returns the typical latency in us, or the average bandwidth in Gb/s.
fn figure(row: &PerfRow) -> f64 {
    let bandwidth = row.bandwidth.as_ref().map(|row| row.average_gbps());
    let latency = row.latency.as_ref().map(|row| row.typical_us);
    bandwidth.or(latency).unwrap_or(f64::NAN)
}
