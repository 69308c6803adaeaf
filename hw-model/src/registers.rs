//! Registers for what is under way at once: a miss, a WQE that is read again, an atomic.

use ferroce_transport::Instant;

/// A number of registers, each in use until an instant. They are given in turn: the one that was
/// given first is the next to be free.
#[derive(Debug)]
pub struct Registers {
    free_at: Box<[Instant]>,
    next: usize,
}

impl Registers {
    /// `count` free registers, at least one.
    pub fn new(count: usize) -> Self {
        Self {
            free_at: vec![Instant::ZERO; count.max(1)].into_boxed_slice(),
            next: 0,
        }
    }

    /// Gives the next register, and when it is free for who wants it at `at`.
    #[inline]
    pub fn take(&mut self, at: Instant) -> (usize, Instant) {
        let register = self.next;
        self.next = (register + 1) % self.free_at.len();
        (register, at.max(self.free_at[register]))
    }

    /// The register is in use until `until`.
    #[inline]
    pub fn hold(&mut self, register: usize, until: Instant) {
        self.free_at[register] = until;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_when_all_are_in_use_waits_for_the_oldest() {
        let mut registers = Registers::new(2);
        for until in [7, 9] {
            let (register, at) = registers.take(Instant(5));
            assert_eq!(at, Instant(5));
            registers.hold(register, Instant(until));
        }
        assert_eq!(registers.take(Instant(6)).1, Instant(7));
        assert_eq!(registers.take(Instant(20)).1, Instant(20));
    }
}
