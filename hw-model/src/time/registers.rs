//! Registers that limit concurrency: of misses, WQEs that are read again, and atomics.

use ferroce_units::{Duration, Instant};

/// A number of registers, each in use until an instant. They are used in rotation: the register
/// that was taken first is expected to be free first.
///
/// Like the time of any block, the time of a register is reserved from the requesting event on. A
/// flow that first has to wait for something else does not keep the register from others meanwhile.
#[derive(Debug)]
pub struct Registers {
    free_at: Box<[Instant]>,
    next: usize,
    /// When the next one is free, cached for the block that checks it with each packet.
    next_free_at: Instant,
    busy: Duration,
}

impl Registers {
    /// Returns `count` free registers, at least one.
    pub fn new(count: usize) -> Self {
        Self {
            free_at: vec![Instant::ZERO; count.max(1)].into_boxed_slice(),
            next: 0,
            next_free_at: Instant::ZERO,
            busy: Duration::ZERO,
        }
    }

    /// Takes the next register for a flow that began at `now` and needs it at `at`.
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

    /// Releases the register at `until`. Returns when the register is free: `until`, if the flow
    /// had to wait for nothing else.
    #[inline]
    pub fn give_back(&mut self, lease: Lease, until: Instant) -> Instant {
        let held = until - lease.at;
        let free_at = lease.reserved + held;
        self.busy = self.busy + held;
        self.free_at[lease.register] = free_at;
        self.next_free_at = self.free_at[self.next];
        free_at
    }

    /// Returns the number of registers, and the total time for which they were in use.
    pub fn usage(&self) -> (usize, Duration) {
        (self.free_at.len(), self.busy)
    }
}

/// A register that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    register: usize,
    /// Start of the reservation.
    reserved: Instant,
    /// When the flow gets the register.
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
