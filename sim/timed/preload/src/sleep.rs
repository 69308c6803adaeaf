//! Sleeping.

#![expect(unsafe_code, reason = "functions of libc")]

use std::ffi::{c_int, c_uint};

use ferroce_timed_protocol::page::NEVER_PS;
use ferroce_timed_protocol::request::Wait;
use libc::{clockid_t, timespec};

use crate::own::{Ended, Own};
use crate::real;
use crate::time_formats::{epoch_s, read_absolute, read_time, timespec_of};

const PS_PER_US: u64 = 1_000_000;
const PS_PER_S: u64 = 1_000_000_000_000;

/// Sleeps until `end_ps`. Returns the time left after a signal. A sleep of no length yields.
fn sleep_until(own: &Own, end_ps: u64) -> u64 {
    let wait = Wait::At { time_ps: end_ps };
    if own.now_ps() >= end_ps {
        own.yield_turn();
        return 0;
    }
    while own.now_ps() < end_ps {
        match own.wait(&wait, NEVER_PS) {
            Ended::Interrupted { .. } => return end_ps.saturating_sub(own.now_ps()),
            Ended::NoWorld => return 0,
            Ended::Answered(_) | Ended::TimedOut => {}
        }
    }
    0
}

fn sleep_for(own: &Own, time_ps: u64) -> u64 {
    sleep_until(own, own.now_ps().saturating_add(time_ps))
}

/// `sleep` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sleep(seconds: c_uint) -> c_uint {
    let Some(own) = Own::enter("sleep") else {
        // SAFETY: the caller keeps the contract of `sleep`, which takes no pointers.
        return unsafe { real::sleep(seconds) };
    };
    let left_ps = sleep_for(&own, u64::from(seconds) * PS_PER_S);
    left_ps.div_ceil(PS_PER_S) as c_uint
}

/// `usleep` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn usleep(microseconds: c_uint) -> c_int {
    let Some(own) = Own::enter("usleep") else {
        // SAFETY: the caller keeps the contract of `usleep`, which takes no pointers.
        return unsafe { real::usleep(microseconds) };
    };
    match sleep_for(&own, u64::from(microseconds) * PS_PER_US) {
        0 => 0,
        _ => real::failed(libc::EINTR),
    }
}

/// `nanosleep` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nanosleep(time: *const timespec, rest: *mut timespec) -> c_int {
    // SAFETY: by the contract of `nanosleep`, the times are valid.
    match unsafe { clock_nanosleep(libc::CLOCK_REALTIME, 0, time, rest) } {
        0 => 0,
        errno => real::failed(errno),
    }
}

/// `clock_nanosleep` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_nanosleep(
    clock: clockid_t,
    flags: c_int,
    time: *const timespec,
    rest: *mut timespec,
) -> c_int {
    let is_absolute = flags & libc::TIMER_ABSTIME != 0;
    // SAFETY: by the contract of `clock_nanosleep`, the time is valid.
    let (absolute_ps, relative_ps) = unsafe { (read_absolute(clock, time), read_time(time)) };
    let time_ps = if is_absolute {
        absolute_ps
    } else {
        relative_ps.filter(|_| epoch_s(clock).is_some())
    };
    let (Some(own), Some(time_ps)) = (Own::enter("clock_nanosleep"), time_ps) else {
        // SAFETY: by the contract of `clock_nanosleep`, the arguments are valid.
        return unsafe { real::clock_nanosleep(clock, flags, time, rest) };
    };
    let left_ps = if is_absolute {
        sleep_until(&own, time_ps)
    } else {
        sleep_for(&own, time_ps)
    };
    if left_ps == 0 {
        return 0;
    }
    if !is_absolute && !rest.is_null() {
        // SAFETY: by the contract of `clock_nanosleep`, the time is valid.
        unsafe { rest.write(timespec_of(left_ps)) };
    }
    libc::EINTR
}
