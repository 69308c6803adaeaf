//! `timerfd_create` and its relatives.
//!
//! The program gets an eventfd, and the timer adds its expirations to the counter: reading and
//! waiting work as with a timerfd.

#![expect(unsafe_code, reason = "functions of libc")]

use std::ffi::c_int;
use std::os::fd::IntoRawFd;

use libc::{clockid_t, itimerspec};
use rustix::event::{EventfdFlags, eventfd};

use super::posix;
use crate::descriptor::Descriptor;
use crate::own::Own;
use crate::real;
use crate::time_formats::epoch_s;
use crate::timers::table::{Action, TIMERS};

/// `timerfd_create` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn timerfd_create(clock: clockid_t, flags: c_int) -> c_int {
    let known = libc::TFD_CLOEXEC | libc::TFD_NONBLOCK;
    let is_simulated = epoch_s(clock).is_some() && flags & !known == 0;
    let Some(_own) = Own::enter("timerfd_create").filter(|_| is_simulated) else {
        // SAFETY: `timerfd_create` takes no pointers.
        return unsafe { real::timerfd_create(clock, flags) };
    };
    let mut kind = EventfdFlags::empty();
    kind.set(EventfdFlags::CLOEXEC, flags & libc::TFD_CLOEXEC != 0);
    kind.set(EventfdFlags::NONBLOCK, flags & libc::TFD_NONBLOCK != 0);
    let descriptor = match eventfd(0, kind) {
        Ok(descriptor) => descriptor,
        Err(error) => return real::failed(error.raw_os_error()),
    };
    let fd = descriptor.into_raw_fd();
    let action = Action {
        signal: 0,
        value: 0,
        fd,
    };
    if TIMERS.add(clock, action).is_none() {
        // SAFETY: the descriptor is this library's, and was not returned to the program.
        unsafe { rustix::io::close(fd) };
        return real::failed(libc::EMFILE);
    }
    fd
}

/// `timerfd_settime` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn timerfd_settime(
    fd: c_int,
    flags: c_int,
    new: *const itimerspec,
    old: *mut itimerspec,
) -> c_int {
    let (Some(own), Some(timer)) = (Own::enter("timerfd_settime"), TIMERS.of_descriptor(fd)) else {
        // SAFETY: by the contract of `timerfd_settime`, the arguments are valid.
        return unsafe { real::timerfd_settime(fd, flags, new, old) };
    };
    if let Some(descriptor) = Descriptor::new(fd) {
        descriptor.clear_counter();
    }
    let is_absolute = flags & libc::TFD_TIMER_ABSTIME != 0;
    // SAFETY: the contract of `posix::set`: the caller's times are valid or null, as
    // `timerfd_settime` requires.
    match unsafe { posix::set(&own, timer, is_absolute, new, old) } {
        true => 0,
        false => real::failed(libc::EINVAL),
    }
}

/// `timerfd_gettime` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn timerfd_gettime(fd: c_int, value: *mut itimerspec) -> c_int {
    let (Some(own), Some(timer)) = (Own::enter("timerfd_gettime"), TIMERS.of_descriptor(fd)) else {
        // SAFETY: by the contract of `timerfd_gettime`, the arguments are valid.
        return unsafe { real::timerfd_gettime(fd, value) };
    };
    // SAFETY: by the contract of `timerfd_gettime`, `value` has room.
    unsafe { value.write(posix::value_of(&own, timer)) };
    0
}
