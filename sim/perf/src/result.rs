//! Results of a measurement.

use crate::traffic::Traffic;
use crate::utilisation::Utilisation;

/// A row of a bandwidth test.
#[derive(Debug, Clone, PartialEq)]
pub struct BandwidthRow {
    /// Best bandwidth between any post and any later completion, in MiB/s, as perftest has it.
    pub peak_mib_per_s: f64,
    /// Bandwidth in MiB/s (2^20 bytes): first post to last completion.
    pub average_mib_per_s: f64,
    /// Messages per microsecond.
    pub message_rate_mpps: f64,
    /// Time from the first post to the last completion, in picoseconds.
    pub elapsed_ps: u64,
    /// Messages in that time, over all QPs.
    pub messages: u64,
}

impl BandwidthRow {
    /// Bandwidth in decimal gigabits per second.
    pub fn average_gbps(&self) -> f64 {
        self.average_mib_per_s * 1_048_576.0 * 8.0 / 1e9
    }
}

/// A row of a latency test, in microseconds. WRITE and SEND: half of the round trip.
#[derive(Debug, Clone, PartialEq)]
pub struct LatencyRow {
    /// Least.
    pub min_us: f64,
    /// Second largest, as in perftest.
    pub max_us: f64,
    /// Median.
    pub typical_us: f64,
    /// Mean.
    pub average_us: f64,
    /// Standard deviation; NaN if perftest printed none.
    pub stdev_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// 99.9th percentile.
    pub p999_us: f64,
    /// The samples, sorted, in picoseconds of the full round trip.
    pub samples_ps: Vec<u64>,
}

/// Figures of one message size.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PerfRow {
    /// Bytes of a message.
    pub size: u32,
    /// Messages, over all QPs.
    pub iterations: u64,
    /// True if the run ended early, because the rate was steady.
    pub ended_early: bool,
    /// Bandwidth tests.
    pub bandwidth: Option<BandwidthRow>,
    /// Latency tests.
    pub latency: Option<LatencyRow>,
    /// Counters of each host's card, slot and cable during the run: name and value, always in the
    /// same order. Means and extremes are since power-on.
    pub counters: Vec<Vec<(&'static str, u64)>>,
    /// Use of all parts, and the bottleneck. `None`: nothing takes time, or another program
    /// measured the figures.
    pub utilisation: Option<Utilisation>,
    /// Simulated time from the first step of a thread to the last.
    pub simulated_ps: u64,
    /// Events that the world has handled.
    pub events: u64,
    /// Start and end of the last measured message, in picoseconds of simulated time. The end is the
    /// post of the next one in a latency test, else the completion.
    pub last_message_ps: Option<(u64, u64)>,
    /// Rates and queues of flows between several hosts; `None` if not requested.
    pub traffic: Option<Traffic>,
}

/// Result of a measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct PerfResult {
    /// One row for each size, in order.
    pub rows: Vec<PerfRow>,
}
