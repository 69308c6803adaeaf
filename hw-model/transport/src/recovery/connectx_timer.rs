//! The retransmission timer of ConnectX-5 and ConnectX-6, as measured.
//!
//! Source: unionxic/rdma-fault-characterization (MIT), `harness/ack_timeout/NOTES.md`: a ConnectX-6
//! with firmware 20.43, one WRITE whose peer is in ERR, twelve pairs of timeout and retry count.
//!
//! With the limit of the local ACK timeout (`min_ack_timeout_limit_disabled` = 0, the default), a
//! timeout below [`SHORTEST_TIMEOUT`] counts as that one. Adaptive retransmissions come first, each
//! later after the one before, while their distance does not exceed the timeout. All of them use
//! one of the retries. The others follow at twice the timeout, and the last one fails the queue
//! pair.
//!
//! Without the limit there is no adaptive phase. A first expiry sends nothing; after it, each retry
//! takes one local ACK timeout.

use ferroce_units::Duration;

use super::expiry::{Expiry, Outcome};
use crate::attributes::{Attributes, LocalAckTimeout};

/// Distances of the adaptive retransmissions: differences of the measured times after the post
/// (20.7, 37.7, 71.4, 138.4, 239.1, 440.4, 977.3, 1782.4, 3930.3 and 8225.1 ms).
const ADAPTIVE_STEPS: [Duration; 10] = [
    Duration::from_us(20_700),
    Duration::from_us(17_000),
    Duration::from_us(33_700),
    Duration::from_us(67_000),
    Duration::from_us(100_700),
    Duration::from_us(201_300),
    Duration::from_us(536_900),
    Duration::from_us(805_100),
    Duration::from_us(2_147_900),
    Duration::from_us(4_294_800),
];
/// Shortest local ACK timeout while the limit is on: 4.096 us times 2^16.
const SHORTEST_TIMEOUT: LocalAckTimeout = LocalAckTimeout::new(16);
/// Local ACK timeouts between regular retransmissions while the limit is on.
const REGULAR_MULTIPLE: u64 = 2;
/// First expiry without the limit: this share of the local ACK timeout, and a constant. Both are
/// fitted to five rows; the measured times are 0.51 to 1.16 local ACK timeouts.
const FIRST_PERCENT: u64 = 57;
const FIRST_CONSTANT: Duration = Duration::from_us(500);

/// The schedule, which software chooses in ROCE_ACCL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectxSchedule {
    /// The adaptive phase, then regular retransmissions: `roce_adp_retrans_en`.
    Adaptive,
    /// Regular retransmissions only. Not measured: a guess.
    Regular,
    /// The queue pair's own timeout, however short: `min_ack_timeout_limit_disabled`.
    Unlimited,
}

/// Position of a queue pair in the schedule.
#[derive(Debug, Clone)]
pub(crate) struct ConnectxTimer {
    schedule: ConnectxSchedule,
    /// Expiries without progress.
    expiries: u32,
}

impl ConnectxTimer {
    pub(crate) const fn new(schedule: ConnectxSchedule) -> ConnectxTimer {
        ConnectxTimer {
            schedule,
            expiries: 0,
        }
    }

    /// Returns the number of adaptive retransmissions of a queue pair with `timeout`.
    fn adaptive_steps(&self, timeout: LocalAckTimeout) -> u32 {
        match (self.schedule, limited(timeout)) {
            (ConnectxSchedule::Adaptive, Some(limited)) => {
                let steps = ADAPTIVE_STEPS.iter();
                steps.take_while(|step| **step <= limited).count() as u32
            }
            _ => 0,
        }
    }

    /// Returns the time until the next expiry of a queue pair with `timeout`. `None`: never.
    pub(crate) fn delay(&self, timeout: LocalAckTimeout) -> Option<Duration> {
        let nominal = timeout.duration()?;
        if self.schedule == ConnectxSchedule::Unlimited {
            return Some(match self.expiries {
                0 => Duration(nominal.as_ps() / 100 * FIRST_PERCENT) + FIRST_CONSTANT,
                _ => nominal,
            });
        }
        let limited = limited(timeout)?;
        let regular = Duration(limited.as_ps().saturating_mul(REGULAR_MULTIPLE));
        let adaptive = self.adaptive_steps(timeout);
        let step = ADAPTIVE_STEPS.get(self.expiries as usize).copied();
        Some(match step {
            Some(step) if self.expiries < adaptive => step,
            // The first regular one comes when the next adaptive one would, if that is earlier.
            Some(step) if self.expiries == adaptive && adaptive > 0 => step.min(regular),
            _ => regular,
        })
    }

