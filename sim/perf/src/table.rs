//! perftest's columns: the block before them and the rows, as `ib_*_bw` and `ib_*_lat` 4.5 print
//! them.

use std::fmt::Write;

use crate::plan::Plan;
use crate::result::{BandwidthRow, LatencyRow, PerfRow};
use crate::spec::{Operation, PerfSpec, Test, Topology, Workload};

/// `RESULT_LINE`.
pub const LINE: &str =
    "---------------------------------------------------------------------------------------";
/// `RESULT_FMT` and `RESULT_FMT_LAT`.
const BANDWIDTH_COLUMNS: &str =
    " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]";
const LATENCY_COLUMNS: &str = " #bytes #iterations    t_min[usec]    t_max[usec]  \
     t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   \
     99.9% percentile[usec] ";

/// Returns the text before the rows.
pub fn header(spec: &PerfSpec, plan: &Plan) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write_header(&mut out, spec, plan);
    out
}

fn write_header(out: &mut String, spec: &PerfSpec, plan: &Plan) -> std::fmt::Result {
    let is_bandwidth = plan.test == Test::Bandwidth;
    writeln!(out, "{LINE}")?;
    writeln!(out, "                    {}", title(plan))?;
    writeln!(out, " Dual-port       : OFF\t\tDevice         : ferroce0")?;
    let qps = plan.threads * plan.qps_per_thread / spec.sharing.threads_per_qp.min(plan.threads);
    writeln!(out, " Number of qps   : {qps}\t\tTransport type : IB")?;
    let service = plan.service.name();
    writeln!(out, " Connection type : {service}\t\tUsing SRQ      : OFF")?;
    let relaxed = spec.preset.pcie.relaxed_ordering || spec.placement.relaxed_order;
    let relaxed = on_off(relaxed);
    writeln!(out, " PCIe relax order: {relaxed}")?;
    writeln!(out, " ibv_wr* API     : OFF")?;
    writeln!(out, " TX depth        : {}", plan.depth)?;
    if plan.has_receives() && plan.bidirectional {
        writeln!(out, " RX depth        : {}", plan.receive_depth)?;
    }
    if is_bandwidth {
        writeln!(out, " CQ Moderation   : {}", plan.signal_every)?;
    }
    writeln!(out, " Mtu             : {}[B]", plan.mtu.bytes())?;
    writeln!(out, " Link type       : Ethernet")?;
    writeln!(out, " GID index       : 1")?;
    match plan.operation {
        Operation::Write | Operation::Send => {
            writeln!(out, " Max inline data : {}[B]", plan.inline_limit)?;
        }
        _ => writeln!(out, " Outstand reads  : {}", plan.outstanding_reads)?,
    }
    writeln!(out, " rdma_cm QPs\t : OFF")?;
    writeln!(out, " Data ex. method : Simulation")?;
    writeln!(out, "{LINE}")?;
    writeln!(out, " {}", provenance(spec))?;
    if let Some(more) = beyond_perftest(spec, plan) {
        writeln!(out, " {more}")?;
    }
    writeln!(out, "{LINE}")
}

fn on_off(is_on: bool) -> &'static str {
    if is_on { "ON" } else { "OFF" }
}

/// Returns the title: `testsStr` and its frame.
fn title(plan: &Plan) -> String {
    let verb = match plan.operation {
        Operation::Write => "RDMA_Write",
        Operation::Read => "RDMA_Read",
        Operation::Send => "Send",
        Operation::FetchAdd => "Atomic FETCH_AND_ADD",
        Operation::CompareSwap => "Atomic CMP_AND_SWAP",
    };
    let test = match (plan.test, plan.bidirectional) {
        (Test::Bandwidth, true) => "Bidirectional BW",
        (Test::Bandwidth, false) => "BW",
        (Test::Latency, _) => "Latency",
    };
    format!("{verb} {test} Test")
}

/// Returns the conditions of the figures: preset with host profile, hash, seed, version, and the
/// modelled parts.
pub fn provenance(spec: &PerfSpec) -> String {
    let (preset, hash) = (spec.preset.name(), spec.preset.hash());
    let version = env!("CARGO_PKG_VERSION");
    let modelled = match preset.split('@').next() {
        Some("functional") => "only what happens is modelled, not when",
        _ => "modelled: card, PCIe, host memory, link, the application's thread",
    };
    let seed = spec.seed;
    let faults = spec.faults.as_ref();
    let faults = faults.map_or_else(String::new, |plan| format!("; faults {plan}"));
    format!("ferroce {version}: preset {preset}, hash {hash:016x}, seed {seed}; {modelled}{faults}")
}

