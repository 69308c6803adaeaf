//! The timer of `alarm` and `setitimer`. The program may have set it before it joins, and keeps it
//! when the world ends.
#![expect(unsafe_code, reason = "functions of libc")]

use std::sync::atomic::Ordering;

use ferroce_timed_protocol::page::NEVER_PS;
use libc::{itimerval, timeval};

use super::own_page;
use super::table::TIMERS;
use crate::real;
use crate::time_formats::{picoseconds_of_timeval, timeval_of};

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

/// Converts a timer of real time to simulated time.
pub fn take_over() {
    let (none, mut real) = (NO_TIME, NO_TIME);
    // SAFETY: `setitimer` reads and writes locals.
    unsafe { real::setitimer(libc::ITIMER_REAL, &raw const none, &raw mut real) };
    let Some((page, _)) = own_page() else {
        return;
    };
    let time_ps = picoseconds_of_timeval(real.it_value).unwrap_or(0);
    if time_ps > 0 {
        let now_ps = page.clock_ps.load(Ordering::Relaxed);
        let period_ps = picoseconds_of_timeval(real.it_interval).unwrap_or(0);
        TIMERS
            .first()
            .set(now_ps.saturating_add(time_ps), period_ps);
        super::limit(page, NEVER_PS);
    }
}

/// Converts a timer of simulated time to real time.
pub fn give_back(now_ps: u64) {
    let timer = TIMERS.first();
    let left_ps = timer.left_ps(now_ps);
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
