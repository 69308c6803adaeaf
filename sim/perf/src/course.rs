//! The course of a run: the rate of each flow and the fullest queue, over time.

use ferroce_units::Instant;
use ferroce_world::QueueSample;

use crate::timeline::Timeline;

/// Intervals into which the time of a run is divided.
const INTERVALS: u64 = 100;

/// The queues of the ports of switches at a time.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The time.
    pub at: Instant,
    /// The ports, always in the same order.
    pub queues: Vec<QueueSample>,
}

/// Rates and a queue in equal intervals, from the first post of a flow to the last completion.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Course {
    /// When the first interval begins, in picoseconds of simulated time.
    pub start_ps: u64,
    /// How long each is.
    pub interval_ps: u64,
    /// Payload of each flow in each interval, in Gb/s.
    pub flows_gbps: Vec<Vec<f64>>,
    /// Bytes that waited at the port with the fullest queue, in the mean of each interval; empty
    /// without a fabric.
    pub queue_bytes: Vec<f64>,
}

impl Course {
    /// Returns the course of flows with messages of `size` bytes, and of the queue of the port with
    /// this index in `samples`.
    pub(super) fn new(
        size: u32,
        timelines: &[Timeline],
        samples: &[Sample],
        port: Option<usize>,
    ) -> Option<Self> {
        let start_ps = timelines.iter().filter_map(Timeline::start).min()?;
        let end_ps = timelines.iter().filter_map(Timeline::end).max()?;
        let interval_ps = (end_ps.saturating_sub(start_ps) / INTERVALS).max(1);
        let intervals = (0..INTERVALS).map(|index| {
            let start = start_ps + index * interval_ps;
            (start, start + interval_ps)
        });
        let of_flow = |timeline: &Timeline| {
            let rates = intervals.clone().map(|time| timeline.gbps(size, time));
            rates.collect()
        };
        let of_port = |port| {
            let means = intervals
                .clone()
                .map(|time| mean_bytes(samples, port, time));
            means.collect()
        };
        Some(Self {
            start_ps,
            interval_ps,
            flows_gbps: timelines.iter().map(of_flow).collect(),
            queue_bytes: port.map(of_port).unwrap_or_default(),
        })
    }

    /// Returns the middle of each interval in milliseconds since the start.
    pub fn middles_ms(&self) -> impl Iterator<Item = f64> {
        let interval_ms = self.interval_ps as f64 / 1e9;
        (0..INTERVALS).map(move |index| (index as f64 + 0.5) * interval_ms)
    }
}

/// Returns the mean of a queue between the samples that surround an interval.
fn mean_bytes(samples: &[Sample], port: usize, (start, end): (u64, u64)) -> f64 {
    let after = samples.partition_point(|sample| sample.at.as_ps() < end);
    let before = samples.partition_point(|sample| sample.at.as_ps() <= start);
    let (Some(first), Some(last)) = (
        samples.get(before.saturating_sub(1)),
        samples.get(after.min(samples.len().saturating_sub(1))),
    ) else {
        return 0.0;
    };
    let area = last.queues[port].area - first.queues[port].area;
    let time = last.at.saturating_since(first.at).as_ps();
    area as f64 / time.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_course_has_the_rate_and_the_queue_of_each_interval() {
        // 1000 bytes in each of the first 50 us, then a queue of 500 bytes and nothing else.
        let timeline = Timeline {
            posted: vec![0],
            completed: (1..=50)
                .map(|us| (us, us * 1_000_000))
                .chain([(51, 100_000_000)])
                .collect(),
        };
        let samples: Vec<_> = (0..=100)
            .map(|us: u64| Sample {
                at: Instant::from_us(us),
                queues: vec![QueueSample {
                    area: u128::from(us.saturating_sub(50)) * 1_000_000 * 500,
                    most_bytes: 500,
                }],
            })
            .collect();
        let course = Course::new(1000, &[timeline], &samples, Some(0)).expect("a flow");
        assert_eq!((course.start_ps, course.interval_ps), (0, 1_000_000));
        let rates = &course.flows_gbps[0];
        assert!(
            (rates[10] - 8.0).abs() < 1e-9 && rates[60] < 0.2,
            "{rates:?}"
        );
        assert_eq!(
            (course.queue_bytes[10], course.queue_bytes[60]),
            (0.0, 500.0)
        );
        assert_eq!(course.middles_ms().count(), 100);
    }

    #[test]
    fn a_run_without_messages_has_no_course() {
        assert_eq!(Course::new(1, &[Timeline::default()], &[], None), None);
    }
}
