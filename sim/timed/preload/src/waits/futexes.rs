//! Futexes of programs that call the kernel themselves, such as Rust's standard library.

#![expect(unsafe_code, reason = "words and times by their address")]

use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, Ordering};

use ferroce_timed_protocol::page::NEVER_PS;
use libc::timespec;

use super::sleepers::{self, ANY};
use crate::own::{Ended, Own};
use crate::time_formats::{read_absolute, read_time};

/// Operations on futexes, without their options.
const OPERATION: usize =
    !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME) as c_int as usize & 0xffff_ffff;

/// Result of a system call: a negative errno on failure.
type Result = isize;

fn failure(errno: c_int) -> Result {
    -(errno as isize)
}

/// Executes the system call `futex` of a thread in simulated time; `arguments` are those of the
/// call. `None`: the world does not model it.
///
/// # Safety
/// The contract of the call.
pub unsafe fn call(
    own: &Own,
    arguments: [usize; 6],
    real: impl Fn([usize; 6]) -> Result,
) -> Result {
    let [address, operation, value, time, second, bits] = arguments;
    let is_shared = operation as c_int & libc::FUTEX_PRIVATE_FLAG == 0;
    let kind = (operation & OPERATION) as c_int;
    let bits = match kind {
        libc::FUTEX_WAIT_BITSET | libc::FUTEX_WAKE_BITSET => bits as u32,
        _ => ANY,
    };
    match kind {
        libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET => {
            if bits == 0 || is_shared && !sleepers::are_simulated(address) {
                return own.outside(|| real(arguments));
            }
            // SAFETY: by the contract of the call, the time is null or valid.
            match unsafe { deadline_of(own, operation as c_int, time as *const timespec) } {
                // SAFETY: by the contract of the call, the word is valid.
                Some(deadline_ps) => unsafe { wait(own, address, value as u32, bits, deadline_ps) },
                None => failure(libc::EINVAL),
            }
        }
        libc::FUTEX_WAKE | libc::FUTEX_WAKE_BITSET => {
            let woken = sleepers::wake_counted(own, address, value as u32, bits);
            woken as isize + real(arguments).max(0)
        }
        libc::FUTEX_REQUEUE | libc::FUTEX_CMP_REQUEUE => {
            let result = real(arguments);
            if result < 0 {
                return result;
            }
            // Moved threads are woken instead: they look at their condition again.
            let most = (value as u32).saturating_add(time as u32);
            result + sleepers::wake_counted(own, address, most, ANY) as isize
        }
        libc::FUTEX_WAKE_OP => {
            let result = real(arguments);
            let others = sleepers::wake_counted(own, second, time as u32, ANY);
            let woken = sleepers::wake_counted(own, address, value as u32, ANY);
            result.max(0) + (others + woken) as isize
        }
        // Futexes with an owner, in the kernel.
        _ => own.outside(|| real(arguments)),
    }
}

/// Returns the deadline of a wait. `None`: the time is invalid.
///
/// # Safety
/// `time` is null or valid.
unsafe fn deadline_of(own: &Own, operation: c_int, time: *const timespec) -> Option<u64> {
    if time.is_null() {
        return Some(NEVER_PS);
    }
    let is_absolute = operation as usize & OPERATION == libc::FUTEX_WAIT_BITSET as usize;
    let clock = match operation & libc::FUTEX_CLOCK_REALTIME {
        0 => libc::CLOCK_MONOTONIC,
        _ => libc::CLOCK_REALTIME,
    };
    // SAFETY: the caller guarantees that the time is valid.
    unsafe {
        match is_absolute {
            true => read_absolute(clock, time),
            false => Some(own.now_ps().saturating_add(read_time(time)?)),
        }
    }
}

/// Waits while the word has this value.
///
/// # Safety
/// The word is valid.
unsafe fn wait(own: &Own, address: usize, value: u32, bits: u32, deadline_ps: u64) -> Result {
    if address == 0 || !address.is_multiple_of(align_of::<u32>()) {
        return failure(libc::EINVAL);
    }
    // SAFETY: the caller guarantees a valid word, and the alignment was checked. Other threads
    // change it with atomic accesses.
    let word = unsafe { &*(address as *const AtomicU32) };
    if word.load(Ordering::SeqCst) != value {
        return failure(libc::EAGAIN);
    }
    if own.now_ps() >= deadline_ps {
        return failure(libc::ETIMEDOUT);
    }
    match sleepers::sleep(own, address, bits, deadline_ps) {
        Ended::TimedOut => failure(libc::ETIMEDOUT),
        Ended::Interrupted { .. } => failure(libc::EINTR),
        // At the end of the world the thread looks at the word again.
        Ended::Answered(_) | Ended::NoWorld => 0,
    }
}
