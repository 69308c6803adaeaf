//! A link that is idle between bursts, as perftest's peak column shows it.
//!
//! The peak is the best rate between any two completions of a run, the average is that of the whole
//! run. Where a wire or a slot is slow, both are slow. Where the peak is far above the average, the
//! messages came at the peak's rate, and then nothing came: something on the host's side takes time
//! for each message that the wire does not hide.

use std::fmt::Write as _;

use ferroce_perf::number_text::human_bytes;

/// Minimum share by which the peak exceeds the average of a link that is idle between bursts. In
/// most tables the two differ by less than 3 % on the plateau, and by up to 8 % without a cause
/// that lasts.
const BURST_SHARE: f64 = 0.1;

/// A size with its bandwidths in Gb/s.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Size of a message.
    pub bytes: u64,
    /// Measured average.
    pub average: f64,
    /// Measured peak, if the table has it.
    pub peak: Option<f64>,
    /// The model's average.
    pub model: f64,
}

impl Size {
    /// Returns for how many nanoseconds of each message the link is idle between bursts: only if
    /// the peak shows bursts, and the average is below the model's.
    pub fn idle_ns(&self) -> Option<f64> {
        let peak = self.peak?;
        let is_burst = peak > self.average * (1.0 + BURST_SHARE);
        let time_ns = |gbps| self.bytes as f64 * 8.0 / gbps;
        (is_burst && self.average < self.model).then(|| time_ns(self.average) - time_ns(peak))
    }
}

/// Returns what the peak column says about sizes, for a terminal; nothing if it says nothing.
pub fn text(sizes: impl Iterator<Item = Size>) -> String {
    let rows = sizes.filter_map(|size| {
        let row = format!(
            "  {:>8}  average {:>6.2} Gb/s, peak {:>6.2}: idle for {:>5.0} ns of each message",
            human_bytes(size.bytes as f64),
            size.average,
            size.peak?,
            size.idle_ns()?,
        );
        Some(row)
    });
    let mut text = String::new();
    for row in rows {
        if text.is_empty() {
            text.push_str(
                "the link is idle between bursts: a gap per message on the host's side, not a slow \
                 wire\n",
            );
        }
        let _ = writeln!(text, "{row}");
    }
    text
}