    /// Handles an expiry of a queue pair with these attributes.
    pub(crate) fn expire(&mut self, attributes: &Attributes) -> Expiry {
        self.expiries = self.expiries.saturating_add(1);
        let retries = u32::from(attributes.retry_count.value());
        let adaptive = self.adaptive_steps(attributes.timeout);
        let (first, last) = match self.schedule {
            // The card retransmits with a retry count of zero, too.
            ConnectxSchedule::Adaptive => (0, adaptive + retries.max(1) - 1),
            ConnectxSchedule::Regular => (0, retries + 1),
            ConnectxSchedule::Unlimited => (1, retries + 2),
        };
        Expiry {
            is_adaptive: self.expiries <= adaptive,
            outcome: match self.expiries {
                expiries if expiries <= first => Outcome::Wait,
                expiries if expiries < last => Outcome::Retransmit,
                _ => Outcome::GiveUp,
            },
        }
    }

    /// Records progress of the peer.
    #[inline]
    pub(crate) fn progress(&mut self) {
        self.expiries = 0;
    }
}

/// Returns the timeout that applies while the limit is enabled. `None`: the timer is off.
fn limited(timeout: LocalAckTimeout) -> Option<Duration> {
    let (nominal, shortest) = (timeout.duration()?, SHORTEST_TIMEOUT.duration()?);
    Some(nominal.max(shortest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attributes::RetryCount;

    /// Returns the time until the queue pair fails, in milliseconds, the number of adaptive and of
    /// regular expiries, and the number of transmissions.
    fn failure(schedule: ConnectxSchedule, timeout: u8, retry_count: u8) -> (f64, u32, u32, u32) {
        let mut attributes = Attributes::new();
        attributes.timeout = LocalAckTimeout::new(timeout);
        attributes.retry_count = RetryCount::new(retry_count);
        let mut timer = ConnectxTimer::new(schedule);
        let (mut waited, mut adaptive, mut regular, mut sent) = (Duration::ZERO, 0, 0, 1);
        loop {
            waited = waited + timer.delay(attributes.timeout).expect("the timer is on");
            let expiry = timer.expire(&attributes);
            adaptive += u32::from(expiry.is_adaptive);
            regular += u32::from(!expiry.is_adaptive);
            match expiry.outcome {
                Outcome::Wait => {}
                Outcome::Retransmit => sent += 1,
                Outcome::GiveUp => return (waited.as_ns() as f64 / 1e6, adaptive, regular, sent),
            }
        }
    }

    /// Goal: each row of the measured table. Method: its medians, within 3 %; its counts.
    #[test]
    fn a_dead_peer_is_reported_when_the_card_does() {
        use ConnectxSchedule::{Adaptive, Regular, Unlimited};
        let rows = [
            (Adaptive, 14, 7, 3661.8, 6, 6, 12),
            (Adaptive, 16, 7, 3661.8, 6, 6, 12),
            (Adaptive, 18, 7, 14667.8, 8, 6, 14),
            (Adaptive, 20, 7, 59766.3, 10, 6, 16),
            (Adaptive, 14, 1, 440.6, 6, 0, 6),
            (Adaptive, 14, 3, 1514.3, 6, 2, 8),
            (Adaptive, 14, 5, 2588.2, 6, 4, 10),
            (Unlimited, 8, 7, 9.49, 0, 9, 8),
            (Unlimited, 8, 3, 5.43, 0, 5, 4),
            (Unlimited, 12, 7, 147.04, 0, 9, 8),
            (Unlimited, 14, 7, 574.90, 0, 9, 8),
            (Unlimited, 14, 0, 105.07, 0, 2, 1),
            (Unlimited, 18, 7, 9219.88, 0, 9, 8),
        ];
        for (schedule, timeout, retries, measured_ms, adaptive, regular, sent) in rows {
            let (ms, found_adaptive, found_regular, found_sent) =
                failure(schedule, timeout, retries);
            let row = format!("{schedule:?}, timeout {timeout}, {retries} retries: {ms} ms");
            assert!((ms / measured_ms - 1.0).abs() < 0.03, "{row}");
            let found = (found_adaptive, found_regular, found_sent);
            assert_eq!(found, (adaptive, regular, sent), "{row}");
        }
        // Shorter timeouts are lengthened; a retry count of zero counts as one.
        assert_eq!(failure(Adaptive, 1, 7), failure(Adaptive, 16, 7));
        assert_eq!(failure(Adaptive, 14, 0), failure(Adaptive, 14, 1));
        assert_eq!(failure(Regular, 16, 7).1, 0);
    }

    #[test]
    fn progress_begins_the_schedule_again() {
        let attributes = Attributes::new();
        let timeout = LocalAckTimeout::new(14);
        let mut timer = ConnectxTimer::new(ConnectxSchedule::Adaptive);
        let first = timer.delay(timeout);
        timer.expire(&attributes);
        assert_ne!(timer.delay(timeout), first);
        timer.progress();
        assert_eq!(timer.delay(timeout), first);
        assert_eq!(timer.delay(LocalAckTimeout::new(0)), None);
    }
}
