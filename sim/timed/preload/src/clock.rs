//! Reading the time.
use std::sync::atomic::Ordering;

use ferroce_timed_protocol::page::ThreadPage;
use ferroce_timed_protocol::{PS_PER_CYCLE, PS_PER_NS};

use crate::inside::Inside;
use crate::joined;
use crate::os::{self, real_ns};
use crate::thread::{ThreadState, state};

/// This many time reads with nothing in between are free; each further one costs [`READ_PS`].
pub const FREE_READS: u32 = 15;
/// A microsecond.
pub const READ_PS: u64 = 1_000_000;
/// Longest interval after which a thread that only reads the time lets the world catch up.
const LONGEST_CHECK_PS: u64 = 1_000_000_000;

/// Returns the clock of the calling thread for one of the program's time reads. `None`: the thread
/// runs in real time.
#[inline]
pub fn read_ps() -> Option<u64> {
    if !joined::is_joined() {
        return None;
    }
    let state = state();
    match state.page() {
        Some(page) if state.is_outermost() && joined::is_running() => {
            Some(read_page_ps(state, page))
        }
        _ => read_elsewhere_ps(state),
    }
}

/// Does the same as [`read_ps`] for a thread that does not simply use its page's clock.
#[cold]
fn read_elsewhere_ps(state: &ThreadState) -> Option<u64> {
    if state.is_real() {
        return None;
    }
    match state.page() {
        // A thread that is new to the world.
        None => Inside::enter().map(|inside| inside.now_ps()),
        Some(_) => Some(elsewhere_ps()),
    }
}

#[inline]
fn read_page_ps(state: &ThreadState, page: &ThreadPage) -> u64 {
    let calls = page.calls.load(Ordering::Relaxed);
    page.calls.store(calls + 1, Ordering::Relaxed);
    let reads = state.reads.get();
    if reads < FREE_READS {
        state.reads.set(reads + 1);
        return page.clock_ps.load(Ordering::Relaxed);
    }
    // A handler that interrupts this may move the clock, too.
    let now_ps = page.clock_ps.fetch_add(READ_PS, Ordering::Relaxed) + READ_PS;
    if reads == FREE_READS {
        state.reads.set(reads + 1);
        state.reads_since_ps.set(now_ps);
        state.check_ps.set(now_ps + READ_PS);
    }
    let is_due = now_ps >= page.deadline_ps.load(Ordering::Relaxed);
    if is_due || now_ps >= state.check_ps.get() {
        check(state, now_ps);
    }
    now_ps
}

/// Lets the world catch up from time to time for a thread that only reads the time: something else
/// may end its loop. The interval grows while this lasts.
#[cold]
fn check(state: &ThreadState, now_ps: u64) {
    let (reads, since_ps) = (state.reads.get(), state.reads_since_ps.get());
    let next_ps = (now_ps.saturating_sub(since_ps) / 8).clamp(READ_PS, LONGEST_CHECK_PS);
    os::keeping_errno(|| {
        if let Some(inside) = Inside::enter() {
            inside.catch_up();
            inside.deliver_signals();
        }
    });
    state.reads.set(reads);
    state.reads_since_ps.set(since_ps);
    state.check_ps.set(now_ps + next_ps);
}

/// Returns the clock outside of a running world: it stands still before the program joins, and
/// follows real time after the end of the world, so that no thread waits forever.
#[cold]
pub fn elsewhere_ps() -> u64 {
    let state = state();
    let Some(page) = state.page() else { return 0 };
    let clock_ps = page.clock_ps.load(Ordering::Relaxed);
    let since_ns = joined::ended_at_ns().map_or(0, |ended| real_ns().saturating_sub(ended));
    clock_ps.saturating_add(since_ns.saturating_mul(PS_PER_NS))
}

/// Returns the time stamp counter at a time.
pub const fn cycles(clock_ps: u64) -> u64 {
    clock_ps / PS_PER_CYCLE
}
