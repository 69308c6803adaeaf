//! The functions of the C library that read the time.
//!
//! Clocks that count processor time stay real.
#![expect(unsafe_code, reason = "exported functions of the C library")]

use std::ffi::{c_int, c_void};

use ferroce_timed_protocol::{MONOTONIC_EPOCH_S, PS_PER_NS, REALTIME_EPOCH_S};
use libc::{clockid_t, time_t, timespec, timeval};

use crate::clock::read_ps;
use crate::next::next;
use crate::os::{self, set_errno};

const NS_PER_S: u64 = 1_000_000_000;
/// Seconds by which International Atomic Time is ahead of UTC.
const TAI_OFFSET_S: u64 = 37;

/// Returns the time of a simulated clock. `None`: the clock is not simulated, or the calling thread
/// runs in real time.
fn simulated(clock: clockid_t) -> Option<timespec> {
    let epoch_s = match clock {
        libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE | libc::CLOCK_REALTIME_ALARM => {
            REALTIME_EPOCH_S
        }
        libc::CLOCK_TAI => REALTIME_EPOCH_S + TAI_OFFSET_S,
        libc::CLOCK_MONOTONIC
        | libc::CLOCK_MONOTONIC_RAW
        | libc::CLOCK_MONOTONIC_COARSE
        | libc::CLOCK_BOOTTIME
        | libc::CLOCK_BOOTTIME_ALARM => MONOTONIC_EPOCH_S,
        _ => return None,
    };
    let clock_ns = read_ps()? / PS_PER_NS;
    Some(timespec {
        tv_sec: (epoch_s + clock_ns / NS_PER_S) as time_t,
        tv_nsec: (clock_ns % NS_PER_S) as libc::c_long,
    })
}

/// Replaces the vDSO's `clock_gettime`: like a system call, it returns a negative errno.
///
/// # Safety
/// `time` is null or has room.
pub unsafe extern "C" fn vdso_clock_gettime(clock: clockid_t, time: *mut timespec) -> c_int {
    match simulated(clock).map_or_else(|| os::clock_gettime(clock), Ok) {
        Ok(_) if time.is_null() => -libc::EFAULT,
        Ok(now) => {
            // SAFETY: the caller guarantees that `time` is null or has room, and null is excluded.
            unsafe { time.write(now) };
            0
        }
        Err(errno) => -errno,
    }
}

/// Replaces the vDSO's `gettimeofday`.
///
/// # Safety
/// `time` is null or has room; so has `zone`, for two `int`.
pub unsafe extern "C" fn vdso_gettimeofday(time: *mut timeval, zone: *mut c_void) -> c_int {
    let clock = libc::CLOCK_REALTIME;
    let now = match simulated(clock).map_or_else(|| os::clock_gettime(clock), Ok) {
        Ok(now) => now,
        Err(errno) => return -errno,
    };
    if !time.is_null() {
        let microseconds = now.tv_nsec / 1000;
        // SAFETY: the caller guarantees that `time` is null or has room, and null is excluded.
        unsafe {
            time.write(timeval {
                tv_sec: now.tv_sec,
                tv_usec: microseconds,
            });
        }
    }
    if !zone.is_null() {
        // SAFETY: the caller guarantees room for two `int`, and null is excluded. UTC without
        // daylight saving, as the kernel returns.
        unsafe { zone.cast::<[c_int; 2]>().write([0, 0]) };
    }
    0
}

/// Replaces the vDSO's `time`.
///
/// # Safety
/// `seconds` is null or has room.
pub unsafe extern "C" fn vdso_time(seconds: *mut time_t) -> time_t {
    let clock = libc::CLOCK_REALTIME;
    let now = simulated(clock).map_or_else(|| os::clock_gettime(clock), Ok);
    let now = now.map_or(0, |now| now.tv_sec);
    if !seconds.is_null() {
        // SAFETY: the caller guarantees that `seconds` is null or has room, and null is excluded.
        unsafe { seconds.write(now) };
    }
    now
}

/// Converts a negative errno to the C library's convention.
fn with_errno(result: c_int) -> c_int {
    match result {
        0 => 0,
        error => {
            set_errno(-error);
            -1
        }
    }
}

/// # Safety
/// The contract of the C library's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: clockid_t, time: *mut timespec) -> c_int {
    if let Some(now) = simulated(clock).filter(|_| !time.is_null()) {
        // SAFETY: by the contract of `clock_gettime`, `time` has room; null is excluded.
        unsafe { time.write(now) };
        return 0;
    }
    match next!(c"clock_gettime" as unsafe extern "C" fn(clockid_t, *mut timespec) -> c_int) {
        // SAFETY: the caller keeps the contract of `clock_gettime`; the arguments are passed on.
        Some(real) => unsafe { real(clock, time) },
        // SAFETY: by the contract of `clock_gettime`, `time` is null or has room.
        None => with_errno(unsafe { vdso_clock_gettime(clock, time) }),
    }
}

/// # Safety
/// The contract of the C library's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gettimeofday(time: *mut timeval, zone: *mut c_void) -> c_int {
    if crate::joined::is_joined() {
        // SAFETY: by the contract of `gettimeofday`, both pointers are null or have room.
        return with_errno(unsafe { vdso_gettimeofday(time, zone) });
    }
    match next!(c"gettimeofday" as unsafe extern "C" fn(*mut timeval, *mut c_void) -> c_int) {
        // SAFETY: the caller keeps the contract of `gettimeofday`; the arguments are passed on.
        Some(real) => unsafe { real(time, zone) },
        // SAFETY: by the contract of `gettimeofday`, both pointers are null or have room.
        None => with_errno(unsafe { vdso_gettimeofday(time, zone) }),
    }
}

/// # Safety
/// The contract of the C library's function of this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn time(seconds: *mut time_t) -> time_t {
    if crate::joined::is_joined() {
        // SAFETY: by the contract of `time`, `seconds` is null or has room.
        return unsafe { vdso_time(seconds) };
    }
    match next!(c"time" as unsafe extern "C" fn(*mut time_t) -> time_t) {
        // SAFETY: the caller keeps the contract of `time`; the argument is passed on.
        Some(real) => unsafe { real(seconds) },
        // SAFETY: by the contract of `time`, `seconds` is null or has room.
        None => unsafe { vdso_time(seconds) },
    }
}
