//! A clock domain: what a cycle is, and where the next edge is.

use crate::{Duration, Instant};

/// Femtoseconds in a picosecond. Periods are kept in femtoseconds: 322.265625 MHz is no whole
/// number of picoseconds.
const FS_PER_PS: u64 = 1_000;
/// Femtoseconds in a microsecond.
const FS_PER_US: f64 = 1e9;

/// A clock domain. Counts for five hours of simulated time; later edges are not aligned.
#[derive(Debug, Clone, Copy)]
pub struct ClockDomain {
    period_fs: u64,
}

impl ClockDomain {
    /// A clock of `mhz`, a positive number.
    pub fn from_mhz(mhz: f64) -> Self {
        let period_fs = ((FS_PER_US / mhz).round() as u64).max(1);
        Self { period_fs }
    }

    /// Returns the duration of `cycles`.
    pub const fn cycles(&self, cycles: u32) -> Duration {
        Duration::from_ps((cycles as u64 * self.period_fs).div_ceil(FS_PER_PS))
    }

    /// The first edge that is not before `at`.
    #[inline]
    pub fn edge(&self, at: Instant) -> Instant {
        let Some(at_fs) = at.as_ps().checked_mul(FS_PER_PS) else {
            return at;
        };
        let edges = at_fs.div_ceil(self.period_fs);
        // Rounded down: what is on an edge stays there.
        Instant(edges * self.period_fs / FS_PER_PS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_do_not_drift_from_their_clock() {
        let clock = ClockDomain::from_mhz(322.265_625);
        let mut at = Instant::ZERO;
        for _ in 0..322_265_625u64 / 1000 {
            at = clock.edge(at + Duration::from_ps(1));
        }
        // A thousandth of the cycles of a second, to one cycle in a million.
        assert!(at.as_ps().abs_diff(1_000_000_000) < 4_000, "{at:?}");
        assert_eq!(clock.edge(at), at, "an edge is an edge");
        assert_eq!(
            ClockDomain::from_mhz(250.0).cycles(3),
            Duration::from_ns(12)
        );
    }
}
