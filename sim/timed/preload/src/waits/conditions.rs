//! Condition variables.
//!
//! A thread that waits in simulated time is not among the waiting threads that the C library knows,
//! so a signal wakes both kinds.

#![expect(unsafe_code, reason = "functions of libc")]

use std::ffi::c_int;

use ferroce_timed_protocol::page::NEVER_PS;
use libc::{clockid_t, pthread_cond_t, pthread_mutex_t, timespec};

use super::sleepers::{self, ALL, ANY};
use super::{mutexes, outside_until};
use crate::own::{Ended, Own};
use crate::time_formats::read_absolute;
use crate::{real, sleeper_counts};

/// Waits for a condition, until `deadline_ps` at most.
///
/// # Safety
/// The contract of `pthread_cond_wait`.
unsafe fn wait_until(
    own: &Own,
    condition: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    deadline_ps: u64,
) -> c_int {
    if sleeper_counts::are_at(mutex.addr()) {
        // No other thread may run between the release of the mutex and the wait: it could signal a
        // condition for which this thread does not wait yet.
        own.settle();
    }
    // SAFETY: by the contract of `pthread_cond_wait`, the calling thread owns the mutex.
    let result = unsafe { real::pthread_mutex_unlock(mutex) };
    if result != 0 {
        return result;
    }
    sleepers::wake_by(own, mutex.addr(), 1);
    // After a signal handler, and at the end of the world, the program looks at its condition.
    let ended = match own.now_ps() < deadline_ps {
        true => sleepers::sleep(own, condition.addr(), ANY, deadline_ps),
        false => Ended::TimedOut,
    };
    // SAFETY: by the contract of `pthread_cond_wait`, the mutex is valid.
    match unsafe { mutexes::take_again(own, mutex) } {
        0 if ended == Ended::TimedOut => libc::ETIMEDOUT,
        result => result,
    }
}

/// Waits for a condition until a time of a clock.
///
/// # Safety
/// The contract of `pthread_cond_clockwait`.
unsafe fn wait_by(
    own: &Own,
    condition: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    clock: clockid_t,
    time: *const timespec,
) -> c_int {
    // SAFETY: the caller keeps the contract of `pthread_cond_clockwait`; only the deadline differs.
    let wait = |clock, time| unsafe { real::pthread_cond_clockwait(condition, mutex, clock, time) };
    // SAFETY: by the contract of `pthread_cond_clockwait`, the time is valid.
    match unsafe { read_absolute(clock, time) } {
        // SAFETY: the caller keeps the contract.
        Some(deadline_ps) if sleepers::are_simulated(condition.addr()) => unsafe {
            wait_until(own, condition, mutex, deadline_ps)
        },
        Some(deadline_ps) => outside_until(own, deadline_ps, wait),
        None => own.outside(|| wait(clock, time)),
    }
}

/// `pthread_cond_wait` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_wait(
    condition: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
) -> c_int {
    // SAFETY: by the contract of `pthread_cond_wait`, the arguments are valid.
    let wait = || unsafe { real::pthread_cond_wait(condition, mutex) };
    match Own::enter("pthread_cond_wait") {
        // SAFETY: by the contract of `pthread_cond_wait`, the arguments are valid.
        Some(own) if sleepers::are_simulated(condition.addr()) => unsafe {
            wait_until(&own, condition, mutex, NEVER_PS)
        },
        Some(own) => own.outside(wait),
        None => wait(),
    }
}

/// `pthread_cond_timedwait` of libc.
///
/// The clock of a condition variable is not known here: a time of less than half the realtime
/// clock's is taken for monotonic time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_timedwait(
    condition: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    time: *const timespec,
) -> c_int {
    const HALF: i64 = (ferroce_timed_protocol::REALTIME_EPOCH_S / 2) as i64;
    let Some(own) = Own::enter("pthread_cond_timedwait") else {
        // SAFETY: by the contract of `pthread_cond_timedwait`, the arguments are valid.
        return unsafe { real::pthread_cond_timedwait(condition, mutex, time) };
    };
    // SAFETY: by the contract of `pthread_cond_timedwait`, the time is valid or null.
    let is_monotonic = unsafe { time.as_ref() }.is_some_and(|time| time.tv_sec < HALF);
    let clock = if is_monotonic {
        libc::CLOCK_MONOTONIC
    } else {
        libc::CLOCK_REALTIME
    };
    // SAFETY: by the contract of `pthread_cond_timedwait`, the arguments are valid.
    unsafe { wait_by(&own, condition, mutex, clock, time) }
}

/// `pthread_cond_clockwait` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_clockwait(
    condition: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    clock: clockid_t,
    time: *const timespec,
) -> c_int {
    match Own::enter("pthread_cond_clockwait") {
        // SAFETY: by the contract of `pthread_cond_clockwait`, the arguments are valid.
        Some(own) => unsafe { wait_by(&own, condition, mutex, clock, time) },
        // SAFETY: by the contract of `pthread_cond_clockwait`, the arguments are valid.
        None => unsafe { real::pthread_cond_clockwait(condition, mutex, clock, time) },
    }
}

/// `pthread_cond_signal` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_signal(condition: *mut pthread_cond_t) -> c_int {
    // SAFETY: by the contract of `pthread_cond_signal`, the condition variable is valid.
    let result = unsafe { real::pthread_cond_signal(condition) };
    sleepers::wake(condition.addr(), 1);
    result
}

/// `pthread_cond_broadcast` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_broadcast(condition: *mut pthread_cond_t) -> c_int {
    // SAFETY: by the contract of `pthread_cond_broadcast`, the condition variable is valid.
    let result = unsafe { real::pthread_cond_broadcast(condition) };
    sleepers::wake(condition.addr(), ALL);
    result
}
