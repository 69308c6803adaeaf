//! The clock of a program whose time is not the machine's time.

use std::ffi::c_void;
use std::fmt::Debug;

use crate::identifier::Cqn;

/// A verbs function with which programs poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PollFunction {
    /// `ibv_poll_cq`.
    PollCq,
    /// `ibv_start_poll`.
    StartPoll,
}

/// The part of a completion queue that a program's clock uses.
pub trait PolledQueue {
    /// Returns its number.
    fn number(&self) -> Cqn;

    /// Returns true if a poll would find nothing.
    fn is_empty(&self) -> bool;
}

/// Reason for the end of a sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Slept {
    /// An event came.
    Found,
    /// A signal whose handler has run, and after which system calls are not restarted.
    Interrupted,
}

/// The clock of a program whose time is not the machine's time: the verbs library reports the
/// program's calls, and the clock advances by their cost.
pub trait ProgramClock: Debug + Send + Sync {
    /// Reports that a send work request was written to its queue, with `inline_bytes` of inline
    /// payload.
    fn post_send(&self, inline_bytes: u64);

    /// Reports that a receive was written to its queue.
    fn post_receive(&self);

    /// Reports that the calling thread is about to poll `cq`.
    fn before_poll(&self, cq: &dyn PolledQueue);

    /// Reports that a poll of CQ `cqn` has found `count` completions.
    fn polled(&self, cqn: Cqn, count: usize);

    /// Returns a function that programs call instead of `target`; it records its caller and
    /// continues at `target`.
    fn noting_caller(&self, function: PollFunction, target: *const c_void) -> *const c_void;

    /// Makes the device's results up to the current time visible.
    fn catch_up(&self);

    /// Sleeps until an event has come (`is_there` returns true) or a signal ends the sleep.
    fn sleep_until(&self, is_there: &mut dyn FnMut() -> bool) -> Slept;

    /// Returns true if polls and posts fail from now on, because the program's measurements are not
    /// valid.
    fn has_failed(&self) -> bool;
}
