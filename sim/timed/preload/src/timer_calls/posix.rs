//! `timer_create` and its relatives.
//!
//! Timers that send a signal or nothing are simulated. A timer that starts a thread
//! (`SIGEV_THREAD`) is real.

#![expect(unsafe_code, reason = "functions of libc")]

use std::ffi::{c_int, c_void};

use ferroce_timed_protocol::page::NEVER_PS;
use libc::{clockid_t, itimerspec, sigevent};

use super::interval;
use crate::own::Own;
use crate::real::{self, TimerId};
use crate::time_formats::{epoch_s, read_absolute, read_time, timespec_of};
use crate::timers::table::{Action, TIMERS, Timer};

/// The program's timer IDs are addresses in here; the bytes are never read or written.
static NAMES: [u8; 256] = [0; 256];

/// Returns the program's name of the timer at a place.
fn name_of(place: usize) -> TimerId {
    let name: *const u8 = NAMES.as_ptr().wrapping_add(place);
    name.cast_mut().cast::<c_void>()
}

/// Returns the timer of this name, and its place. `None`: it is real.
fn timer_of(name: TimerId) -> Option<(usize, &'static Timer)> {
    let place = name.addr().checked_sub(NAMES.as_ptr().addr())?;
    Some((place, TIMERS.get(place)?))
}

/// Returns the state of a timer.
pub fn value_of(own: &Own, timer: &Timer) -> itimerspec {
    itimerspec {
        it_interval: timespec_of(timer.state().1),
        it_value: timespec_of(timer.left_ps(own.now_ps())),
    }
}

/// Sets a timer from C values. Returns false if they are invalid.
///
/// # Safety
/// The times are valid or null.
pub unsafe fn set(
    own: &Own,
    timer: &Timer,
    is_absolute: bool,
    new: *const itimerspec,
    old: *mut itimerspec,
) -> bool {
    // SAFETY: the caller guarantees that `new` is null or valid.
    let Some(times) = (unsafe { new.as_ref() }) else {
        return false;
    };
    // SAFETY: the pointers are to fields of a valid time.
    let (time_ps, period_ps) =
        unsafe { (read_time(&times.it_value), read_time(&times.it_interval)) };
    let (Some(time_ps), Some(period_ps)) = (time_ps, period_ps) else {
        return false;
    };
    // SAFETY: the caller guarantees that `old` is null or valid.
    if let Some(old) = unsafe { old.as_mut() } {
        *old = value_of(own, timer);
    }
    if is_absolute && time_ps > 0 {
        // SAFETY: the pointer is to a field of a valid time.
        let due_ps = unsafe { read_absolute(timer.clock(), &times.it_value) };
        timer.set(due_ps.unwrap_or(NEVER_PS), period_ps);
        own.limit(NEVER_PS);
        // It may be due already.
        own.spend(0);
    } else {
        interval::set(own, timer, time_ps, period_ps);
    }
    true
}

/// `timer_create` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn timer_create(
    clock: clockid_t,
    event: *mut sigevent,
    timer: *mut TimerId,
) -> c_int {
    // SAFETY: by the contract of `timer_create`, `event` is null or valid.
    let action = match unsafe { event.as_ref() } {
        None => Some((libc::SIGALRM, None)),
        Some(event) if event.sigev_notify == libc::SIGEV_NONE => Some((0, None)),
        Some(event)
            if [libc::SIGEV_SIGNAL, libc::SIGEV_THREAD_ID].contains(&event.sigev_notify) =>
        {
            let value = event.sigev_value.sival_ptr.addr() as u64;
            Some((event.sigev_signo, Some(value)))
        }
        Some(_) => None,
    };
    let own = Own::enter("timer_create").filter(|_| epoch_s(clock).is_some());
    let (Some(_own), Some((signal, value))) = (own, action) else {
        // SAFETY: by the contract of `timer_create`, the arguments are valid.
        return unsafe { real::timer_create(clock, event, timer) };
    };
    let action = Action {
        signal,
        value: 0,
        fd: -1,
    };
    let Some(place) = TIMERS.add(clock, action) else {
        return real::failed(libc::EAGAIN);
    };
    if let Some(added) = TIMERS.get(place) {
        // The default value is the timer's number.
        added.set_value(value.unwrap_or(place as u64));
    }
    // SAFETY: by the contract of `timer_create`, `timer` has room for the name.
    unsafe { timer.write(name_of(place)) };
    0
}

/// `timer_settime` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn timer_settime(
    timer: TimerId,
    flags: c_int,
    new: *const itimerspec,
    old: *mut itimerspec,
) -> c_int {
    match (Own::enter("timer_settime"), timer_of(timer)) {
        (Some(own), Some((_, timer))) => {
            let is_absolute = flags & libc::TIMER_ABSTIME != 0;
            // SAFETY: the contract of `set`: the caller's times are valid or null, as
            // `timer_settime` requires.
            match unsafe { set(&own, timer, is_absolute, new, old) } {
                true => 0,
                false => real::failed(libc::EINVAL),
            }
        }
        (None, Some(_)) => real::failed(libc::EINVAL),
        // SAFETY: by the contract of `timer_settime`, the arguments are valid.
        (_, None) => unsafe { real::timer_settime(timer, flags, new, old) },
    }
}

/// `timer_gettime` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn timer_gettime(timer: TimerId, value: *mut itimerspec) -> c_int {
    match (Own::enter("timer_gettime"), timer_of(timer)) {
        (Some(own), Some((_, timer))) => {
            // SAFETY: by the contract of `timer_gettime`, `value` has room.
            unsafe { value.write(value_of(&own, timer)) };
            0
        }
        (None, Some(_)) => real::failed(libc::EINVAL),
        // SAFETY: by the contract of `timer_gettime`, the arguments are valid.
        (_, None) => unsafe { real::timer_gettime(timer, value) },
    }
}

/// `timer_getoverrun` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn timer_getoverrun(timer: TimerId) -> c_int {
    match timer_of(timer) {
        Some((_, timer)) => timer.overruns(),
        // SAFETY: by the contract of `timer_getoverrun`, the argument is valid.
        None => unsafe { real::timer_getoverrun(timer) },
    }
}

/// `timer_delete` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn timer_delete(timer: TimerId) -> c_int {
    match timer_of(timer) {
        Some((_, timer)) => {
            timer.free();
            0
        }
        // SAFETY: by the contract of `timer_delete`, the argument is valid.
        None => unsafe { real::timer_delete(timer) },
    }
}
