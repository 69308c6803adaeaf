//! The timers of one queue pair: one enum, one fixed array.

use ferroce_units::Instant;

/// The kinds of timers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timer {
    /// Local ACK timeout of the requester: no acknowledgement arrived.
    Retransmit = 0,
    /// The responder was not ready; nothing is sent until this expires.
    RnrBackoff = 1,
    /// The deadline of a delayed positive ACK.
    Acknowledge = 2,
}

const TIMERS: usize = 3;

/// Deadlines by [`Timer`]; a stopped timer has the maximum time.
#[derive(Debug, Clone)]
pub(crate) struct Timers {
    deadlines: [Instant; TIMERS],
}

impl Timers {
    pub(crate) const fn new() -> Timers {
        Timers {
            deadlines: [Instant::MAX; TIMERS],
        }
    }

    pub(crate) fn set(&mut self, timer: Timer, deadline: Instant) {
        self.deadlines[timer as usize] = deadline;
    }

    pub(crate) fn stop(&mut self, timer: Timer) {
        self.deadlines[timer as usize] = Instant::MAX;
    }

    pub(crate) fn stop_all(&mut self) {
        *self = Timers::new();
    }

    pub(crate) fn is_set(&self, timer: Timer) -> bool {
        self.deadlines[timer as usize] != Instant::MAX
    }

    /// Returns true if `timer` has expired by `now`.
    pub(crate) fn is_due(&self, timer: Timer, now: Instant) -> bool {
        self.is_set(timer) && self.deadlines[timer as usize] <= now
    }

    /// Stops `timer` and returns true if it had expired by `now`.
    pub(crate) fn take_expired(&mut self, timer: Timer, now: Instant) -> bool {
        let expired = self.is_due(timer, now);
        if expired {
            self.stop(timer);
        }
        expired
    }

    /// Returns the earliest deadline.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let [a, b, c] = self.deadlines;
        let earliest = a.min(b).min(c);
        (earliest != Instant::MAX).then_some(earliest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earliest_deadline_wins_and_expires_once() {
        let mut timers = Timers::new();
        assert_eq!(timers.next_timeout(), None);
        timers.set(Timer::Retransmit, Instant::from_us(10));
        timers.set(Timer::Acknowledge, Instant::from_us(2));
        assert_eq!(timers.next_timeout(), Some(Instant::from_us(2)));
        assert!(!timers.take_expired(Timer::Acknowledge, Instant::from_us(1)));
        assert!(timers.take_expired(Timer::Acknowledge, Instant::from_us(2)));
        assert!(!timers.take_expired(Timer::Acknowledge, Instant::from_us(3)));
        assert_eq!(timers.next_timeout(), Some(Instant::from_us(10)));
        timers.stop_all();
        assert_eq!(timers.next_timeout(), None);
    }
}
