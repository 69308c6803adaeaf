//! Timers of the program: signals and events at simulated times.
//!
//! The first thread whose clock has passed the time of a timer handles it: a thread's wait also
//! ends at the time of the earliest timer ([`limit`]). All of this happens while the thread has its
//! turn, and possibly in signal handlers.
//!
//! - [`table`]: the timers.
//! - [`real_alarm`]: the timer that is real before and after the world.
//!
//! The program sets them by [`crate::timer_calls`].

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use ferroce_timed_protocol::MAX_THREADS;
use ferroce_timed_protocol::page::ThreadPage;

use crate::descriptor::Descriptor;
use crate::{joined, signals, thread};

mod real_alarm;
pub mod table;

use table::TIMERS;

/// Signals raised in a thread.
struct Raised {
    count: AtomicU32,
    /// Number of signals after which calls do not continue.
    interruptions: AtomicU32,
    restarts: AtomicBool,
}

static RAISED: [Raised; MAX_THREADS] = [const {
    Raised {
        count: AtomicU32::new(0),
        interruptions: AtomicU32::new(0),
        restarts: AtomicBool::new(true),
    }
}; MAX_THREADS];

/// Returns the page of the calling thread, and its index in the program.
fn own_page() -> Option<(&'static ThreadPage, usize)> {
    let page = thread::state().page()?;
    let first = std::ptr::from_ref(&joined::pages()?.threads).addr();
    let place = std::ptr::from_ref(page).addr().checked_sub(first)? / size_of::<ThreadPage>();
    Some((page, place))
}

/// Returns the number of the page of the calling thread.
pub fn own_number() -> Option<usize> {
    Some(own_page()?.1)
}

fn raised() -> Option<&'static Raised> {
    RAISED.get(own_page()?.1)
}

/// Returns how many signals with handlers have been raised in the calling thread.
pub fn delivered() -> u32 {
    raised().map_or(0, |raised| raised.count.load(Ordering::Relaxed))
}

/// Returns how many of them were without `SA_RESTART`.
pub extern "C" fn interruptions() -> u32 {
    raised().map_or(0, |raised| raised.interruptions.load(Ordering::Relaxed))
}

/// Returns true if calls continue after the last of them.
pub fn last_restarts() -> bool {
    raised().is_none_or(|raised| raised.restarts.load(Ordering::Relaxed))
}

/// Notes that a signal with a handler is raised in the calling thread.
pub fn note_raised(signal: c_int) {
    let Some(raised) = raised() else { return };
    let restarts = signals::restarts(signal);
    raised.restarts.store(restarts, Ordering::Relaxed);
    let interrupts = u32::from(!restarts);
    raised
        .interruptions
        .fetch_add(interrupts, Ordering::Relaxed);
    raised.count.fetch_add(1, Ordering::Relaxed);
}

/// Sets the deadline of the thread: `deadline_ps`, or the next timer if that is earlier.
pub fn limit(page: &ThreadPage, deadline_ps: u64) {
    let deadline_ps = TIMERS.next_due_ps().min(deadline_ps);
    page.deadline_ps.store(deadline_ps, Ordering::Relaxed);
}

/// Handles the timers that are due. Called when the thread's clock has passed its deadline.
pub fn after_turn() {
    let Some((page, _)) = own_page() else {
        return;
    };
    while let Some(due) = TIMERS.take_due(page.clock_ps.load(Ordering::Relaxed)) {
        limit(page, u64::MAX);
        if due.signal == 0 {
            continue;
        }
        if signals::has_handler(due.signal) {
            note_raised(due.signal);
        }
        let information = due.timer.map(|timer| {
            let overruns = i32::try_from(due.times.saturating_sub(1)).unwrap_or(i32::MAX);
            signals::of_timer(due.signal, timer, overruns, due.value)
        });
        signals::raise(due.signal, information.as_ref());
    }
    limit(page, u64::MAX);
}

/// Converts timers that the program has set in real time to simulated time, when it joins.
pub fn begin() {
    TIMERS.clear();
    real_alarm::take_over();
}

/// Converts timers back to real time, when the world has ended.
pub fn world_ended() {
    if let Some((page, _)) = own_page() {
        real_alarm::give_back(page.clock_ps.load(Ordering::Relaxed));
    }
}

/// Removes the timer of a descriptor that is about to be closed.
pub fn before_close(descriptor: Descriptor) {
    if let Some(timer) = TIMERS.of_descriptor(descriptor.number()) {
        timer.free();
    }
}
