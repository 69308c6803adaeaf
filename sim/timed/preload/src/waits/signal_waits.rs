//! Waiting for a signal, and the calls that send one to a thread of the program, or to a relative.
//!
//! A signal that another thread sends is pending in the kernel at once; the waiting thread learns
//! of it at the sender's time.

#![expect(unsafe_code, reason = "functions of libc")]

use std::ffi::{c_int, c_void};

use ferroce_timed_protocol::page::NEVER_PS;
use ferroce_timed_protocol::request::takers_of_signals;
use ferroce_timed_protocol::store::StoreKind;
use libc::{pid_t, pthread_t, siginfo_t, sigset_t, timespec};
use rustix::process::getpid;

use super::sleepers::{self, ANY};
use crate::own::{Ended, Own};
use crate::time_formats::read_time;
use crate::{os, real, relatives, signals, thread_table};

/// The address for which threads wait until a handler has run.
static PAUSED: u32 = 1;

fn address_of(word: &'static u32) -> usize {
    std::ptr::from_ref(word).addr()
}

/// Returns the bit of a thread of the program; all bits if it is not known.
fn bit_of(thread: pthread_t) -> u32 {
    thread_table::number_of(thread).map_or(ANY, |number| 1 << (number as u32 % u32::BITS))
}

/// Lets threads know, after a call that has sent a signal to the program, or to one of its threads.
fn note_sent(result: c_int, signal: c_int, bits: u32) -> c_int {
    if result != 0 || signal == 0 {
        return result;
    }
    if signals::has_handler(signal) {
        sleepers::wake_bits(address_of(&PAUSED), bits);
    }
    note_sent_to(own_pid());
    result
}

fn own_pid() -> u32 {
    getpid().as_raw_nonzero().get() as u32
}

/// Lets the threads of a process know to which a signal has been sent.
fn note_sent_to(pid: u32) {
    sleepers::wake_by_key(takers_of_signals(pid));
    // Descriptors of signals may be ready.
    os::keeping_errno(|| {
        if let Some(own) = Own::enter_uncharged().filter(|_| relatives::others_may_act()) {
            own.store(StoreKind::Notify, 0, &[]);
        }
    });
}

/// Does the same as [`note_sent`], after a call that has sent a signal to a process.
fn note_sent_to_process(result: c_int, signal: c_int, process: pid_t) -> c_int {
    match u32::try_from(process) {
        Ok(pid) if pid == own_pid() => return note_sent(result, signal, ANY),
        Ok(pid) if result == 0 && relatives::may_exist() => note_sent_to(pid),
        _ => {}
    }
    result
}

/// Takes a pending signal of a set, until `deadline_ps` at most. Returns -1 with `errno` on
/// failure; `None`: the world has ended.
///
/// # Safety
/// `set` is valid, and `information` null or valid.
unsafe fn take(
    own: &Own,
    set: *const sigset_t,
    information: *mut siginfo_t,
    deadline_ps: u64,
) -> Option<c_int> {
    let now = timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    loop {
        // SAFETY: the caller guarantees valid arguments, and the time is a local.
        let signal = unsafe { real::sigtimedwait(set, information, &raw const now) };
        if signal >= 0 || real::errno() != libc::EAGAIN {
            return Some(signal);
        }
        if own.now_ps() >= deadline_ps {
            return Some(real::failed(libc::EAGAIN));
        }
        let takers = takers_of_signals(own_pid());
        if sleepers::sleep_by_key(own, takers, ANY, deadline_ps) == Ended::NoWorld {
            return None;
        }
    }
}

/// `sigwait` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigwait(set: *const sigset_t, signal: *mut c_int) -> c_int {
    loop {
        // SAFETY: by the contract of `sigwait`, the arguments are valid.
        let taken = unsafe { sigwaitinfo(set, std::ptr::null_mut()) };
        match taken {
            -1 if real::errno() == libc::EINTR => {}
            -1 => return real::errno(),
            taken => {
                // SAFETY: by the contract of `sigwait`, the arguments are valid.
                unsafe { *signal = taken };
                return 0;
            }
        }
    }
}

