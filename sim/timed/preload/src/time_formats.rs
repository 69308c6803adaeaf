//! Conversions between the time structs of C and the world's picoseconds.
#![expect(unsafe_code, reason = "times by their address")]

use ferroce_timed_protocol::{MONOTONIC_EPOCH_S, PS_PER_NS, REALTIME_EPOCH_S};
use libc::{clockid_t, timespec, timeval};

const PS_PER_US: u64 = 1_000_000;

/// Converts a time in seconds and `fraction`, a number of units of `unit_ps`. Returns `None` if it
/// is invalid.
pub fn picoseconds(seconds: i64, fraction: i64, unit_ps: u64) -> Option<u64> {
    const SECOND_PS: u64 = 1_000_000_000_000;
    let fraction = u64::try_from(fraction).ok()?;
    if fraction.checked_mul(unit_ps)? >= SECOND_PS {
        return None;
    }
    let seconds = u64::try_from(seconds).ok()?.saturating_mul(SECOND_PS);
    Some(seconds.saturating_add(fraction * unit_ps))
}

/// Converts a time. `None`: it is null or invalid.
///
/// # Safety
/// `time` is null or valid.
pub unsafe fn read_time(time: *const timespec) -> Option<u64> {
    // SAFETY: the caller guarantees that `time` is null or valid.
    let time = unsafe { time.as_ref() }?;
    picoseconds(time.tv_sec, time.tv_nsec, PS_PER_NS)
}

/// Returns `time_ps`, rounded up.
pub fn timespec_of(time_ps: u64) -> timespec {
    let nanoseconds = time_ps.div_ceil(PS_PER_NS);
    timespec {
        tv_sec: (nanoseconds / 1_000_000_000) as libc::time_t,
        tv_nsec: (nanoseconds % 1_000_000_000) as _,
    }
}

/// Returns the value of a clock, in seconds, at the world's zero. `None`: it is not simulated.
pub fn epoch_s(clock: clockid_t) -> Option<u64> {
    match clock {
        libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_ALARM | libc::CLOCK_TAI => {
            Some(REALTIME_EPOCH_S)
        }
        libc::CLOCK_MONOTONIC | libc::CLOCK_BOOTTIME | libc::CLOCK_BOOTTIME_ALARM => {
            Some(MONOTONIC_EPOCH_S)
        }
        _ => None,
    }
}

/// Converts the absolute `time` of `clock` to the clock of the world; times before its zero are
/// zero. `None`: invalid, or the clock is not simulated.
///
/// # Safety
/// `time` is null or valid.
pub unsafe fn read_absolute(clock: clockid_t, time: *const timespec) -> Option<u64> {
    // SAFETY: the caller guarantees that `time` is null or valid.
    let time = unsafe { time.as_ref() }?;
    let epoch_s = i64::try_from(epoch_s(clock)?).ok()?;
    match time.tv_sec.checked_sub(epoch_s) {
        Some(seconds @ 0..) => picoseconds(seconds, time.tv_nsec, PS_PER_NS),
        _ => Some(0),
    }
}

/// Converts a time. `None`: it is invalid.
pub fn picoseconds_of_timeval(time: timeval) -> Option<u64> {
    picoseconds(time.tv_sec, time.tv_usec, PS_PER_US)
}

/// Returns `time_ps`, rounded up.
pub fn timeval_of(time_ps: u64) -> timeval {
    let microseconds = time_ps.div_ceil(PS_PER_US);
    timeval {
        tv_sec: (microseconds / 1_000_000) as libc::time_t,
        tv_usec: (microseconds % 1_000_000) as libc::suseconds_t,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_converted_or_refused() {
        assert_eq!(picoseconds(1, 5, 1000), Some(1_000_000_005_000));
        assert_eq!(picoseconds(0, 999_999, 1_000_000), Some(999_999_000_000));
        assert_eq!(picoseconds(0, 1_000_000, 1_000_000), None);
        assert_eq!(picoseconds(0, -1, 1000), None);
        assert_eq!(picoseconds(-1, 0, 1000), None);
        assert_eq!(picoseconds(i64::MAX, 0, 1000), Some(u64::MAX));
    }
}
