//! The clock of a program whose time is not that of the machine.

use std::ffi::c_void;
use std::fmt::Debug;

use crate::cq::CompletionQueue;

/// A function of verbs in which programs poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PollFunction {
    /// `ibv_poll_cq`.
    PollCq,
    /// `ibv_start_poll`.
    StartPoll,
}

/// The clock of a program whose time is not that of the machine: the verbs library says what the
/// program does, and the clock goes on by what that costs.
pub trait ProgramClock: Debug + Send + Sync {
    /// A send work request was written to its queue, with so many bytes of inline payload.
    fn post_send(&self, inline_bytes: u64);

    /// A receive was written to its queue.
    fn post_receive(&self);

    /// The calling thread is about to poll `cq`.
    fn before_poll(&self, cq: &CompletionQueue);

    /// A poll of `cq` has found so many completions.
    fn polled(&self, cq: &CompletionQueue, count: usize);

    /// A function for programs to call instead of `target`, which notes its caller and goes on to
    /// `target`.
    fn noting_caller(&self, function: PollFunction, target: *const c_void) -> *const c_void;

    /// Makes visible what the device has done by now.
    fn catch_up(&self);

    /// Sleeps until `is_there` says that an event has come.
    fn sleep_until(&self, is_there: &mut dyn FnMut() -> bool);

    /// Returns true if polls and posts fail from now on: what the program measures is no result.
    fn has_failed(&self) -> bool;
}
