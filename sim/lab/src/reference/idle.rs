//! A link that is idle between bursts, as perftest's peak column shows it.
//!
//! The peak is the best rate between any two completions of a run, the average is that of the whole
//! run. Where a wire or a slot is slow, both are slow. Where the peak is far above the average, the
//! messages came at the peak's rate, and then nothing came: something on the host's side takes time
//! for each message that the wire does not hide.

use std::fmt::Write as _;

use ferroce_perf::number_text::human_bytes;

use super::comparison::Line;

/// Minimum share by which the peak exceeds the average of a link that is idle between bursts. In
/// most tables the two differ by less than 3 % on the plateau, and by up to 8 % without a cause
/// that lasts.
const BURST_SHARE: f64 = 0.1;

impl Line {
    /// Returns for how many nanoseconds of each message the link is idle between bursts: only if
    /// the peak shows bursts, and the average is below the model's.
    pub fn idle_ns(&self) -> Option<f64> {
        let peak = self.peak?;
        let is_burst = peak > self.measured * (1.0 + BURST_SHARE);
        let time_ns = |gbps| self.bytes as f64 * 8.0 / gbps;
        (is_burst && self.measured < self.model).then(|| time_ns(self.measured) - time_ns(peak))
    }
}

/// Returns what the peak column says about the lines, for a terminal; nothing if it says nothing.
pub(super) fn text(lines: &[Line]) -> String {
    let idle = lines.iter().filter_map(|line| {
        let row = format!(
            "  {:>8}  average {:>6.2} Gb/s, peak {:>6.2}: idle for {:>5.0} ns of each message",
            human_bytes(line.bytes as f64),
            line.measured,
            line.peak?,
            line.idle_ns()?,
        );
        Some(row)
    });
    let mut text = String::new();
    for row in idle {
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

#[cfg(test)]
mod tests {
    use ferroce_model::preset::Preset;

    use crate::reference::comparison::{self, Comparison};
    use crate::reference::experiment::tests::Constant;
    use crate::reference::table_csv;

    /// Rows of a host with ConnectX-6 whose server ran on the socket without the card.
    const REMOTE_SOCKET: &str = "\
# command: ib_write_bw -a
# link_gbps: 200
# link_layer: InfiniBand HDR
# mtu: 4096
bytes,bw_peak,bw_avg,unit,msgrate_mpps
512,1007.82,1007.51,MiB/s,2.063390
2048,2286.24,1975.36,MiB/s,1.011383
4096,9513.14,2561.96,MiB/s,0.655862
16384,10586.62,5599.69,MiB/s,0.358380
65536,10765.91,8902.73,MiB/s,0.142444
131072,10771.95,9920.94,MiB/s,0.079368
8388608,10788.20,10787.86,MiB/s,0.001348
";

    fn compared(rate_mpps: f64) -> Comparison {
        let model = Constant {
            rate_mpps,
            latency_us: 1.0,
        };
        let preset = Preset::load("cx6-200g").expect("a built-in preset");
        let table = table_csv::parse("remote_socket", REMOTE_SOCKET).expect("a table");
        comparison::compare(&model, &preset, &table[0]).expect("it can be run")
    }

    #[test]
    fn a_peak_far_above_the_average_is_a_gap_per_message() {
        let comparison = compared(7.0);
        let idle = comparison.lines.iter();
        let idle: Vec<_> = idle
            .filter_map(|line| Some((line.bytes, line.idle_ns()?.round())))
            .collect();
        assert_eq!(
            idle,
            [
                (2048, 134.0),
                (4096, 1114.0),
                (16384, 1314.0),
                (65536, 1215.0)
            ]
        );
        let text = comparison.text();
        assert!(
            text.contains("idle between bursts: a gap per message"),
            "{text}"
        );
        assert!(text.contains("idle for  1114 ns of each message"), "{text}");
        let json = comparison.json();
        assert_eq!(json["sizes"][0]["idle_ns"], serde_json::Value::Null);
        let idle = json["sizes"][2]["idle_ns"].as_f64().expect("a number");
        assert!((idle - 1114.0).abs() < 1.0, "{json}");
        let peak = json["sizes"][2]["peak_gbps"].as_f64().expect("a number");
        assert!((peak - 79.8).abs() < 0.1, "{json}");
    }

    #[test]
    fn nothing_is_said_where_the_model_is_not_faster() {
        let comparison = compared(0.001);
        assert!(comparison.lines.iter().all(|line| line.idle_ns().is_none()));
        assert!(!comparison.text().contains("idle"));
    }
}