/// `sigwaitinfo` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigwaitinfo(set: *const sigset_t, information: *mut siginfo_t) -> c_int {
    // SAFETY: by the contract of `sigwaitinfo`, the arguments are valid.
    unsafe { sigtimedwait(set, information, std::ptr::null()) }
}

/// `sigtimedwait` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigtimedwait(
    set: *const sigset_t,
    information: *mut siginfo_t,
    time: *const timespec,
) -> c_int {
    // SAFETY: by the contract of `sigtimedwait`, the arguments are valid.
    let wait = || unsafe { real::sigtimedwait(set, information, time) };
    let Some(own) = Own::enter("sigtimedwait") else {
        return wait();
    };
    // SAFETY: by the contract of `sigtimedwait`, the time is null or valid.
    let time_ps = unsafe { read_time(time) };
    let deadline_ps = match time_ps {
        Some(time_ps) => own.now_ps().saturating_add(time_ps),
        None if time.is_null() => NEVER_PS,
        None => return wait(),
    };
    // SAFETY: by the contract of `sigtimedwait`, the arguments are valid.
    unsafe { take(&own, set, information, deadline_ps) }.unwrap_or_else(wait)
}

/// `pause` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pause() -> c_int {
    // SAFETY: the caller keeps the contract of `pause`, which takes no arguments.
    let pause = || unsafe { real::pause() };
    let Some(own) = Own::enter("pause") else {
        return pause();
    };
    pause_in_time(&own).unwrap_or_else(pause)
}

/// Waits until a handler has run. Returns -1 with `errno`; `None`: the world has ended.
fn pause_in_time(own: &Own) -> Option<c_int> {
    loop {
        // SAFETY: `pthread_self` takes no arguments.
        let bits = bit_of(unsafe { libc::pthread_self() });
        match sleepers::sleep(own, address_of(&PAUSED), bits, NEVER_PS) {
            Ended::Interrupted { .. } | Ended::Answered(_) => {
                return Some(real::failed(libc::EINTR));
            }
            Ended::NoWorld => return None,
            Ended::TimedOut => {}
        }
    }
}

/// `sigsuspend` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigsuspend(mask: *const sigset_t) -> c_int {
    // SAFETY: by the contract of `sigsuspend`, the mask is valid.
    let suspend = || unsafe { real::sigsuspend(mask) };
    // SAFETY: by the contract of `sigsuspend`, the mask is valid.
    let admits_pending = || unsafe { signals::admits_pending(mask) };
    let Some(own) = Own::enter("sigsuspend") else {
        return suspend();
    };
    if admits_pending() {
        // A handler runs at once, and its calls are simulated.
        drop(own);
        return suspend();
    }
    signals::with_mask(mask, || pause_in_time(&own)).unwrap_or_else(suspend)
}

/// `pthread_kill` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_kill(thread: pthread_t, signal: c_int) -> c_int {
    // SAFETY: by the contract of `pthread_kill`, the thread is valid.
    let result = unsafe { real::pthread_kill(thread, signal) };
    note_sent(result, signal, bit_of(thread))
}

/// `pthread_sigqueue` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_sigqueue(
    thread: pthread_t,
    signal: c_int,
    value: *mut c_void,
) -> c_int {
    // SAFETY: by the contract of `pthread_sigqueue`, the thread is valid.
    let result = unsafe { real::pthread_sigqueue(thread, signal, value) };
    note_sent(result, signal, bit_of(thread))
}

/// `kill` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kill(process: pid_t, signal: c_int) -> c_int {
    // SAFETY: `kill` takes no pointers.
    let result = unsafe { real::kill(process, signal) };
    note_sent_to_process(result, signal, process)
}

/// `sigqueue` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigqueue(process: pid_t, signal: c_int, value: *mut c_void) -> c_int {
    // SAFETY: `sigqueue` takes no pointers that it follows.
    let result = unsafe { real::sigqueue(process, signal, value) };
    note_sent_to_process(result, signal, process)
}