/// Returns the options that perftest does not have.
fn beyond_perftest(spec: &PerfSpec, plan: &Plan) -> Option<String> {
    let mut parts = Vec::new();
    if plan.threads > 1 {
        parts.push(format!("{} threads", plan.threads));
    }
    match spec.topology {
        Topology::Pair => {}
        Topology::Clients(clients) => parts.push(format!("{clients} clients to one server")),
        Topology::AllToAll { hosts, .. } => parts.push(format!("{hosts} hosts, all to all")),
        Topology::Flows { hosts, pattern } => {
            parts.push(format!("{hosts} hosts, {}", pattern.name()));
        }
        Topology::Loopback => parts.push("loopback on one card".to_owned()),
    }
    match spec.workload {
        Workload::Perftest => {}
        Workload::Batch => parts.push(format!("batches of {}", plan.depth)),
        Workload::Window => parts.push(format!("windows of {}", plan.depth)),
    }
    if plan.segments > 1 {
        parts.push(format!("gather lists of {} segments", plan.segments));
    }
    if spec.offset_bytes > 0 {
        parts.push(format!("buffers {} B behind a page", spec.offset_bytes));
    }
    for (what, memory) in spec.placement.named() {
        parts.push(format!("{what} in {memory}"));
    }
    if spec.placement.cards > 1 {
        parts.push(format!("{} cards a machine", spec.placement.cards));
    }
    if spec.sharing.threads_per_qp > 1 {
        parts.push(format!(
            "{} threads share a QP",
            spec.sharing.threads_per_qp
        ));
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Returns the line of column names.
pub fn columns(test: Test) -> &'static str {
    match test {
        Test::Bandwidth => BANDWIDTH_COLUMNS,
        Test::Latency => LATENCY_COLUMNS,
    }
}

/// Returns a row.
pub fn row(row: &PerfRow) -> String {
    let mut line = match (&row.bandwidth, &row.latency) {
        (Some(figures), _) => bandwidth(row, figures),
        (_, Some(figures)) => latency(row, figures),
        _ => format!(" {:<7}    no figures", row.size),
    };
    if row.ended_early {
        line.push_str("   (ended when the rate was steady)");
    }
    line
}

/// The bottleneck of a row, as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    /// Label of the row.
    pub label: String,
    /// The bottleneck, without figures: equal for rows that share an entry.
    pub text: String,
    /// The bottleneck with its figures.
    pub shown: String,
}

impl Limit {
    /// Returns the bottleneck of a row; `None`: nothing takes time.
    pub fn of(label: String, row: &PerfRow) -> Option<Self> {
        let bottleneck = &row.utilisation.as_ref()?.bottleneck;
        Some(Self {
            label,
            text: bottleneck.text(),
            shown: bottleneck.to_string(),
        })
    }
}

/// Returns the line under the table: the bottleneck of each row. Adjacent rows with the same
/// bottleneck share one entry. `None`: nothing takes time.
pub fn bottleneck(limits: &[Limit]) -> Option<String> {
    let same = |one: &Limit, next: &Limit| one.text == next.text;
    let groups: Vec<&[Limit]> = limits.chunk_by(same).collect();
    let texts = groups.iter().map(|group| {
        let (first, last) = (&group[0], &group[group.len() - 1]);
        match (groups.len(), group.len()) {
            (1, _) => last.shown.clone(),
            (_, 1) => format!("{}: {}", last.label, last.shown),
            (_, _) => format!("{} to {}: {}", first.label, last.label, last.shown),
        }
    });
    let texts: Vec<String> = texts.collect();
    (!texts.is_empty()).then(|| format!(" Bottleneck      : {}", texts.join("; ")))
}

/// Formats a row as `REPORT_FMT`.
fn bandwidth(row: &PerfRow, figures: &BandwidthRow) -> String {
    format!(
        " {:<7}    {:<10}       {:<7.2}            {:<7.2}\t\t   {:<7.6}",
        row.size,
        row.iterations,
        figures.peak_mib_per_s,
        figures.average_mib_per_s,
        figures.message_rate_mpps,
    )
}

/// Formats a row as `REPORT_FMT_LAT`.
fn latency(row: &PerfRow, figures: &LatencyRow) -> String {
    let deviation = if figures.stdev_us.is_nan() {
        "-".to_owned()
    } else {
        format!("{:.2}", figures.stdev_us)
    };
    format!(
        " {:<7} {}          {:<7.2}        {:<7.2}      {:<7.2}  \t       {:<7.2}     \t{:<7}\
         \t\t{:<7.2} \t\t{:<7.2}",
        row.size,
        row.iterations,
        figures.min_us,
        figures.max_us,
        figures.typical_us,
        figures.average_us,
        deviation,
        figures.p99_us,
        figures.p999_us,
    )
}

