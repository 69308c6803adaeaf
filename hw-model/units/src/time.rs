//! Time in the transport: picoseconds since an arbitrary start, always an argument.
//!
//! There is no clock in this crate. The caller decides whether an [`Instant`] is wall time or
//! simulated time; the same seed and the same instants give the same packets.

use std::ops::{Add, AddAssign, Sub};

/// A point in time, in picoseconds since a start that the caller chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(pub u64);

/// A span of time in picoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Duration(pub u64);

const PS_PER_NS: u64 = 1_000;
const PS_PER_US: u64 = 1_000_000;
const PS_PER_MS: u64 = 1_000_000_000;

impl Instant {
    /// The start of time.
    pub const ZERO: Instant = Instant(0);
    /// A point that is never reached (213 days after the start).
    pub const MAX: Instant = Instant(u64::MAX);

    /// Returns the point `ns` nanoseconds after the start.
    #[must_use]
    pub const fn from_ns(ns: u64) -> Instant {
        Instant(ns.saturating_mul(PS_PER_NS))
    }

    /// Returns the point `us` microseconds after the start.
    #[must_use]
    pub const fn from_us(us: u64) -> Instant {
        Instant(us.saturating_mul(PS_PER_US))
    }

    /// Returns the picoseconds since the start.
    #[must_use]
    pub const fn as_ps(self) -> u64 {
        self.0
    }

    /// Returns whole nanoseconds since the start.
    #[must_use]
    pub const fn as_ns(self) -> u64 {
        self.0 / PS_PER_NS
    }

    /// Returns the earliest of the given times. It is branch-free, because in a simulation the
    /// order is unpredictable.
    #[inline]
    #[must_use]
    pub fn first<const N: usize>(times: [Option<Instant>; N]) -> Option<Instant> {
        let first = times.map(|time| time.unwrap_or(Instant::MAX));
        let first = first.into_iter().fold(Instant::MAX, Instant::min);
        (first != Instant::MAX).then_some(first)
    }

    /// Returns the duration from `earlier` to `self`; zero if `self` is not later.
    #[must_use]
    pub const fn saturating_since(self, earlier: Instant) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
}

impl Duration {
    /// A span of zero.
    pub const ZERO: Duration = Duration(0);

    /// Returns a span of `ps` picoseconds.
    #[must_use]
    pub const fn from_ps(ps: u64) -> Duration {
        Duration(ps)
    }

    /// Returns a span of `ns` nanoseconds.
    #[must_use]
    pub const fn from_ns(ns: u64) -> Duration {
        Duration(ns.saturating_mul(PS_PER_NS))
    }

    /// Returns a span of `us` microseconds.
    #[must_use]
    pub const fn from_us(us: u64) -> Duration {
        Duration(us.saturating_mul(PS_PER_US))
    }

    /// Returns a span of `ms` milliseconds.
    #[must_use]
    pub const fn from_ms(ms: u64) -> Duration {
        Duration(ms.saturating_mul(PS_PER_MS))
    }

    /// Returns the picoseconds.
    #[must_use]
    pub const fn as_ps(self) -> u64 {
        self.0
    }

    /// Returns whole nanoseconds.
    #[must_use]
    pub const fn as_ns(self) -> u64 {
        self.0 / PS_PER_NS
    }

    /// Returns true if the duration is zero.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;
    fn add(self, span: Duration) -> Instant {
        Instant(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, span: Duration) {
        *self = *self + span;
    }
}

impl Sub<Instant> for Instant {
    type Output = Duration;
    /// Saturates at zero, as [`Instant::saturating_since`] does.
    fn sub(self, earlier: Instant) -> Duration {
        self.saturating_since(earlier)
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;
    /// Saturates at the start of time.
    fn sub(self, span: Duration) -> Instant {
        Instant(self.0.saturating_sub(span.0))
    }
}

impl Add for Duration {
    type Output = Duration;
    fn add(self, other: Duration) -> Duration {
        Duration(self.0.saturating_add(other.0))
    }
}

impl Sub for Duration {
    type Output = Duration;
    fn sub(self, other: Duration) -> Duration {
        Duration(self.0.saturating_sub(other.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_time_is_found_among_those_that_there_are() {
        let [early, late] = [3, 7].map(|ns| Some(Instant::from_ns(ns)));
        assert_eq!(Instant::first([late, None, early]), early);
        assert_eq!(Instant::first([None, None]), None);
        assert_eq!(Instant::first([]), None);
    }

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        assert_eq!(Instant::MAX + Duration::from_ns(1), Instant::MAX);
        assert_eq!(Instant::ZERO - Instant::from_us(3), Duration::ZERO);
        assert_eq!(Duration::from_ns(1) - Duration::from_ns(2), Duration::ZERO);
        assert_eq!(
            Instant::from_us(2) - Instant::from_ns(500),
            Duration::from_ns(1500)
        );
        assert_eq!(Duration::from_ms(1), Duration::from_us(1000));
        assert_eq!(Duration::from_us(1).as_ns(), 1000);
    }
}
