//! Threads of a program that wait for one another.
//!
//! A thread that has to wait passes its turn until another thread wakes the address of the object
//! ([`sleepers`]). Only one thread runs at a time, so nothing happens between a check of the object
//! and the wait for it. Whatever wakes threads reports the wake-up to the world, at the waking
//! thread's own time; a waiting thread continues at that time. So the order of threads is the same
//! in every run, and a wait takes as long as the other thread needs.
//!
//! The objects themselves are changed by the C library and keep its contents, as locks may be taken
//! and released by code that does not pass through here.
//!
//! Objects in memory that processes outside of the world may share are not simulated: a thread that
//! waits for one is outside of the world meanwhile.

pub mod barriers;
pub mod c11;
pub mod conditions;
pub mod ends_of_threads;
pub mod futexes;
pub mod mutexes;
pub mod semaphores;
pub mod signal_waits;
pub mod sleepers;

use std::ffi::c_int;

use ferroce_timed_protocol::PS_PER_NS;
use ferroce_timed_protocol::page::NEVER_PS;
use ferroce_timed_protocol::request::Wait;
use libc::{clockid_t, timespec};

use crate::os::real_ns;
use crate::own::{Ended, Own};
use crate::thread::state;
use crate::{joined, real};

/// Returns true if the calling thread may be in simulated time. Costs next to nothing.
#[inline]
pub fn may_be_simulated() -> bool {
    joined::is_running() && state().is_outermost()
}

/// Waits in the kernel, which the world does not model: `wait` gets a clock and a real deadline.
/// When it has passed, the simulated deadline has passed, too.
fn outside_until(
    own: &Own,
    deadline_ps: u64,
    wait: impl FnOnce(clockid_t, *const timespec) -> c_int,
) -> c_int {
    let left_ns = deadline_ps.saturating_sub(own.now_ps()).div_ceil(PS_PER_NS);
    let end_ns = real_ns().saturating_add(left_ns);
    let limit = timespec {
        tv_sec: (end_ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (end_ns % 1_000_000_000) as _,
    };
    let result = own.outside(|| wait(libc::CLOCK_MONOTONIC, &raw const limit));
    let errno = real::errno();
    if result == libc::ETIMEDOUT || result < 0 && errno == libc::ETIMEDOUT {
        while own.now_ps() < deadline_ps {
            let time_ps = deadline_ps;
            if own.wait(&Wait::At { time_ps }, NEVER_PS) == Ended::NoWorld {
                break;
            }
        }
    }
    real::set_errno(errno);
    result
}
