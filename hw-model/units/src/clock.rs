//! A clock domain: the duration of a cycle, and the position of the next edge.

use crate::{Duration, Instant};

/// Femtoseconds in a picosecond. Periods are kept in femtoseconds, because 322.265625 MHz is not a
/// whole number of picoseconds.
const FS_PER_PS: u64 = 1_000;
/// Femtoseconds in a microsecond.
const FS_PER_US: f64 = 1e9;

/// A clock domain. Counts for five hours of simulated time; later edges are not aligned.
#[derive(Debug, Clone, Copy)]
pub struct ClockDomain {
    period_fs: u64,
    /// 2^64 divided by the period, rounded down: each block computes the next edge for each packet,
    /// and a division is slow.
    reciprocal: u64,
}

impl ClockDomain {
    /// Returns a clock of `mhz`, a positive number.
    pub fn from_mhz(mhz: f64) -> Self {
        let period_fs = ((FS_PER_US / mhz).round() as u64).max(1);
        let reciprocal = u64::MAX / period_fs;
        Self {
            period_fs,
            reciprocal,
        }
    }

    /// Returns the duration of `cycles`.
    pub const fn cycles(&self, cycles: u32) -> Duration {
        Duration::from_ps((cycles as u64 * self.period_fs).div_ceil(FS_PER_PS))
    }

    /// Returns the first edge at or after `at`.
    #[inline]
    pub fn edge(&self, at: Instant) -> Instant {
        let Some(at_fs) = at.as_ps().checked_mul(FS_PER_PS) else {
            return at;
        };
        let edges = self.periods_in(at_fs);
        // Rounded down, so that a time on an edge stays there.
        Instant(edges * self.period_fs / FS_PER_PS)
    }

    /// Returns the number of periods in a time, rounded up.
    #[inline]
    const fn periods_in(&self, time_fs: u64) -> u64 {
        // Rounded down, so at most one too few.
        let product = time_fs as u128 * self.reciprocal as u128;
        let periods = (product >> u64::BITS) as u64;
        let rest = time_fs - periods * self.period_fs;
        periods + (rest > 0) as u64 + (rest > self.period_fs) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_are_rounded_up() {
        let mut random = crate::random::SplitMix64::new(1);
        for mhz in [1e-3, 1.0, 156.25, 250.0, 322.265_625, 1e3, 1e9] {
            let clock = ClockDomain::from_mhz(mhz);
            let period = clock.period_fs;
            let near = |periods: u64| {
                let time = period.saturating_mul(periods);
                [time - 1, time, time.saturating_add(1)]
            };
            let times = (0..1000).flat_map(|_| near(1 + random.below(u64::MAX / period)));
            let ends = [0, 1, period, u64::MAX];
            for time in times.chain(ends) {
                assert_eq!(
                    clock.periods_in(time),
                    time.div_ceil(period),
                    "{mhz} {time}"
                );
            }
        }
    }

    #[test]
    fn edges_do_not_drift_from_their_clock() {
        let clock = ClockDomain::from_mhz(322.265_625);
        let mut at = Instant::ZERO;
        for _ in 0..322_265_625u64 / 1000 {
            at = clock.edge(at + Duration::from_ps(1));
        }
        // A thousandth of the cycles of a second, accurate to one cycle in a million.
        assert!(at.as_ps().abs_diff(1_000_000_000) < 4_000, "{at:?}");
        assert_eq!(clock.edge(at), at, "an edge is an edge");
        assert_eq!(
            ClockDomain::from_mhz(250.0).cycles(3),
            Duration::from_ns(12)
        );
    }
}
