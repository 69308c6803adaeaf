//! `alarm` and `setitimer`.

#![expect(unsafe_code, reason = "functions of libc")]

use std::ffi::{c_int, c_uint};

use ferroce_timed_protocol::page::NEVER_PS;
use libc::{itimerval, timeval};

use super::own_page;
use super::table::{TIMERS, Timer};
use crate::own::{Own, picoseconds};
use crate::real;

const PS_PER_US: u64 = 1_000_000;
const PS_PER_S: u64 = 1_000_000_000_000;
const NO_TIME: itimerval = itimerval {
    it_interval: timeval {
        tv_sec: 0,
        tv_usec: 0,
    },
    it_value: timeval {
        tv_sec: 0,
        tv_usec: 0,
    },
};

/// Returns the time until a timer is due. Zero: it is not set.
pub fn left_ps(timer: &Timer, now_ps: u64) -> u64 {
    match timer.state().0 {
        NEVER_PS => 0,
        // It is due at once.
        due_ps => due_ps.saturating_sub(now_ps).max(1),
    }
}

/// Sets a timer relative to now; zero: never.
pub fn set(own: &Own, timer: &Timer, time_ps: u64, period_ps: u64) {
    match time_ps {
        0 => timer.set(NEVER_PS, 0),
        _ => timer.set(own.now_ps().saturating_add(time_ps), period_ps),
    }
    own.limit(NEVER_PS);
}

/// `alarm` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alarm(seconds: c_uint) -> c_uint {
    let Some(own) = Own::enter("alarm") else {
        // SAFETY: `alarm` takes no pointers.
        return unsafe { real::alarm(seconds) };
    };
    let timer = TIMERS.first();
    let left_ps = left_ps(timer, own.now_ps());
    set(&own, timer, u64::from(seconds) * PS_PER_S, 0);
    left_ps.div_ceil(PS_PER_S) as c_uint
}

fn picoseconds_of(time: timeval) -> Option<u64> {
    picoseconds(time.tv_sec, time.tv_usec, PS_PER_US)
}

fn timeval_of(time_ps: u64) -> timeval {
    let microseconds = time_ps.div_ceil(PS_PER_US);
    timeval {
        tv_sec: (microseconds / 1_000_000) as libc::time_t,
        tv_usec: (microseconds % 1_000_000) as libc::suseconds_t,
    }
}

fn value_of(own: &Own, timer: &Timer) -> itimerval {
    itimerval {
        it_interval: timeval_of(timer.state().1),
        it_value: timeval_of(left_ps(timer, own.now_ps())),
    }
}

/// `setitimer` of libc. Timers of processor time are real.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setitimer(
    which: c_int,
    new: *const itimerval,
    old: *mut itimerval,
) -> c_int {
    // SAFETY: by the contract of `setitimer`, the times are valid or null.
    let (new_times, old_times) = unsafe { (new.as_ref(), old.as_mut()) };
    let own = Own::enter("setitimer").filter(|_| which == libc::ITIMER_REAL);
    let (Some(own), Some(times)) = (own, new_times) else {
        // SAFETY: by the contract of `setitimer`, the arguments are valid.
        return unsafe { real::setitimer(which, new, old) };
    };
    let time_ps = picoseconds_of(times.it_value);
    let period_ps = picoseconds_of(times.it_interval);
    let (Some(time_ps), Some(period_ps)) = (time_ps, period_ps) else {
        return real::failed(libc::EINVAL);
    };
    let timer = TIMERS.first();
    if let Some(old) = old_times {
        *old = value_of(&own, timer);
    }
    set(&own, timer, time_ps, period_ps);
    0
}

/// `getitimer` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getitimer(which: c_int, value: *mut itimerval) -> c_int {
    let own = Own::enter("getitimer").filter(|_| which == libc::ITIMER_REAL);
    // SAFETY: by the contract of `getitimer`, the time is valid or null.
    match (own, unsafe { value.as_mut() }) {
        (Some(own), Some(value)) => {
            *value = value_of(&own, TIMERS.first());
            0
        }
        // SAFETY: by the contract of `getitimer`, the arguments are valid.
        _ => unsafe { real::getitimer(which, value) },
    }
}

/// Converts a timer of real time to simulated time.
pub fn take_over() {
    let (none, mut real) = (NO_TIME, NO_TIME);
    // SAFETY: `setitimer` reads and writes locals.
    unsafe { real::setitimer(libc::ITIMER_REAL, &raw const none, &raw mut real) };
    let Some((page, _)) = own_page() else {
        return;
    };
    let time_ps = picoseconds_of(real.it_value).unwrap_or(0);
    if time_ps > 0 {
        let now_ps = page.clock_ps.load(std::sync::atomic::Ordering::Relaxed);
        let period_ps = picoseconds_of(real.it_interval).unwrap_or(0);
        TIMERS
            .first()
            .set(now_ps.saturating_add(time_ps), period_ps);
        super::limit(page, NEVER_PS);
    }
}

/// Converts a timer of simulated time to real time.
pub fn give_back(now_ps: u64) {
    let timer = TIMERS.first();
    let left_ps = left_ps(timer, now_ps);
    if left_ps > 0 {
        let times = itimerval {
            it_interval: timeval_of(timer.state().1),
            it_value: timeval_of(left_ps),
        };
        timer.set(NEVER_PS, 0);
        // SAFETY: `setitimer` reads a local; the old value is not requested.
        unsafe { real::setitimer(libc::ITIMER_REAL, &raw const times, std::ptr::null_mut()) };
    }
}
