//! One measured table, independent of its source: units are the same for all.

use std::fmt;

use ferroce_perf::Service;

/// Bytes of a MiB; perftest's MB is one.
pub const MIB: f64 = 1_048_576.0;

/// Gb/s of one MiB/s.
pub const GBPS_PER_MIBPS: f64 = MIB * 8.0 / 1e9;

/// perftest prints at least two decimals.
const ROUNDING_GBPS: f64 = 0.006;

/// The verb of the requester.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// RDMA WRITE.
    Write,
    /// RDMA READ.
    Read,
    /// SEND.
    Send,
    /// FETCH_AND_ADD or CMP_AND_SWAP.
    Atomic,
}

impl Verb {
    /// As perftest's programs have it: `ib_write_bw`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
            Self::Send => "send",
            Self::Atomic => "atomic",
        }
    }

    /// Returns the verb that `words` name: a command line, a title or a file name.
    pub fn find(words: &str) -> Option<Self> {
        let words = words.to_ascii_lowercase();
        [Self::Write, Self::Read, Self::Send, Self::Atomic]
            .into_iter()
            .filter_map(|verb| words.find(verb.name()).map(|place| (place, verb)))
            .min()
            .map(|(_, verb)| verb)
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.name().to_ascii_uppercase())
    }
}

/// Conditions of a table; some may be unknown.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// The verb of the requester.
    pub verb: Verb,
    /// Transport service; `None`: one that the model does not have (DC, SRD, raw Ethernet).
    pub service: Option<Service>,
    /// Path MTU.
    pub mtu_bytes: Option<u32>,
    /// Data rate of the link.
    pub link_gbps: Option<f64>,
    /// QPs of the requester.
    pub qps: u32,
    /// Depth of the send queue.
    pub tx_depth: Option<u32>,
    /// Work requests from one signaled one to the next.
    pub cq_moderation: Option<u32>,
    /// Longest inline payload, if the table says so.
    pub max_inline_bytes: Option<u32>,
    /// READs and atomics outstanding at once, if the table says so.
    pub outstanding_reads: Option<u32>,
    /// A switch between the hosts, or none, if the table says so.
    pub switched: Option<bool>,
    /// True if both sides request at once; figures are then the sum.
    pub bidirectional: bool,
    /// True for InfiniBand, whose headers are shorter than RoCEv2's.
    pub infiniband: bool,
    /// Where the buffers lie.
    pub memory: Memory,
}

/// Where the buffers of a measurement lie: names of a topology.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// The client's; `None`: in memory near the card.
    pub local: Option<String>,
    /// The server's.
    pub remote: Option<String>,
    /// True if regions have the right that writes pass each other.
    pub relaxed_order: bool,
}

impl Memory {
    /// Options of perftest that place the buffers in the memory of an accelerator.
    const OF_ACCELERATOR: [&str; 6] = [
        "--use_cuda",
        "--use_rocm",
        "--use_hl",
        "--use_neuron",
        "--use_mlu",
        "--use_opencl",
    ];

    /// Returns the memory that a command of perftest uses, at both ends.
    pub fn of_command(command: &str) -> Self {
        let is_option = |word: &str| {
            let options = Self::OF_ACCELERATOR.iter();
            options.clone().any(|option| word.starts_with(option))
        };
        let gpu = command.split_whitespace().any(is_option) || command.contains("GPU memory");
        let gpu = gpu.then(|| "gpu0".to_owned());
        Self {
            local: gpu.clone(),
            remote: gpu,
            relaxed_order: false,
        }
    }
}

impl Setup {
    /// Returns perftest's defaults.
    pub fn new(verb: Verb) -> Self {
        Self {
            verb,
            service: Some(Service::Rc),
            mtu_bytes: None,
            link_gbps: None,
            qps: 1,
            tx_depth: None,
            cq_moderation: None,
            max_inline_bytes: None,
            outstanding_reads: None,
            switched: None,
            bidirectional: false,
            infiniband: false,
            memory: Memory::default(),
        }
    }
}

/// Bandwidth of one message size.
#[derive(Clone, Debug, PartialEq)]
pub struct BandwidthRow {
    /// Size of a message.
    pub bytes: u64,
    /// Best interval, if it was measured.
    pub peak_gbps: Option<f64>,
    /// Over the whole run.
    pub average_gbps: f64,
    /// Messages over the whole run.
    pub message_rate_mpps: f64,
}

