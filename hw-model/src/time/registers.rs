//! Registers for what is under way at once: a miss, a WQE that is read again, an atomic.

use ferroce_units::{Duration, Instant};

/// A number of registers, each in use until an instant. They are given in turn: the one that was
/// given first is the next to be free.
///
/// As the time of any block, that of a register is reserved from the event on that wants it. A flow
/// that has to wait for something else first does not keep the register from others meanwhile.
#[derive(Debug)]
pub struct Registers {
    free_at: Box<[Instant]>,
    next: usize,
    /// When the next one is free, beside the state of the block that asks with each packet.
    next_free_at: Instant,
    busy: Duration,
}

impl Registers {
    /// `count` free registers, at least one.
    pub fn new(count: usize) -> Self {
        Self {
            free_at: vec![Instant::ZERO; count.max(1)].into_boxed_slice(),
            next: 0,
            next_free_at: Instant::ZERO,
            busy: Duration::ZERO,
        }
    }

    /// Gives the next register to a flow that has begun at `now` and wants it at `at`.
    #[inline]
    pub fn take(&mut self, now: Instant, at: Instant) -> Lease {
        let register = self.next;
        self.next = (register + 1) % self.free_at.len();
        self.next_free_at = self.free_at[self.next];
        let reserved = self.free_at[register].max(now);
        Lease {
            register,
            reserved,
            at: at.max(reserved),
        }
    }

    /// Returns the time at which the next register is free.
    #[inline]
    pub fn free_at(&self) -> Instant {
        self.next_free_at
    }

    /// The flow is done with the register at `until`. Returns when the register is free: `until`,
    /// if
    /// the flow had to wait for nothing else.
    #[inline]
    pub fn give_back(&mut self, lease: Lease, until: Instant) -> Instant {
        let held = until - lease.at;
        let free_at = lease.reserved + held;
        self.busy = self.busy + held;
        self.free_at[lease.register] = free_at;
        self.next_free_at = self.free_at[self.next];
        free_at
    }

    /// Returns the number of registers, and the times together for which each has been in use.
    pub fn usage(&self) -> (usize, Duration) {
        (self.free_at.len(), self.busy)
    }
}

/// A register that was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    register: usize,
    /// From when on its time is reserved.
    reserved: Instant,
    /// When the flow has it.
    pub at: Instant,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_when_all_are_in_use_waits_for_the_oldest() {
        let mut registers = Registers::new(2);
        for until in [7, 9] {
            let lease = registers.take(Instant(5), Instant(5));
            assert_eq!(lease.at, Instant(5));
            assert_eq!(registers.give_back(lease, Instant(until)), Instant(until));
        }
        assert_eq!(registers.take(Instant(6), Instant(6)).at, Instant(7));
        assert_eq!(registers.take(Instant(20), Instant(20)).at, Instant(20));
    }

    #[test]
    fn a_later_lease_does_not_delay_an_earlier_one() {
        let mut registers = Registers::new(1);
        let later = registers.take(Instant(5), Instant(500));
        assert_eq!(later.at, Instant(500));
        assert_eq!(registers.give_back(later, Instant(510)), Instant(15));
        assert_eq!(registers.take(Instant(6), Instant(6)).at, Instant(15));
    }
}
