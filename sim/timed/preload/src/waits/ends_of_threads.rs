//! Waiting for the end of a thread.

#![expect(unsafe_code, reason = "functions of libc")]

use std::ffi::{c_int, c_void};

use ferroce_timed_protocol::PS_PER_NS;
use ferroce_timed_protocol::page::NEVER_PS;
use libc::{clockid_t, pthread_t, timespec};

use super::outside_until;
use super::sleepers::{self, ANY};
use crate::next::next;
use crate::os::real_ns;
use crate::own::{Ended, Own};
use crate::time_formats::{read_absolute, timespec_of};
use crate::{real, thread_table};

type JoinUntil =
    unsafe extern "C" fn(pthread_t, *mut *mut c_void, clockid_t, *const timespec) -> c_int;

/// Real time that the kernel may need to end a thread that has ended for the world.
const LAST_MOMENT_NS: u64 = 100_000_000;

/// Joins a thread that is not in the world: it has just ended, or it was never there.
///
/// # Safety
/// The contract of `pthread_join`.
unsafe fn join_unknown(thread: pthread_t, result: *mut *mut c_void) -> c_int {
    let Some(join_until) = next!(c"pthread_clockjoin_np" as JoinUntil) else {
        return libc::ETIMEDOUT;
    };
    let limit = timespec_of((real_ns() + LAST_MOMENT_NS) * PS_PER_NS);
    // SAFETY: the caller keeps the contract of `pthread_join`; the time is a local.
    unsafe { join_until(thread, result, libc::CLOCK_MONOTONIC, &raw const limit) }
}

/// Waits until a thread has ended, until `deadline_ps` at most. Returns false if it has not, or is
/// outside of the world.
fn wait_for_end(own: &Own, thread: pthread_t, deadline_ps: u64) -> bool {
    let is_alive = || thread_table::number_of(thread);
    let Some(address) = is_alive().and_then(thread_table::address_of) else {
        return false;
    };
    while is_alive().is_some() && own.now_ps() < deadline_ps {
        if sleepers::sleep(own, address, ANY, deadline_ps) == Ended::NoWorld {
            return false;
        }
    }
    is_alive().is_none()
}

/// `pthread_join` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_join(thread: pthread_t, result: *mut *mut c_void) -> c_int {
    // SAFETY: by the contract of `pthread_join`, the arguments are valid.
    let join = || unsafe { real::pthread_join(thread, result) };
    let Some(own) = Own::enter("pthread_join") else {
        return join();
    };
    // SAFETY: by the contract of `pthread_join`, the arguments are valid.
    match unsafe { libc::pthread_tryjoin_np(thread, result) } {
        // The kernel needs a moment to end it.
        libc::EBUSY if wait_for_end(&own, thread, NEVER_PS) => join(),
        // SAFETY: by the contract of `pthread_join`, the arguments are valid.
        libc::EBUSY => match unsafe { join_unknown(thread, result) } {
            libc::ETIMEDOUT => own.outside(join),
            joined => joined,
        },
        joined => joined,
    }
}

/// `pthread_timedjoin_np` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_timedjoin_np(
    thread: pthread_t,
    result: *mut *mut c_void,
    time: *const timespec,
) -> c_int {
    // SAFETY: by the contract of `pthread_timedjoin_np`, the arguments are valid.
    unsafe { pthread_clockjoin_np(thread, result, libc::CLOCK_REALTIME, time) }
}

/// `pthread_clockjoin_np` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_clockjoin_np(
    thread: pthread_t,
    result: *mut *mut c_void,
    clock: clockid_t,
    time: *const timespec,
) -> c_int {
    let Some(join_until) = next!(c"pthread_clockjoin_np" as JoinUntil) else {
        return libc::ENOSYS;
    };
    // SAFETY: by the contract of `pthread_clockjoin_np`, the arguments are valid.
    let join = |clock, time| unsafe { join_until(thread, result, clock, time) };
    // SAFETY: by the contract of `pthread_clockjoin_np`, the time is null or valid.
    let deadline_ps = unsafe { read_absolute(clock, time) };
    let (Some(own), Some(deadline_ps)) = (Own::enter("pthread_clockjoin_np"), deadline_ps) else {
        return join(clock, time);
    };
    // SAFETY: by the contract of `pthread_clockjoin_np`, the arguments are valid.
    match unsafe { libc::pthread_tryjoin_np(thread, result) } {
        libc::EBUSY if wait_for_end(&own, thread, deadline_ps) => {
            // SAFETY: by the contract of `pthread_clockjoin_np`, the arguments are valid.
            unsafe { real::pthread_join(thread, result) }
        }
        libc::EBUSY if own.now_ps() >= deadline_ps => libc::ETIMEDOUT,
        // SAFETY: by the contract of `pthread_clockjoin_np`, the arguments are valid.
        libc::EBUSY => match unsafe { join_unknown(thread, result) } {
            libc::ETIMEDOUT => outside_until(&own, deadline_ps, join),
            joined => joined,
        },
        joined => joined,
    }
}
