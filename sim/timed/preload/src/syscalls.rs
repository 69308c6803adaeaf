//! `syscall` of libc: system calls by their number.
//!
//! Those that wait or read the time do the same as the functions of their names. All others, and
//! all calls of threads in real time, go to the kernel.

#![expect(unsafe_code, reason = "a function of libc")]

use std::ffi::{c_int, c_long};

use crate::own::Own;
use crate::waits::futexes;
use crate::waits::may_be_simulated;
use crate::{files, inputs, libc_time, os, ready, real, sleep, yields};

/// Makes a system call in the kernel. Returns -1 with `errno` on failure.
fn in_kernel(number: c_long, arguments: [usize; 6]) -> c_long {
    // SAFETY: the program makes this call, and keeps its contract.
    outcome(unsafe { os::system_call(number, arguments) })
}

/// Returns the result of a system call as libc does.
fn outcome(result: isize) -> c_long {
    match c_int::try_from(result) {
        Ok(error @ -4095..0) => real::failed(-error).into(),
        _ => result as c_long,
    }
}

/// `syscall` of libc. It is variadic there; the arguments are passed in the same way.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscall(
    number: c_long,
    first: usize,
    second: usize,
    third: usize,
    fourth: usize,
    fifth: usize,
    sixth: usize,
) -> c_long {
    let mut arguments = [first, second, third, fourth, fifth, sixth];
    inputs::arguments_for_kernel(number, &mut arguments);
    if !may_be_simulated() {
        return in_kernel(number, arguments);
    }
    // SAFETY: the caller keeps the contract of the call, whose arguments are valid.
    unsafe { simulated(number, arguments) }.unwrap_or_else(|| in_kernel(number, arguments))
}

/// Makes a system call in simulated time. `None`: it takes no time, or is not modelled.
///
/// # Safety
/// The contract of the call.
unsafe fn simulated(number: c_long, arguments: [usize; 6]) -> Option<c_long> {
    let [a, b, c, d, ..] = arguments;
    let fd = a as c_int;
    // SAFETY: the caller keeps the contract of the system call; the function of its name has the
    // same contract.
    unsafe {
        Some(match number {
            libc::SYS_futex => {
                let own = Own::enter("futex")?;
                let real = |arguments| os::system_call(number, arguments);
                outcome(futexes::call(&own, arguments, real))
            }
            libc::SYS_gettid => inputs::thread_id()?.into(),
            libc::SYS_getrandom => inputs::getrandom(a as _, b, c as _) as c_long,
            libc::SYS_sched_yield => yields::sched_yield().into(),
            libc::SYS_nanosleep => sleep::nanosleep(a as _, b as _).into(),
            libc::SYS_clock_nanosleep => {
                let errno = sleep::clock_nanosleep(fd, b as c_int, c as _, d as _);
                outcome(-(errno as isize))
            }
            libc::SYS_clock_gettime => libc_time::clock_gettime(fd, b as _).into(),
            libc::SYS_gettimeofday => libc_time::gettimeofday(a as _, b as _).into(),
            libc::SYS_read => files::read(fd, b as _, c) as c_long,
            libc::SYS_write => files::write(fd, b as _, c) as c_long,
            libc::SYS_ppoll => ready::poll::ppoll(a as _, b as _, c as _, d as _).into(),
            libc::SYS_epoll_pwait => {
                let (most, timeout_ms) = (c as c_int, d as c_int);
                ready::epoll::epoll_pwait(fd, b as _, most, timeout_ms, arguments[4] as _).into()
            }
            _ => return None,
        })
    }
}
