//! What the library in a program that keeps its time offers to the verbs library.
//!
//! The two are separate shared objects. The verbs library asks the dynamic linker for
//! [`SYMBOL`], a function without arguments that returns a `&'static` [`TimeTable`]. None: the
//! program does not run in simulated time.

use std::ffi::{CStr, c_void};

use crate::page::ProgramPage;
use crate::request::Wait;
use crate::store::{StoreKind, Work};

/// The symbol, of type [`GetTable`].
pub const SYMBOL: &CStr = c"ferroce_time_v1";

/// Type of the function at [`SYMBOL`].
pub type GetTable = extern "C" fn() -> &'static TimeTable;

/// Called in the thread that has got the turn, for interrupts that have come: `context`, and a bit
/// for each vector.
pub type InterruptFunction = extern "C" fn(context: *mut c_void, vectors: u64);

/// A function of verbs in which programs poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub enum Entry {
    /// `ibv_poll_cq`.
    PollCq,
    /// `ibv_start_poll`.
    StartPoll,
}

/// The functions. Both libraries are of one build, so that types of Rust can pass between them by
/// reference.
#[derive(Debug)]
#[repr(C)]
pub struct TimeTable {
    /// [`crate::VERSION`].
    pub version: u32,
    /// Joins the world that `FERROCE_WORLD` names, if that is not done yet, and takes a turn. From
    /// then on the program has simulated time. Zero, or an errno.
    pub join: extern "C" fn() -> i32,
    /// What the program knows of its world. `None`: it has not joined.
    pub program: extern "C" fn() -> Option<&'static ProgramPage>,
    /// The clock of the calling thread.
    pub now_ps: extern "C" fn() -> u64,
    /// The calling thread computes for so long.
    pub spend_ps: extern "C" fn(u64),
    /// The thread makes a store at its own time. Gives its turn up first if it is too far ahead of
    /// the card, or the list of stores is full.
    pub store: extern "C" fn(kind: StoreKind, slot: u32, words: *const u64, count: usize),
    /// Lets the world catch up with the thread's own time, so that memory is as of then, unless it
    /// is known that nothing has changed.
    pub catch_up: extern "C" fn(),
    /// As [`TimeTable::catch_up`], also when nothing has changed, if there are stores that the
    /// world has not seen.
    pub flush: extern "C" fn(),
    /// Gives the turn up; returns the answer. Interrupt functions run before it returns.
    pub wait: extern "C" fn(wait: &Wait) -> u64,
    /// What to call for interrupts. A null function: nothing.
    pub set_interrupts: extern "C" fn(Option<InterruptFunction>, context: *mut c_void),
    /// True: until the same with false, what the thread does is no part of the program. It has the
    /// time of the machine, its blocking calls are as they are, and threads that it starts are not
    /// simulated. Nests.
    pub outside: extern "C" fn(bool),
    /// Changes whenever the thread has done something that the library sees and that is no call of
    /// this table: it has read the time, used a socket, slept.
    pub activity: extern "C" fn() -> u64,
    /// From now on the card may write to so many bytes from this address on.
    pub card_memory: extern "C" fn(start: usize, length: usize),
    /// A function to be called in the place of `target`, which notes who calls and goes on to
    /// `target` with all arguments. `target` itself where there is none.
    pub noting_caller: extern "C" fn(entry: Entry, target: *const c_void) -> *const c_void,
    /// What the caller of the entry that was called last was like: the place of the call, its
    /// registers, and what its frames had on the stack. Two calls of one thread with the same
    /// number are from the same place of a loop in which nothing of that has changed. Zero: not
    /// known.
    pub caller: extern "C" fn() -> u64,
    /// Threads of the program that are in the world.
    pub thread_count: extern "C" fn() -> u32,
    /// As [`TimeTable::spend_ps`]; who records it learns what with.
    pub work: extern "C" fn(work: Work, time_ps: u64),
}
