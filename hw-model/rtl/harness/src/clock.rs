//! Clocks of a module, and the order of their edges.

/// A clock of a module. Generated types have a constant for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock(u32);

impl Clock {
    /// Returns the clock with this index in the list of `build::Module::clocks`.
    ///
    /// # Panics
    /// If it is 64 or more.
    pub const fn new(index: u32) -> Self {
        assert!(index < u64::BITS, "a module has at most 64 clocks");
        Self(index)
    }
}

/// Clocks that rise at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rising(u64);

impl Rising {
    /// Returns the first clock alone.
    pub const fn first() -> Self {
        Self(1)
    }

    /// Returns true if the clock is one of them.
    pub const fn contains(self, clock: Clock) -> bool {
        self.0 >> clock.0 & 1 != 0
    }

    /// Returns a bit for each clock.
    pub(crate) const fn bits(self) -> u64 {
        self.0
    }
}

/// A free-running clock.
#[derive(Debug, Clone, Copy)]
struct Running {
    clock: Clock,
    period: u64,
    next: u64,
}

/// Free-running clocks: their periods decide which one rises next.
#[derive(Debug, Clone, Default)]
pub struct Clocks(Vec<Running>);

impl Clocks {
    /// Returns no clocks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a clock that rises each `period` units of time, for the first time after `offset`. The
    /// unit is the user's, picoseconds for example: waveforms have it, too.
    ///
    /// # Panics
    /// If the period is zero.
    #[must_use]
    pub fn with(mut self, clock: Clock, period: u64, offset: u64) -> Self {
        assert!(period > 0, "a clock has a period");
        self.0.push(Running {
            clock,
            period,
            next: offset,
        });
        self
    }

    /// Returns the time of the next edge, and the clocks that rise then. None rises if there are no
    /// clocks.
    pub(crate) fn take_next(&mut self) -> (u64, Rising) {
        let time = self.0.iter().map(|running| running.next).min();
        let time = time.unwrap_or_default();
        let mut rising = Rising::default();
        for running in self.0.iter_mut().filter(|running| running.next == time) {
            rising.0 |= 1 << running.clock.0;
            running.next += running.period;
        }
        (time, rising)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_rise_in_the_order_of_their_edges() {
        let (a, b) = (Clock::new(0), Clock::new(5));
        let mut clocks = Clocks::new().with(a, 3, 0).with(b, 2, 1);
        let edges: Vec<_> = (0..6).map(|_| clocks.take_next()).collect();
        let times: Vec<u64> = edges.iter().map(|(time, _)| *time).collect();
        assert_eq!(times, [0, 1, 3, 5, 6, 7]);
        let both = edges[2].1;
        assert!(both.contains(a) && both.contains(b));
        assert!(!edges[1].1.contains(a) && edges[1].1.contains(b));
    }
}
