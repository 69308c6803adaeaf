//! The reaction point: queue pairs that received a CNP send at their own rates.
//!
//! A queue pair that may not send yet is not in the scheduler's lists.

use ferroce_units::heap::IndexedHeap;
use ferroce_units::{Duration, Instant};

use super::{Algorithm, RateControl};

/// Bytes on the wire in addition to the frame: preamble, frame check sequence, gap (IEEE 802.3).
const WIRE_OVERHEAD_BYTES: u32 = 24;
/// A queue pair that is served late catches up by no more than this.
const MOST_LATE: Duration = Duration::from_us(1);

/// A queue pair with its own rate.
#[derive(Debug)]
struct Limit {
    control: Box<dyn RateControl>,
    /// The time at which it may send its next packet.
    next_send: Instant,
    /// Rate of its last packet; the line rate before its first.
    paced_mbps: f64,
}

/// Summary of the queue pairs with their own rates, for a recorder.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LimitedRates {
    /// Their number.
    pub queue_pairs: usize,
    /// Rate of the last packet of the slowest one; the line rate if there is none.
    pub lowest_mbps: f64,
}

/// The queue pairs with their own rates.
#[derive(Debug)]
pub(crate) struct ReactionPoint {
    algorithm: Algorithm,
    line_rate_mbps: f64,
    /// By index in the QP context table; as long as the highest index that has had a limit.
    limits: Vec<Option<Limit>>,
    /// Queue pairs that may not send yet.
    due: IndexedHeap<Instant>,
}

impl ReactionPoint {
    pub fn new(algorithm: Algorithm, line_rate_mbps: f64) -> Self {
        Self {
            algorithm,
            line_rate_mbps,
            limits: Vec::new(),
            due: IndexedHeap::new(0),
        }
    }

    /// Handles a CNP for the queue pair at `index`.
    pub fn congested(&mut self, now: Instant, index: u32) {
        while self.limits.len() <= index as usize {
            self.limits.push(None);
            self.due.add_index();
        }
        let limit = &mut self.limits[index as usize];
        if limit.is_none() {
            let control = self.algorithm.start(now, self.line_rate_mbps);
            *limit = control.map(|control| Limit {
                control,
                next_send: now,
                paced_mbps: self.line_rate_mbps,
            });
        }
        if let Some(limit) = limit {
            limit.control.congested(now);
        }
    }

    /// Returns true if the queue pair at `index` may not send yet. [`ReactionPoint::pop_due`]
    /// returns it when it may.
    #[inline]
    pub fn waits(&mut self, now: Instant, index: u32) -> bool {
        let limit = self.limits.get(index as usize);
        let Some(Some(limit)) = limit else {
            return false;
        };
        let waits = limit.next_send > now;
        if waits {
            self.due.set(index, limit.next_send);
        }
        waits
    }

    /// Returns true if the queue pair at `index` has its own rate.
    #[inline]
    pub fn is_limited(&self, index: u32) -> bool {
        self.limits.get(index as usize).is_some_and(Option::is_some)
    }

    /// Records that the queue pair at `index` has sent a frame of `bytes`.
    #[inline]
    pub fn sent(&mut self, now: Instant, index: u32, bytes: u32) {
        let Some(Some(limit)) = self.limits.get_mut(index as usize) else {
            return;
        };
        let bytes = bytes + WIRE_OVERHEAD_BYTES;
        limit.control.sent(now, bytes);
        let rate_mbps = limit.control.rate_mbps(now).unwrap_or(self.line_rate_mbps);
        limit.paced_mbps = rate_mbps;
        // A byte takes 8 * 10^6 / rate picoseconds.
        let time = (f64::from(bytes) * 8e6 / rate_mbps).round() as u64;
        limit.next_send = limit.next_send.max(now - MOST_LATE) + Duration::from_ps(time);
    }

    /// Returns the rate of the queue pair at `index` in Mb/s; `None`: the line rate.
    #[cfg(test)]
    pub fn rate_mbps(&mut self, now: Instant, index: u32) -> Option<f64> {
        let limit = self.limits.get_mut(index as usize)?.as_mut()?;
        limit.control.rate_mbps(now)
    }

    /// Returns the rates of the queue pairs with their own rates.
    pub fn limited(&self) -> LimitedRates {
        let paced = self.limits.iter().flatten().map(|limit| limit.paced_mbps);
        LimitedRates {
            queue_pairs: paced.clone().count(),
            lowest_mbps: paced.fold(self.line_rate_mbps, f64::min),
        }
    }

    /// Returns the time at which the first waiting queue pair may send.
    #[inline]
    pub fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(due, _)| due)
    }

    /// Takes the next queue pair that may send again.
    #[inline]
    pub fn pop_due(&mut self, now: Instant) -> Option<u32> {
        let (due, index) = self.due.first()?;
        if due > now {
            return None;
        }
        self.due.remove(index);
        Some(index)
    }

    pub fn forget(&mut self, index: u32) {
        if let Some(limit) = self.limits.get_mut(index as usize) {
            *limit = None;
            self.due.remove(index);
        }
    }

    pub fn reset(&mut self) {
        self.limits.clear();
        self.due = IndexedHeap::new(0);
    }
}

#[cfg(test)]
mod tests {
    use super::super::dcqcn::DcqcnParameters;
    use super::*;

    #[test]
    fn a_queue_pair_keeps_to_its_rate() {
        let algorithm = Algorithm::Dcqcn(DcqcnParameters::CONNECTX);
        let mut point = ReactionPoint::new(algorithm, 100_000.0);
        let mut now = Instant::from_us(10);
        assert!(!point.waits(now, 3) && !point.is_limited(3));
        point.congested(now, 3);
        let rate = point.rate_mbps(now, 3).expect("a rate");
        assert!((49_000.0..51_000.0).contains(&rate), "{rate}");
        // 4 us without a byte or time event.
        let begin = now;
        for _ in 0..10 {
            point.sent(now, 3, 1000);
            assert!(point.waits(now, 3));
            now = point.next_due().expect("it waits");
            assert_eq!(point.pop_due(now - Duration(1)), None);
            assert_eq!(point.pop_due(now), Some(3));
            assert!(!point.waits(now, 3));
        }
        let gbps = 10.0 * 1024.0 * 8.0 / (now - begin).as_ns() as f64;
        assert!((49.0..52.0).contains(&gbps), "{gbps}");
        point.forget(3);
        assert!(!point.is_limited(3));
    }

    #[test]
    fn without_an_algorithm_nothing_is_limited() {
        let mut point = ReactionPoint::new(Algorithm::None, 100_000.0);
        point.congested(Instant::from_us(1), 3);
        assert!(!point.is_limited(3) && !point.waits(Instant::from_us(1), 3));
    }
}
