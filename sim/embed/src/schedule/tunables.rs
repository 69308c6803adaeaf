//! All tunables of the schedule, each with its origin.
//!
//! A value is *derived* (from the quantity that it is compared with), *measured* (in A/B runs
//! against the named revision, on machine V), or *taken over* from the named revision without a
//! separate measurement. Machine V: two processors of an AMD EPYC in a virtual machine, Linux 6.18.
//! Machines with more processors were not measured.

use crate::clock::{Clock, Ticks};

/// A program that polled within this time counts as polling: the model does not run for it, and it
/// is not woken. Derived: the bound of the guarantee, and longer than the gap between two polls of
/// a loop.
pub const FRESH_NS: u64 = 5_000;
/// The same for a program whose thread yields: it polls when it is scheduled again. Derived: a few
/// other yielding threads return the processor sooner than this; if a program does not yield, the
/// peers wake the background thread, which gets the processor sooner.
pub const YIELD_FRESH_NS: u64 = 30_000;
/// Polls after arming a CQ that are ignored: the program checks once more, finds the completion of
/// the event, and sleeps. Derived from ibv_get_cq_event(3).
pub const POLLS_AFTER_ARMING: u32 = 2;
/// A program streams after this many consecutive polls. A guess: more than one, so that one burst
/// is no stream.
pub const STREAM_ROUNDS: u8 = 4;
/// Number of requests of a streaming program that are batched. Measured: 09cbe36b, V: without
/// batching, ib_write_bw of 64 bytes reaches 0.5 to 0.6 of its rate.
pub const REQUESTS_TOGETHER: u8 = 16;
/// Empty polls before a thread yields: about the time in which a running peer answers. Taken over:
/// 09cbe36b.
pub const POLLS_BEFORE_YIELD: u32 = 40;
/// The same after a yield that let another thread run, probably the peer. Taken over: 74497979.
pub const POLLS_BEFORE_SWITCH: u32 = 4;
/// Model runs without work before ACKs are no longer delayed. Derived: longer than the gap between
/// two related frames of the peer, shorter than the ACK delay of 2 us.
pub const RUNS_BEFORE_ACKNOWLEDGE: u32 = 8;
/// Maximum model runs in one call, for this thread or for others. Derived: only a bound; the
/// background thread does the remaining work.
pub const RUNS_PER_CALL: u32 = 64;
/// A longer yield has let another thread run. Derived: sched_yield alone takes 0.3 us on V, a
/// switch to another thread and back 2 us.
pub const SWITCH_NS: u64 = 1_500;
/// A longer yield has let a program run that does not yield. Derived: half of the time slice that
/// Linux gives with two processors; yielding threads return sooner.
pub const LATE_NS: u64 = 700_000;
/// A thread stops yielding after this many late returns, each within [`PAUSE_NS`] of the one
/// before. Measured: 1 for the background thread makes ib_write_lat on one processor twice as slow,
/// V.
pub const LATE_TURNS: u32 = 3;
/// How long an attempt that did not pay (yielding, another processor) is not repeated. Derived: an
/// attempt costs one time slice, 5 % of this time.
pub const PAUSE_NS: u64 = 50_000_000;
/// Longest sleep of a polling thread instead of a yield. Derived: only a bound, in case a wake-up
/// is lost.
pub const DOZE_NS: u64 = 200_000;
/// How long the background thread polls for more work after its last work before it sleeps.
/// Derived: ten wake-ups by futex.
pub const SPIN_NS: u64 = 40_000;
/// The background thread moves to another processor after it has shared its processor this often
/// within [`SHARED_WINDOW_NS`]. Measured: sleeping instead gives 0.3 of the rate of 64-byte
/// messages, V. The number is taken over: 25e844e8.
pub const SHARED_TURNS: u32 = 16;
/// See [`SHARED_TURNS`]. Derived: a request from a peer on the same processor takes two switches.
pub const SHARED_WINDOW_NS: u64 = 1_000_000;
/// How often the background thread checks whether the program still polls if it has a processor to
/// itself; [`WATCH_SHARED_NS`] if it shares one, where each check costs two switches. Measured: 50
/// us on a shared one makes ib_write_lat on one processor four times as slow, V.
pub const WATCH_ALONE_NS: u64 = 50_000;
/// See [`WATCH_ALONE_NS`]. Taken over: 09cbe36b.
pub const WATCH_SHARED_NS: u64 = 1_000_000;
/// Longest sleep when nothing happens. Derived: the period of liveness checks of peers.
pub const IDLE_NS: u64 = 250_000_000;

/// The tunables that are time spans, in ticks.
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
    /// Converts the tunables to ticks of a clock.
    pub fn new(clock: &Clock) -> Self {
        Self::with(|ns| clock.ticks_of_ns(ns))
    }

    /// Converts the tunables with `ticks`, which maps nanoseconds to ticks.
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
