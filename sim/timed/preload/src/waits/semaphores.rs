//! POSIX semaphores.

#![expect(unsafe_code, reason = "functions of libc")]

use std::ffi::c_int;

use ferroce_timed_protocol::page::NEVER_PS;
use libc::{clockid_t, sem_t, timespec};

use super::outside_until;
use super::sleepers::{self, ANY};
use crate::own::{Ended, Own};
use crate::real;
use crate::time_formats::read_absolute;

/// Waits for a semaphore, until `deadline_ps` at most. `None`: the world has ended.
///
/// # Safety
/// The contract of `sem_wait`.
unsafe fn wait_until(own: &Own, semaphore: *mut sem_t, deadline_ps: u64) -> Option<c_int> {
    loop {
        // SAFETY: the caller guarantees that the semaphore is valid.
        if unsafe { real::sem_trywait(semaphore) } == 0 {
            return Some(0);
        }
        if real::errno() != libc::EAGAIN {
            return Some(-1);
        }
        if own.now_ps() >= deadline_ps {
            return Some(real::failed(libc::ETIMEDOUT));
        }
        match sleepers::sleep(own, semaphore.addr(), ANY, deadline_ps) {
            Ended::Interrupted { restarts: false } => return Some(real::failed(libc::EINTR)),
            Ended::NoWorld => return None,
            Ended::Interrupted { restarts: true } | Ended::Answered(_) | Ended::TimedOut => {}
        }
    }
}

/// `sem_wait` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_wait(semaphore: *mut sem_t) -> c_int {
    // SAFETY: by the contract of `sem_wait`, the semaphore is valid.
    let wait = || unsafe { real::sem_wait(semaphore) };
    let Some(own) = Own::enter("sem_wait") else {
        return wait();
    };
    // SAFETY: by the contract of `sem_wait`, the semaphore is valid.
    if unsafe { real::sem_trywait(semaphore) } == 0 {
        return 0;
    }
    if !sleepers::are_simulated(semaphore.addr()) {
        return own.outside(wait);
    }
    // SAFETY: by the contract of `sem_wait`, the semaphore is valid.
    unsafe { wait_until(&own, semaphore, NEVER_PS) }.unwrap_or_else(wait)
}

/// `sem_timedwait` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_timedwait(semaphore: *mut sem_t, time: *const timespec) -> c_int {
    // SAFETY: by the contract of `sem_timedwait`, the arguments are valid.
    unsafe { sem_clockwait(semaphore, libc::CLOCK_REALTIME, time) }
}

/// `sem_clockwait` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_clockwait(
    semaphore: *mut sem_t,
    clock: clockid_t,
    time: *const timespec,
) -> c_int {
    // SAFETY: by the contract of `sem_clockwait`, the arguments are valid.
    let wait = |clock, time| unsafe { real::sem_clockwait(semaphore, clock, time) };
    // SAFETY: by the contract of `sem_clockwait`, the time is valid.
    let deadline_ps = unsafe { read_absolute(clock, time) };
    let (Some(own), Some(deadline_ps)) = (Own::enter("sem_clockwait"), deadline_ps) else {
        return wait(clock, time);
    };
    // SAFETY: by the contract of `sem_clockwait`, the semaphore is valid.
    if unsafe { real::sem_trywait(semaphore) } == 0 {
        return 0;
    }
    let ended = match sleepers::are_simulated(semaphore.addr()) {
        // SAFETY: by the contract of `sem_clockwait`, the semaphore is valid.
        true => unsafe { wait_until(&own, semaphore, deadline_ps) },
        false => None,
    };
    ended.unwrap_or_else(|| outside_until(&own, deadline_ps, wait))
}

/// `sem_post` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_post(semaphore: *mut sem_t) -> c_int {
    // SAFETY: by the contract of `sem_post`, the semaphore is valid.
    let result = unsafe { real::sem_post(semaphore) };
    if result == 0 {
        sleepers::wake(semaphore.addr(), 1);
    }
    result
}
