//! NVIDIA NeoHost's hardware counters of ConnectX cards, and our counters that correspond to them.
//!
//! The names are from `hw_counter_names.csv`. For each, the table has the
//! corresponding counter of the model, or the reason why there is none.

use std::fmt::Write as _;

use ferroce_model::preset::Preset;

/// Source of the value of one of NeoHost's counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The sum of these.
    Sum(&'static [&'static str]),
    /// The sum of these, in units of 64 bytes.
    Lines(&'static [&'static str]),
    /// The sum of these nanoseconds, in cycles of the core clock. Each of several requests that
    /// wait at the same time counts.
    Cycles(&'static [&'static str]),
    /// Each of these, in nanoseconds.
    Nanoseconds(&'static [&'static str]),
    /// Bytes on the wire of each of these divided by the time, in Gb/s.
    Bandwidth(&'static [&'static str]),
    /// Simulated time in cycles of the core clock.
    Clocks,
    /// The model does not have it, for this reason.
    NotModelled(&'static str),
}

/// One of NeoHost's counters.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Unit of the card.
    pub unit: &'static str,
    /// Name.
    pub name: &'static str,
    /// Source of its value.
    pub source: Source,
}

const fn row(unit: &'static str, name: &'static str, source: Source) -> Row {
    Row { unit, name, source }
}

use Source::{Bandwidth, Clocks, Cycles, Lines, Nanoseconds, NotModelled, Sum};

const ONE_LEVEL: Source = NotModelled("the caches have one level");
const STREAMS: Source = NotModelled("blocks between which nothing waits in the model");

/// All counters, in the order of the list.
pub const ROWS: &[Row] = &[
    row("TPT", "level-0 MTT cache hit", Sum(&["mtt_hits"])),
    row("TPT", "level-0 MTT cache miss", Sum(&["mtt_misses"])),
    row("TPT", "level-1 MTT cache hit", ONE_LEVEL),
    row("TPT", "level-1 MTT cache miss", ONE_LEVEL),
    row("TPT", "level-0 MPT cache hit", Sum(&["mpt_hits"])),
    row("TPT", "level-0 MPT cache miss", Sum(&["mpt_misses"])),
    row("TPT", "level-1 MPT cache hit", ONE_LEVEL),
    row("TPT", "level-1 MPT cache miss", ONE_LEVEL),
    row(
        "TPT",
        "indirect memory key access",
        NotModelled(
            "memory windows are entries of the MPT like regions; there are no other indirect keys",
        ),
    ),
    row(
        "PXT",
        "ICM cache miss (read from host memory)",
        Sum(&[
            "qpc_misses",
            "cqc_misses",
            "srqc_misses",
            "mpt_misses",
            "mtt_misses",
        ]),
    ),
    row(
        "PXT",
        "PCIe internal back pressure",
        Cycles(&["pcie_outbound_stalled_ns"]),
    ),
    row(
        "PXT",
        "outbound stalled reads",
        Cycles(&["pcie_read_stalled_no_credits_ns"]),
    ),
    row(
        "PXT",
        "outbound stalled writes",
        Cycles(&["pcie_write_stalled_no_credits_ns"]),
    ),
    row(
        "PXT",
        "PCIe read stalled: no read engines",
        Cycles(&["pcie_read_stalled_no_read_engines_ns"]),
    ),
    row(
        "PXT",
        "PCIe read stalled: no completion buffer / byte limit",
        Cycles(&["pcie_read_stalled_no_completion_buffer_ns"]),
    ),
    row(
        "PXT",
        "PCIe read stalled: ordering",
        Cycles(&["pcie_read_stalled_ordering_ns"]),
    ),
    row("RXW", "receive WQE cache hit", Sum(&["receive_wqe_hits"])),
    row(
        "RXW",
        "receive WQE cache miss",
        Sum(&["receive_wqe_misses"]),
    ),
    row(
        "RXW",
        "back pressure MMU to RX descriptor handling",
        STREAMS,
    ),
    row("RXB", "packets / 64 B units per port", Lines(&["rx_bytes"])),
    row("RXB", "back pressure scatter to RX buffer", STREAMS),
    row(
        "RXT",
        "steering slow/fast path packets",
        Sum(&["rx_frames"]),
    ),
    row(
        "RXS",
        "back pressure PCIe to packet scatter",
        Cycles(&["pcie_write_stalled_no_credits_ns"]),
    ),
    row("RXC", "EQ/CQ/MSI-X all state machines busy", STREAMS),
    row(
        "RXC",
        "CQE compression sessions",
        NotModelled("each completion has its own CQE"),
    ),
    row("SXW", "TX descriptor stopped: limited state", STREAMS),
    row(
        "SXW",
        "TX descriptor stopped: limited VL",
        NotModelled("there is one virtual lane"),
    ),
    row(
        "SXW",
        "TX descriptor stopped: de-schedule",
        Sum(&["tx_descheduled"]),
    ),
    row(
        "SXW",
        "TX descriptor stopped: work done",
        Sum(&["tx_work_done"]),
    ),
    row(
        "SXW",
        "TX descriptor stopped: E2E credits",
        NotModelled("ACKs carry no credits; a responder without a receive WQE sends an RNR NAK"),
    ),
    row(
        "SXP",
        "lines transmitted port/loopback",
        Lines(&["tx_bytes"]),
    ),
    row(
        "SXP",
        "steering cache access/hit/miss",
        NotModelled("a packet is steered by its QPN, without a table in host memory"),
    ),
    row(
        "analysis",
        "PCIe avg/min/max latency",
        Nanoseconds(&[
            "pcie_read_latency_avg_ns",
            "pcie_read_latency_min_ns",
            "pcie_read_latency_max_ns",
        ]),
    ),
    row(
        "analysis",
        "PCIe inbound/outbound available and used bandwidth",
        Bandwidth(&["pcie_inbound_wire_bytes", "pcie_outbound_wire_bytes"]),
    ),
    row("RXPS", "device clocks", Clocks),
];

