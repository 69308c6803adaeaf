//! Barriers.

#![expect(
    unsafe_code,
    reason = "a function of libc, and its object's number of threads"
)]

use std::ffi::c_int;

use ferroce_timed_protocol::page::NEVER_PS;
use ferroce_timed_protocol::request::Wait;
use libc::{PTHREAD_BARRIER_SERIAL_THREAD, pthread_barrier_t};

use super::sleepers;
use crate::own::{Ended, Own};
use crate::real;

/// Offset of the number of threads in a `pthread_barrier_t`, in words: glibc's `in`,
/// `current_round`, `count`. It is part of glibc's ABI, because static initialisation of processes
/// that share a barrier depends on it.
const COUNT_WORD: usize = 2;
/// The world's answer to the last thread.
const LAST: u64 = 1;

/// `pthread_barrier_wait` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_barrier_wait(barrier: *mut pthread_barrier_t) -> c_int {
    // SAFETY: by the contract of `pthread_barrier_wait`, the barrier is valid.
    let wait = || unsafe { real::pthread_barrier_wait(barrier) };
    let Some(own) = Own::enter("pthread_barrier_wait") else {
        return wait();
    };
    if !sleepers::are_simulated(barrier.addr()) {
        return own.outside(wait);
    }
    let at = Wait::AtBarrier {
        address: sleepers::key_of(barrier.addr()),
        // SAFETY: a barrier has more words than this one, and glibc does not change it meanwhile.
        threads: unsafe { barrier.cast::<u32>().add(COUNT_WORD).read_volatile() },
    };
    loop {
        match own.wait_for_wake(&at, NEVER_PS) {
            Ended::Answered(LAST) => return PTHREAD_BARRIER_SERIAL_THREAD,
            Ended::Answered(_) => return 0,
            // All threads that wait do so in the kernel from now on.
            Ended::NoWorld => return wait(),
            Ended::Interrupted { .. } | Ended::TimedOut => {}
        }
    }
}
