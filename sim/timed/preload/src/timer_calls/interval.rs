//! `alarm` and `setitimer`.

#![expect(unsafe_code, reason = "functions of libc")]

use std::ffi::{c_int, c_uint};

use ferroce_timed_protocol::page::NEVER_PS;
use libc::itimerval;

use crate::own::Own;
use crate::real;
use crate::time_formats::{picoseconds_of_timeval, timeval_of};
use crate::timers::table::{TIMERS, Timer};

const PS_PER_S: u64 = 1_000_000_000_000;
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
        // SAFETY: the caller keeps the contract of `alarm`, which takes no pointers.
        return unsafe { real::alarm(seconds) };
    };
    let timer = TIMERS.first();
    let left_ps = timer.left_ps(own.now_ps());
    set(&own, timer, u64::from(seconds) * PS_PER_S, 0);
    left_ps.div_ceil(PS_PER_S) as c_uint
}

fn value_of(own: &Own, timer: &Timer) -> itimerval {
    itimerval {
        it_interval: timeval_of(timer.state().1),
        it_value: timeval_of(timer.left_ps(own.now_ps())),
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
    let time_ps = picoseconds_of_timeval(times.it_value);
    let period_ps = picoseconds_of_timeval(times.it_interval);
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