/// Counters of a host, and their time.
#[derive(Debug, Clone, Copy)]
pub struct Counted<'a> {
    /// Our counters by name.
    pub values: &'a [(&'static str, u64)],
    /// Simulated time, in picoseconds.
    pub time_ps: u64,
    /// The card.
    pub preset: &'a Preset,
}

impl Counted<'_> {
    fn value(&self, name: &str) -> u64 {
        let mut named = self.values.iter().filter(|(own, _)| *own == name);
        named.next().map_or(0, |(_, value)| *value)
    }

    fn sum(&self, names: &[&str]) -> u64 {
        names.iter().map(|name| self.value(name)).sum()
    }

    fn cycles(&self, ps: u64) -> u64 {
        (ps as f64 * self.preset.clock.core_mhz / 1e6).round() as u64
    }

    /// Returns the value of a counter in printed form; `None`: it is not modelled.
    pub fn print(&self, source: Source) -> Option<String> {
        let each = |names: &[&str], print: &dyn Fn(u64) -> String| {
            let values: Vec<String> = names.iter().map(|name| print(self.value(name))).collect();
            values.join(" / ")
        };
        Some(match source {
            Sum(names) => self.sum(names).to_string(),
            Lines(names) => self.sum(names).div_ceil(LINE).to_string(),
            Cycles(names) => self.cycles(self.sum(names) * 1000).to_string(),
            Nanoseconds(names) => each(names, &|value| value.to_string()),
            Bandwidth(names) => {
                let available = self.available_gbps();
                let used = each(names, &|bytes| {
                    format!("{:.1}", (bytes * 8000) as f64 / self.time_ps.max(1) as f64)
                });
                format!("{used} of {available:.1}")
            }
            Clocks => self.cycles(self.time_ps).to_string(),
            NotModelled(_) => return None,
        })
    }

    fn available_gbps(&self) -> f64 {
        let pcie = &self.preset.pcie;
        ferroce_model::pcie::tlp_gbps(pcie.generation, pcie.lanes, pcie.mps_bytes)
    }
}

/// Bytes of a line.
const LINE: u64 = 64;

