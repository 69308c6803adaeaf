//! Functions that the preloaded time library offers to the verbs library.
//!
//! The two are separate shared objects. The verbs library asks the dynamic linker for [`SYMBOL`], a
//! function without arguments that returns a `&'static` [`TimeTable`]. If there is none, the
//! program does not run in simulated time.

use std::ffi::{CStr, c_void};

use crate::cm::CmMessage;
use crate::page::ProgramPage;
use crate::request::Wait;
use crate::store::{StoreKind, Work};

/// The symbol, of type [`GetTable`].
pub const SYMBOL: &CStr = c"ferroce_time_v1";

/// Type of the function at [`SYMBOL`].
pub type GetTable = extern "C" fn() -> &'static TimeTable;

/// Called for pending interrupts in the thread that has got the turn: `context`, and a bit for each
/// vector.
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

/// The functions. Both libraries are of one build, so Rust types can pass between them by
/// reference.
#[derive(Debug)]
#[repr(C)]
pub struct TimeTable {
    /// [`crate::VERSION`].
    pub version: u32,
    /// Joins the world that `FERROCE_WORLD` names, if the program has not joined, and takes a turn.
    /// From then on the program runs in simulated time. Returns zero or an errno.
    pub join: extern "C" fn() -> i32,
    /// Returns the page of the program. `None`: it has not joined.
    pub program: extern "C" fn() -> Option<&'static ProgramPage>,
    /// Returns the clock of the calling thread.
    pub now_ps: extern "C" fn() -> u64,
    /// Advances the clock of the calling thread by this time.
    pub spend_ps: extern "C" fn(u64),
    /// Makes a store at the thread's own time. Passes the turn first if the thread is too far ahead
    /// of the card, or the list of stores is full.
    pub store: extern "C" fn(kind: StoreKind, slot: u32, words: *const u64, count: usize),
    /// Lets the world catch up with the thread's own time, so that memory is as of that time. Does
    /// nothing if it is known that nothing has changed.
    pub catch_up: extern "C" fn(),
    /// Does the same as [`TimeTable::catch_up`], and also if nothing has changed but the world has
    /// not seen all stores.
    pub flush: extern "C" fn(),
    /// Passes the turn and returns the answer. Interrupt functions run before it returns.
    pub wait: extern "C" fn(wait: &Wait) -> u64,
    /// Sets the function to call for interrupts. A null function: none.
    pub set_interrupts: extern "C" fn(Option<InterruptFunction>, context: *mut c_void),
    /// With true: until the matching call with false, the thread's actions are not part of the
    /// program. The thread runs in real time, its blocking calls are passed through, and threads
    /// that it starts are not simulated. Nests.
    pub outside: extern "C" fn(bool),
    /// Returns a number that changes whenever the thread does something that the library observes,
    /// other than calls of this table: reading the time, using a socket, sleeping.
    pub activity: extern "C" fn() -> u64,
    /// Returns how many signals with a handler but without `SA_RESTART` the thread has had; these
    /// interrupt calls.
    pub interruptions: extern "C" fn() -> u32,
    /// Announces that the card may write to this many bytes from this address on.
    pub card_memory: extern "C" fn(start: usize, length: usize),
    /// Returns a function to be called in place of `target`: it records the caller and calls
    /// `target` with all arguments. Returns `target` itself where there is no such function.
    pub noting_caller: extern "C" fn(entry: Entry, target: *const c_void) -> *const c_void,
    /// Returns a number for the state of the last caller of the entry: the place of the call, its
    /// registers, and the stack of its frames. Two calls of a thread with the same number come from
    /// the same place of a loop that has changed none of these. Zero: unknown.
    pub caller: extern "C" fn() -> u64,
    /// Returns the number of threads of the program that are in the world, and one more if other
    /// processes of the world may share memory with it.
    pub thread_count: extern "C" fn() -> u32,
    /// Does the same as [`TimeTable::spend_ps`], and names the work for a trace.
    pub work: extern "C" fn(work: Work, time_ps: u64),
    /// Returns the message of the calling thread. `None`: it does not belong to the world.
    pub cm_message: extern "C" fn() -> Option<&'static CmMessage>,
    /// Returns why the world has refused the program: the two words of
    /// [`crate::control::Refusal::to_words`], the first one in the upper half. All bits are set if
    /// no world was asked, because the wanted host name is invalid.
    pub refusal: extern "C" fn() -> u64,
    /// Asks for the card of the program's host. Returns zero or an errno; [`TimeTable::refusal`]
    /// has the reason.
    pub request_card: extern "C" fn() -> i32,
}