/// Latency of one message size, in us: half a round trip for WRITE and SEND, a whole one for READ
/// and atomics, as perftest has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LatencyRow {
    /// Size of a message.
    pub bytes: u64,
    /// Shortest.
    pub min_us: Option<f64>,
    /// Longest.
    pub max_us: Option<f64>,
    /// Median.
    pub typical_us: Option<f64>,
    /// Mean.
    pub average_us: Option<f64>,
    /// Standard deviation.
    pub stdev_us: Option<f64>,
    /// 99th percentile.
    pub p99_us: Option<f64>,
    /// 99.9th percentile.
    pub p999_us: Option<f64>,
}

impl LatencyRow {
    /// Returns the figure to compare: the median, or the mean where `-D` prints nothing else.
    pub fn value_us(&self) -> f64 {
        self.typical_us.or(self.average_us).unwrap_or(f64::NAN)
    }
}

/// The figures of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Rows {
    /// Of a `_bw` program.
    Bandwidth(Vec<BandwidthRow>),
    /// Of a `_lat` program.
    Latency(Vec<LatencyRow>),
}

/// Figures of one run of perftest.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Name to call it by.
    pub name: String,
    /// How it was measured.
    pub setup: Setup,
    /// The figures, in the order of the file.
    pub rows: Rows,
    /// Notes of the file: key and value.
    pub notes: Vec<(String, String)>,
    /// Warnings: suspicious figures that are not errors.
    pub warnings: Vec<String>,
}

impl Table {
    /// Returns the message sizes, ascending, each once.
    pub fn sizes(&self) -> Vec<u64> {
        let mut sizes: Vec<_> = match &self.rows {
            Rows::Bandwidth(rows) => rows.iter().map(|row| row.bytes).collect(),
            Rows::Latency(rows) => rows.iter().map(|row| row.bytes).collect(),
        };
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// Returns sizes and figures to compare: Gb/s or us.
    pub fn points(&self) -> Vec<(u64, f64)> {
        match &self.rows {
            Rows::Bandwidth(rows) => rows.iter().map(|r| (r.bytes, r.average_gbps)).collect(),
            Rows::Latency(rows) => rows.iter().map(|r| (r.bytes, r.value_us())).collect(),
        }
    }

    /// Returns true for the table of a `_lat` program.
    pub fn is_latency(&self) -> bool {
        matches!(self.rows, Rows::Latency(_))
    }

    /// Returns the note under `key`.
    pub fn note(&self, key: &str) -> Option<&str> {
        let found = self.notes.iter().find(|(name, _)| name == key);
        found.map(|(_, value)| value.as_str())
    }

    /// Warns of rows whose bandwidth is not their message rate times their size: a wrong unit, or
    /// figures of several runs.
    pub(super) fn check_rates(&mut self) {
        let Rows::Bandwidth(rows) = &self.rows else {
            return;
        };
        let wrong = rows.iter().filter(|row| {
            let expected = row.message_rate_mpps * row.bytes as f64 * 8e-3;
            (row.average_gbps - expected).abs() > expected * 0.02 + ROUNDING_GBPS
        });
        let sizes: Vec<_> = wrong.map(|row| row.bytes.to_string()).collect();
        if !sizes.is_empty() {
            self.warnings.push(format!(
                "bandwidth is not message rate times size at {} bytes",
                sizes.join(", ")
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verb_is_the_first_that_is_named() {
        assert_eq!(Verb::find("ib_write_bw --read"), Some(Verb::Write));
        assert_eq!(Verb::find("RDMA_Read Latency Test"), Some(Verb::Read));
        assert_eq!(Verb::find("ib_devinfo"), None);
    }

    #[test]
    fn a_wrong_unit_is_noticed() {
        let row = BandwidthRow {
            bytes: 1024,
            peak_gbps: None,
            average_gbps: 8.388_608,
            message_rate_mpps: 0.977,
        };
        let mut table = Table {
            name: "x".into(),
            setup: Setup::new(Verb::Write),
            rows: Rows::Bandwidth(vec![row]),
            notes: Vec::new(),
            warnings: Vec::new(),
        };
        table.check_rates();
        assert_eq!(table.warnings.len(), 1);
    }
}