impl Source {
    /// Returns its unit.
    pub fn unit(self) -> &'static str {
        match self {
            Sum(_) => "events",
            Lines(_) => "lines of 64 B",
            Cycles(_) | Clocks => "cycles",
            Nanoseconds(_) => "ns",
            Bandwidth(_) => "Gb/s",
            NotModelled(_) => "",
        }
    }

    /// Returns our counter, or the reason why there is none, for the table.
    pub fn describe(self) -> String {
        match self {
            Sum(names) | Cycles(names) => names.join(" + "),
            Nanoseconds(names) | Bandwidth(names) => names.join(", "),
            Lines(names) => format!("{} / 64", names.join(" + ")),
            Clocks => "simulated time × clock.core_mhz".to_owned(),
            NotModelled(reason) => format!("not modelled: {reason}"),
        }
    }

    /// Returns the names of our counters that it needs.
    pub fn names(self) -> &'static [&'static str] {
        match self {
            Sum(names) | Lines(names) | Cycles(names) | Nanoseconds(names) | Bandwidth(names) => {
                names
            }
            Clocks | NotModelled(_) => &[],
        }
    }
}

/// Returns the counters of several hosts side by side, as text.
pub fn table(hosts: &[Counted<'_>]) -> String {
    let mut text = format!("{:<9} {:<53}", "unit", "counter");
    for host in 0..hosts.len() {
        let _ = write!(text, " {:>22}", format!("host {host}"));
    }
    text.push('\n');
    for row in ROWS {
        let _ = write!(text, "{:<9} {:<53}", row.unit, row.name);
        for host in hosts {
            let value = host.print(row.source);
            let _ = write!(text, " {:>22}", value.as_deref().unwrap_or("not modelled"));
        }
        let _ = writeln!(text, " {}", row.source.unit());
    }
    text
}

/// Returns our own counters of several hosts side by side, without those that are zero on all.
pub fn own_table(hosts: &[Vec<(&'static str, u64)>]) -> String {
    let mut text = String::from("Ours, without those that are zero:\n");
    let names = hosts.first().map_or(&[][..], Vec::as_slice);
    for (index, (name, _)) in names.iter().enumerate() {
        let values: Vec<u64> = hosts
            .iter()
            .filter_map(|values| values.get(index).map(|(_, value)| *value))
            .collect();
        if values.iter().any(|value| *value != 0) {
            let _ = write!(text, "{name:<63}");
            for value in values {
                let _ = write!(text, " {value:>22}");
            }
            text.push('\n');
        }
    }
    text
}

/// Returns the list as a Markdown table.
pub fn markdown() -> String {
    let mut text = String::from("| unit | counter | ours |\n| --- | --- | --- |\n");
    for Row { unit, name, source } in ROWS {
        let ours = match (source.names(), source) {
            ([], source) | (_, source @ Clocks) => source.describe(),
            (_, source) => format!("`{}`, {}", source.describe(), source.unit()),
        };
        let _ = writeln!(text, "| {unit} | {name} | {ours} |");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Method: all names of NVIDIA's list are in our table, in its order.
    #[test]
    fn counters_are_those_of_the_list() {
        let list = include_str!("hw_counter_names.csv");
        let rows = list.lines().filter(|line| !line.starts_with('#'));
        let listed: Vec<_> = rows
            .skip(1)
            .map(|line| {
                let (unit, rest) = line.split_once(',').expect("three columns");
                let (name, _) = rest.rsplit_once(',').expect("three columns");
                (unit, name)
            })
            .collect();
        let known: Vec<_> = ROWS.iter().map(|row| (row.unit, row.name)).collect();
        assert_eq!(known, listed);
    }

    /// Method: print the table anew and compare. `FERROCE_UPDATE=1` writes the file.
    #[test]
    fn the_document_has_the_table_of_the_code() {
        const BEGIN: &str = "<!-- table: ferroce_world::trace::neohost::markdown -->\n";
        const END: &str = "<!-- end -->";
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/trace/README.md");
        let text = std::fs::read_to_string(path).expect("part of the sources");
        let (before, rest) = text.split_once(BEGIN).expect("a place for the table");
        let (table, behind) = rest.split_once(END).expect("its end");
        let ours = markdown();
        if std::env::var_os("FERROCE_UPDATE").is_some() {
            let text = [before, BEGIN, &ours, END, behind].concat();
            std::fs::write(path, text).expect("writable");
            return;
        }
        assert_eq!(table, ours, "FERROCE_UPDATE=1 mends {path}");
    }
}