#[cfg(test)]
mod tests {
    use ferroce_model::preset::Preset;
    use ferroce_model::usage::Kind;

    use super::*;
    use crate::utilisation::{Bottleneck, Part, Utilisation};

    const BANDWIDTH: &str = include_str!("../fixtures/ib_write_bw_all.txt");
    const LATENCY: &str = include_str!("../fixtures/ib_read_lat_all.txt");

    fn lines(text: &str) -> Vec<&str> {
        text.lines().collect()
    }

    /// Compares the header of `spec` with perftest's, for the lines that both have: up to the
    /// method of data exchange.
    fn assert_same_block(spec: &PerfSpec, printed: &str) {
        let plan = Plan::new(spec, spec.sizes[0]).expect("legal");
        let ours = header(spec, &plan);
        let (ours, printed) = (lines(&ours), lines(printed));
        let end = printed
            .iter()
            .position(|line| line.starts_with(" Data ex."))
            .expect("a line");
        assert_eq!(ours[..end], printed[..end]);
    }

    fn spec(operation: Operation, test: Test) -> PerfSpec {
        let mut preset = Preset::load("functional").expect("built in");
        preset
            .set("pcie.relaxed_ordering", "true")
            .expect("a parameter");
        let mut spec = PerfSpec::new(preset, operation, test).all_sizes();
        (spec.mtu_bytes, spec.outstanding_reads) = (Some(4096), Some(16));
        spec
    }

    #[test]
    fn bandwidth_is_printed_as_perftest_prints_it() {
        assert_same_block(&spec(Operation::Write, Test::Bandwidth), BANDWIDTH);
        let printed = lines(BANDWIDTH);
        assert!(printed.contains(&columns(Test::Bandwidth)));
        let figures = BandwidthRow {
            peak_mib_per_s: 1813.504,
            average_mib_per_s: 1711.613,
            message_rate_mpps: 3.505_383,
            elapsed_ps: 1,
            messages: 5000,
        };
        let ours = PerfRow {
            size: 512,
            iterations: 5000,
            bandwidth: Some(figures),
            ..PerfRow::default()
        };
        assert!(printed.contains(&row(&ours).as_str()), "{}", row(&ours));
    }

    #[test]
    fn latency_is_printed_as_perftest_prints_it() {
        assert_same_block(&spec(Operation::Read, Test::Latency), LATENCY);
        let printed = lines(LATENCY);
        assert!(printed.contains(&columns(Test::Latency)));
        let figures = LatencyRow {
            min_us: 0.70,
            max_us: 29.35,
            typical_us: 0.81,
            average_us: 1.01,
            stdev_us: 1.52,
            p99_us: 3.52,
            p999_us: 29.35,
            samples_ps: Vec::new(),
        };
        let ours = PerfRow {
            size: 16,
            iterations: 1000,
            latency: Some(figures),
            ..PerfRow::default()
        };
        assert!(printed.contains(&row(&ours).as_str()), "{}", row(&ours));
        let mut without = ours;
        without.latency.as_mut().expect("it has").stdev_us = f64::NAN;
        let words: Vec<_> = row(&without)
            .split_whitespace()
            .map(str::to_owned)
            .collect();
        assert_eq!(words[6], "-", "{words:?}");
    }

    #[test]
    fn rows_with_the_same_bottleneck_share_an_entry() {
        let limited = |size, name: &'static str, share| PerfRow {
            size,
            utilisation: Some(Utilisation {
                parts: Vec::new(),
                bottleneck: Bottleneck::Part(Part {
                    host: 0,
                    name,
                    unit: None,
                    kind: Kind::Server,
                    share,
                }),
            }),
            ..PerfRow::default()
        };
        let rows = [
            limited(64, "host_thread", 0.99),
            limited(128, "host_thread", 0.97),
            limited(4096, "mac_transmit", 1.0),
        ];
        let rows: Vec<_> = rows
            .iter()
            .filter_map(|row| Limit::of(format!("{} B", row.size), row))
            .collect();
        let line = " Bottleneck      : 64 B to 128 B: host 0, program's thread (97 %); \
                    4096 B: host 0, MAC, transmit (100 %)";
        assert_eq!(bottleneck(&rows).as_deref(), Some(line));
        let one = " Bottleneck      : host 0, program's thread (97 %)";
        assert_eq!(bottleneck(&rows[..2]).as_deref(), Some(one));
        assert_eq!(bottleneck(&[]), None);
    }
}
