//! The tunables of the schedule, all of them, each with its origin.
//!
//! A value is *derived* (from what it is compared with), *measured* (by turns against the revision
//! named, on machine V), or *taken over* from the revision named, and not measured alone since.
//! Machine V: two processors of an AMD EPYC in a virtual machine, Linux 6.18. More than two
//! processors were not measured.

use crate::clock::{Clock, Ticks};

/// A program that has polled within this time polls on: nothing is run for it, and it is not woken.
/// Derived: it is the bound of the guarantee, and longer than the gap between two polls of a loop.
pub const FRESH_NS: u64 = 5_000;
/// The same of a program whose thread yields: it polls when it has its turn again. Derived: the
/// turns of a few threads that yield, too, are shorter; behind a program that does not yield its
/// peers wake the background thread, which gets the processor sooner.
pub const YIELD_FRESH_NS: u64 = 30_000;
/// Polls after arming a CQ that say nothing: the program checks once more, finds the event's
/// completion, and sleeps. Derived from ibv_get_cq_event(3).
pub const POLLS_AFTER_ARMING: u32 = 2;
/// Polls in a row after which a program streams. A guess: a few, so that one burst is no stream.
pub const STREAM_ROUNDS: u8 = 4;
/// Requests of a program that streams that go together. Measured: 09cbe36b, V: without,
/// ib_write_bw of 64 bytes has 0.5 to 0.6 of its rate.
pub const REQUESTS_TOGETHER: u8 = 16;
/// Empty polls before a thread yields: about the time in which the answer of a peer that has a
/// processor comes. Taken over: 09cbe36b.
pub const POLLS_BEFORE_YIELD: u32 = 40;
/// The same after a yield that has let another thread run: probably the peer.
/// Taken over: 74497979.
pub const POLLS_BEFORE_SWITCH: u32 = 4;
/// Runs of the model without work before ACKs are no longer delayed. Derived: longer than the gap
/// between two frames of the peer that belong together, shorter than the ACK delay of 2 us.
pub const RUNS_BEFORE_ACKNOWLEDGE: u32 = 8;
/// Runs of the model in one call, for this thread or for others. Derived: a bound only; work that
/// is left is the background thread's.
pub const RUNS_PER_CALL: u32 = 64;
/// A yield that takes longer has let another thread run. Derived: sched_yield alone takes 0.3 us on
/// V, a switch there and back 2 us.
pub const SWITCH_NS: u64 = 1_500;
/// A yield that takes longer has let a program run that does not yield. Derived: half of the time
/// slice that Linux gives with two processors; the turns of threads that yield are shorter.
pub const LATE_NS: u64 = 700_000;
/// Late turns, each within [`PAUSE_NS`] of the one before, after which a thread does not yield.
/// Measured: 1 for the background thread makes ib_write_lat on one processor twice as slow, V.
pub const LATE_TURNS: u32 = 3;
/// For how long what did not pay (yields, another processor) is not tried again. Derived: a try
/// costs one time slice, which is 5 % of it.
pub const PAUSE_NS: u64 = 50_000_000;
/// Longest sleep of a thread that polls, in place of a yield. Derived: a bound only, for a wake-up
/// that was lost.
pub const DOZE_NS: u64 = 200_000;
/// How long the background thread looks for more after its last work, instead of being woken.
/// Derived: ten wake-ups by futex.
pub const SPIN_NS: u64 = 40_000;
/// Turns in which the background thread has shared its processor, within [`SHARED_WINDOW_NS`],
/// before it goes to another one. Measured: sleeping there instead has 0.3 of the rate of 64 bytes,
/// V. The number is taken over: 25e844e8.
pub const SHARED_TURNS: u32 = 16;
/// See [`SHARED_TURNS`]. Derived: a request of a peer on the same processor takes two switches.
pub const SHARED_WINDOW_NS: u64 = 1_000_000;
/// How often the background thread looks whether the program still polls, on a processor that it
/// has for itself, and on one that it shares: there each look costs two switches. Measured: 50 us
/// on a shared one makes ib_write_lat on one processor four times as slow, V.
pub const WATCH_ALONE_NS: u64 = 50_000;
/// See [`WATCH_ALONE_NS`]. Taken over: 09cbe36b.
pub const WATCH_SHARED_NS: u64 = 1_000_000;
/// Longest sleep when nothing happens. Derived: the period of liveness checks of peers.
pub const IDLE_NS: u64 = 250_000_000;

/// The tunables that are times, in ticks.
#[derive(Debug, Clone, Copy)]
pub struct Spans {
    /// [`FRESH_NS`].
    pub fresh: u64,
    /// [`YIELD_FRESH_NS`].
    pub yield_fresh: u64,
    /// [`SWITCH_NS`].
    pub switch: u64,
    /// [`LATE_NS`].
    pub late: u64,
    /// [`PAUSE_NS`].
    pub pause: u64,
    /// [`SPIN_NS`].
    pub spin: u64,
    /// [`SHARED_WINDOW_NS`].
    pub shared_window: u64,
}

impl Spans {
    /// Returns them in the ticks of a clock.
    pub fn new(clock: &Clock) -> Self {
        Self::with(|ns| clock.ticks_of_ns(ns))
    }

    /// Returns them in ticks, of which `ticks` of nanoseconds are as many.
    pub fn with(ticks: impl Fn(u64) -> u64) -> Self {
        Self {
            fresh: ticks(FRESH_NS),
            yield_fresh: ticks(YIELD_FRESH_NS),
            switch: ticks(SWITCH_NS),
            late: ticks(LATE_NS),
            pause: ticks(PAUSE_NS),
            spin: ticks(SPIN_NS),
            shared_window: ticks(SHARED_WINDOW_NS),
        }
    }
}

/// Returns `span` ticks after `now`.
pub fn after(now: Ticks, span: u64) -> Ticks {
    Ticks(now.0.saturating_add(span))
}
