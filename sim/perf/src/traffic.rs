//! Flows between several hosts, and how they share the fabric.
//!
//! A flow is the traffic from one thread of a host to another host. Rates and queues are measured
//! in the second half of the time in which all flows send, without its last quarter: in the first
//! half congestion control settles, and at the end queues become empty.

use ferroce_model::preset::Preset;
use ferroce_units::Duration;
use ferroce_world::{FabricNode, FabricReport};

use crate::course::{Course, Sample};
use crate::timeline::Timeline;

/// Overhead of a packet in the middle of a message: Ethernet, IPv4, UDP, BTH and ICRC, and the
/// bytes that Ethernet adds on the wire.
const OVERHEAD_BYTES: f64 = (14 + 20 + 8 + 12 + 4 + 24) as f64;

/// A flow.
#[derive(Debug, Clone, PartialEq)]
pub struct Flow {
    /// The host that sends.
    pub from: u32,
    /// The host that receives.
    pub to: u32,
    /// Payload in the window, in Gb/s.
    pub gbps: f64,
    /// From the first post to the last completion.
    pub completion_ps: u64,
}

/// The queue of the port that was fullest in the window.
#[derive(Debug, Clone, PartialEq)]
pub struct Queue {
    /// The port: its node and the next node.
    pub port: (FabricNode, FabricNode),
    /// Maximum number of queued bytes.
    pub most_bytes: u64,
    /// Mean number of queued bytes.
    pub mean_bytes: f64,
}

/// Rates, queues and fairness of flows.
#[derive(Debug, Clone, PartialEq)]
pub struct Traffic {
    /// The flows.
    pub flows: Vec<Flow>,
    /// Start and end of the window, in picoseconds of simulated time.
    pub window_ps: (u64, u64),
    /// Payload of all flows as a share of the capacity of the receivers' links.
    pub utilisation: f64,
    /// Jain's index of fairness: 1 if all flows have the same rate.
    pub jain: f64,
    /// The rate of the slowest flow divided by the rate of the fastest.
    pub least_of_most: f64,
    /// Median and 99th percentile of the completion times of flows.
    pub completion_ps: (u64, u64),
    /// The fullest queue; `None`: there is no fabric.
    pub queue: Option<Queue>,
    /// Counters of the fabric, for the whole run.
    pub fabric: Option<FabricReport>,
    /// Rates and the fullest queue over time.
    pub course: Course,
}

impl Traffic {
    /// Returns the traffic of the flows `ends`: each has sent messages of `size` bytes at these
    /// times.
    pub fn new(
        preset: &Preset,
        (size, mtu): (u32, u32),
        ends: &[(u32, u32)],
        timelines: &[Timeline],
        fabric: Option<FabricReport>,
        samples: &[Sample],
    ) -> Option<Self> {
        let start = timelines.iter().filter_map(Timeline::start).max()?;
        let end = timelines.iter().filter_map(Timeline::end).min()?;
        let common = end.saturating_sub(start);
        let window = (start + common / 2, start + common / 8 * 7);
        let flows: Vec<Flow> = ends
            .iter()
            .zip(timelines)
            .map(|(&(from, to), timeline)| Flow {
                from,
                to,
                gbps: timeline.gbps(size, window),
                completion_ps: timeline.end().unwrap_or(0) - timeline.start().unwrap_or(0),
            })
            .collect();
        let rates: Vec<f64> = flows.iter().map(|flow| flow.gbps).collect();
        let (least, most) = rates
            .iter()
            .fold((f64::INFINITY, 0.0), |(least, most), rate| {
                (rate.min(least), rate.max(most))
            });
        let mut receivers: Vec<u32> = flows.iter().map(|flow| flow.to).collect();
        receivers.sort_unstable();
        receivers.dedup();
        let queue = fabric
            .as_ref()
            .and_then(|fabric| fullest(fabric, samples, window));
        let port = queue.as_ref().map(|(port, _)| *port);
        let payload = f64::from(mtu) / (f64::from(mtu) + OVERHEAD_BYTES);
        let capacity = preset.mac.rate_gbps * payload * receivers.len() as f64;
        Some(Self {
            window_ps: window,
            utilisation: rates.iter().sum::<f64>() / capacity,
            jain: jain(&rates),
            least_of_most: if most > 0.0 { least / most } else { 0.0 },
            completion_ps: percentiles(&flows),
            queue: queue.map(|(_, queue)| queue),
            fabric,
            course: Course::new(size, timelines, samples, port)?,
            flows,
        })
    }
}

/// Returns Jain's index (Jain, Chiu, Hawe, DEC-TR-301, 1984).
fn jain(rates: &[f64]) -> f64 {
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    if squares > 0.0 {
        sum * sum / (rates.len() as f64 * squares)
    } else {
        0.0
    }
}

fn percentiles(flows: &[Flow]) -> (u64, u64) {
    let mut times: Vec<u64> = flows.iter().map(|flow| flow.completion_ps).collect();
    times.sort_unstable();
    let at = |percent: usize| {
        let rank = (times.len() * percent).div_ceil(100).max(1);
        times.get(rank - 1).copied().unwrap_or(0)
    };
    (at(50), at(99))
}

/// Returns the queue with the largest mean in a window, and the index of its port.
fn fullest(
    fabric: &FabricReport,
    samples: &[Sample],
    (start, end): (u64, u64),
) -> Option<(usize, Queue)> {
    let is_inside = |sample: &&Sample| (start..=end).contains(&sample.at.as_ps());
    let inside: Vec<&Sample> = samples.iter().filter(is_inside).collect();
    let (first, last) = (inside.first()?, inside.last()?);
    let time = last.at.saturating_since(first.at);
    if time == Duration::ZERO {
        return None;
    }
    let queues = fabric.switch_ports().enumerate().map(|(index, port)| {
        let area = last.queues[index].area - first.queues[index].area;
        let later = &inside[1..];
        let most = later.iter().map(|sample| sample.queues[index].most_bytes);
        let queue = Queue {
            port: (port.from, port.to),
            most_bytes: most.max().unwrap_or(0),
            mean_bytes: area as f64 / time.as_ps() as f64,
        };
        (index, queue)
    });
    queues.max_by(|(_, one), (_, other)| one.mean_bytes.total_cmp(&other.mean_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jains_index_is_one_for_equal_rates() {
        assert_eq!(jain(&[5.0, 5.0, 5.0]), 1.0);
        assert_eq!(jain(&[1.0, 0.0, 0.0, 0.0]), 0.25);
        assert_eq!(jain(&[]), 0.0);
    }
}
