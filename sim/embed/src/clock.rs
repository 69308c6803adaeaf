//! The clock of a function that runs in real time.
//!
//! The model reads the time several times per message, so this reads the time stamp counter
//! directly and converts it to picoseconds with one multiplication. Where the counter is not
//! reliable, the system's monotonic clock replaces it, at about ten times the cost.

use ferroce_platform::os;
use ferroce_units::Instant;

/// Duration of the calibration against the system's clock whenever a device is opened. A reading is
/// accurate to about 100 ns, so the rate is accurate to 0.1 %.
const CALIBRATION_NS: u64 = 200_000;
/// Pairs of readings taken at each end; the one that took the shortest time is used.
const CALIBRATION_SAMPLES: u32 = 8;
const PS_PER_NS: u64 = 1_000;

/// A reading of the machine-wide counter of [`Clock::ticks`].
///
/// Ticks of different processes on one machine are comparable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticks(pub u64);

impl Ticks {
    /// Returns the ticks from `earlier` to `self`; zero if another processor's reading is slightly
    /// ahead.
    #[inline]
    #[must_use]
    pub fn since(self, earlier: Ticks) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// Monotonic time since the clock was created.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    start: u64,
    /// Picoseconds per tick, with 32 fractional bits.
    scale: u64,
    uses_time_stamp: bool,
}

impl Clock {
    /// Creates a clock that starts now. Takes about [`CALIBRATION_NS`].
    #[must_use]
    pub fn start() -> Self {
        #[cfg(target_arch = "x86_64")]
        if os::time_stamp_is_invariant() {
            return Self::calibrated();
        }
        Self {
            start: os::monotonic_ns(),
            scale: PS_PER_NS << 32,
            uses_time_stamp: false,
        }
    }

    #[cfg(target_arch = "x86_64")]
    fn calibrated() -> Self {
        let (first_ticks, first_ns) = simultaneous();
        while os::monotonic_ns() < first_ns + CALIBRATION_NS {
            std::hint::spin_loop();
        }
        let (last_ticks, last_ns) = simultaneous();
        let picoseconds = u128::from(last_ns - first_ns) * u128::from(PS_PER_NS);
        let ticks = u128::from(last_ticks.saturating_sub(first_ticks)).max(1);
        let scale = ((picoseconds << 32) / ticks) as u64;
        Self {
            start: last_ticks,
            scale,
            uses_time_stamp: true,
        }
    }

    /// Reads the counter.
    #[inline]
    #[must_use]
    pub fn ticks(&self) -> Ticks {
        #[cfg(target_arch = "x86_64")]
        if self.uses_time_stamp {
            return Ticks(os::time_stamp());
        }
        Ticks(os::monotonic_ns())
    }

    /// Converts a reading of the counter to a time.
    #[inline]
    #[must_use]
    pub fn instant(&self, ticks: Ticks) -> Instant {
        let elapsed = ticks.0.saturating_sub(self.start);
        Instant(((u128::from(elapsed) * u128::from(self.scale)) >> 32) as u64)
    }

    /// Returns the time.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Instant {
        self.instant(self.ticks())
    }

    /// Converts ticks to nanoseconds.
    #[must_use]
    pub fn ns_of_ticks(&self, ticks: u64) -> u64 {
        ((u128::from(ticks) * u128::from(self.scale)) >> 32) as u64 / PS_PER_NS
    }

    /// Converts nanoseconds to ticks.
    #[must_use]
    pub fn ticks_of_ns(&self, ns: u64) -> u64 {
        (((u128::from(ns) * u128::from(PS_PER_NS)) << 32) / u128::from(self.scale.max(1))) as u64
    }
}

/// Reads both clocks as close together as this machine allows.
#[cfg(target_arch = "x86_64")]
fn simultaneous() -> (u64, u64) {
    let mut best = (u64::MAX, 0, 0);
    for _ in 0..CALIBRATION_SAMPLES {
        let before = os::time_stamp();
        let ns = os::monotonic_ns();
        let after = os::time_stamp();
        let width = after.saturating_sub(before);
        if width < best.0 {
            best = (width, before + width / 2, ns);
        }
    }
    (best.1, best.2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_pace_with_the_system_clock() {
        let clock = Clock::start();
        let (ours, theirs) = (clock.now(), os::monotonic_ns());
        // Both clocks measure this sleep.
        std::thread::sleep(std::time::Duration::from_millis(50));
        let (ours, theirs) = (clock.now() - ours, os::monotonic_ns() - theirs);
        let difference_ns = ours.as_ns().abs_diff(theirs);
        assert!(
            difference_ns < theirs / 50,
            "{} ns against {theirs} ns",
            ours.as_ns()
        );
    }

    #[test]
    fn ticks_convert_both_ways() {
        let clock = Clock::start();
        let ticks = clock.ticks_of_ns(1_000_000);
        let span = clock.instant(Ticks(clock.start + ticks));
        assert!(span.as_ns().abs_diff(1_000_000) <= 2, "{} ns", span.as_ns());
        assert!(clock.ns_of_ticks(ticks).abs_diff(1_000_000) <= 2);
    }
}
