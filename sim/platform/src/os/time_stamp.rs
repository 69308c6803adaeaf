//! Doing without the time stamp counter.
//!
//! Threads of programs in simulated time may not read it (`PR_SET_TSC`). A processor that goes on from
//! such a thread to one that may, or the other way round, changes a control register, and under a
//! hypervisor that takes longer than all the rest of it. So who shares their processor does without the
//! counter as well, until it needs it.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::{Once, OnceLock};

use libc::{SIGSEGV, siginfo_t};

const NS_PER_S: u64 = 1_000_000_000;

/// What the process did at a `SIGSEGV` before.
static OLD_ACTION: OnceLock<libc::sigaction> = OnceLock::new();

thread_local! {
    /// The thread does without it, or cannot.
    static IS_DONE: Cell<bool> = const { Cell::new(false) };
}

/// The calling thread does without the counter until it next reads it, be it in a function of libc
/// that says what time it is.
#[inline]
pub fn disable_rdtsc() {
    if !IS_DONE.replace(true) {
        forbid();
    }
}

#[cold]
fn forbid() {
    static HANDLER: Once = Once::new();
    HANDLER.call_once(install);
    if OLD_ACTION.get().is_some() {
        // SAFETY: changes a flag of the calling thread. Where there is no such flag nothing changes.
        unsafe { libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_SIGSEGV) };
    }
}

fn install() {
    // SAFETY: zero is a value of all fields of both.
    let (mut action, mut old): (libc::sigaction, libc::sigaction) = unsafe {
        (
            MaybeUninit::zeroed().assume_init(),
            MaybeUninit::zeroed().assume_init(),
        )
    };
    action.sa_sigaction = on_fault as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: locals; the handler does only what handlers may.
    unsafe {
        if libc::sigaction(SIGSEGV, null_mut(), &raw mut old) == 0 {
            let _ = OLD_ACTION.set(old);
            libc::sigaction(SIGSEGV, &raw const action, null_mut());
        }
    }
}

/// A thread that has read the counter may do so from now on, and does it again. Other faults meet what
/// the process did before.
extern "C" fn on_fault(_: c_int, _: *mut siginfo_t, _: *mut c_void) {
    let mut mode: c_int = 0;
    // SAFETY: writes `mode`; changes a flag of the calling thread; the old action was one.
    unsafe {
        let is_known = libc::prctl(libc::PR_GET_TSC, &raw mut mode) == 0;
        if is_known && mode == libc::PR_TSC_SIGSEGV {
            libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_ENABLE);
            IS_DONE.set(false);
        } else if let Some(old) = OLD_ACTION.get() {
            libc::sigaction(SIGSEGV, old, null_mut());
        }
    }
}

/// Time of the machine from some moment on, as the kernel says it.
pub fn machine_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes `time`.
    unsafe {
        libc::syscall(
            libc::SYS_clock_gettime,
            libc::CLOCK_MONOTONIC,
            &raw mut time,
        );
    }
    time.tv_sec as u64 * NS_PER_S + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn who_does_without_the_counter_can_still_tell_the_time() {
        let start = (Instant::now(), machine_ns());
        for _ in 0..3 {
            disable_rdtsc();
            let other = std::thread::spawn(Instant::now);
            assert!(other.join().expect("no panic") >= start.0);
            disable_rdtsc();
            assert!(start.0.elapsed() < Duration::from_secs(60));
        }
        assert!(machine_ns() >= start.1);
    }
}
