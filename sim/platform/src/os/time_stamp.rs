//! Disabling the time stamp counter.
//!
//! Threads of programs in simulated time may not read it (`PR_SET_TSC`). When a processor switches
//! between such a thread and one that may read it, it changes a control register, which under a
//! hypervisor takes longer than the rest of the switch. So a thread that shares their processor
//! disables the counter as well, until it reads it.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::{Once, OnceLock};

use libc::{SIGSEGV, siginfo_t};

const NS_PER_S: u64 = 1_000_000_000;

/// The previous action for `SIGSEGV`.
static OLD_ACTION: OnceLock<libc::sigaction> = OnceLock::new();

thread_local! {
    /// True if the thread has disabled it, or cannot.
    static IS_DONE: Cell<bool> = const { Cell::new(false) };
}

/// Disables the counter for the calling thread until it next reads it, for example in a time
/// function of libc.
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
        // SAFETY: `PR_SET_TSC` takes no pointers and changes a flag of the calling thread. Without
        // that flag nothing changes.
        unsafe { libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_SIGSEGV) };
    }
}

fn install() {
    // SAFETY: zero is valid for all fields of both.
    let (mut action, mut old): (libc::sigaction, libc::sigaction) = unsafe {
        (
            MaybeUninit::zeroed().assume_init(),
            MaybeUninit::zeroed().assume_init(),
        )
    };
    action.sa_sigaction = on_fault as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: the contract of `sigaction`: pointers to locals; the handler calls only
    // async-signal-safe functions.
    unsafe {
        if libc::sigaction(SIGSEGV, null_mut(), &raw mut old) == 0 {
            let _ = OLD_ACTION.set(old);
            libc::sigaction(SIGSEGV, &raw const action, null_mut());
        }
    }
}

/// Enables the counter for a thread that has read it; the instruction is repeated. Passes other
/// faults to the previous action.
extern "C" fn on_fault(_: c_int, _: *mut siginfo_t, _: *mut c_void) {
    let mut mode: c_int = 0;
    // SAFETY: `PR_GET_TSC` writes the local `mode`; `PR_SET_TSC` changes a flag of the calling
    // thread; the old action is valid.
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

/// Returns a monotonic time of the machine by system call.
pub fn machine_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel writes one `timespec` into the local `time`.
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
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn time_can_be_read_without_the_counter() {
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
