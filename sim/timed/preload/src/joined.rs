//! The program's knowledge of its world: whether it has joined, the pages, the end.
//!
//! `session` and the modules that it joins with change it (`connection`, `membership`,
//! `world_end`); all others only read it.
#![expect(unsafe_code, reason = "a pointer to the pages")]

use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use ferroce_timed_protocol::page::ProgramPages;
use rustix::process::getpid;

const NOT_JOINED: u32 = 0;
const JOINING: u32 = 1;
const JOINED: u32 = 2;

/// Stage of the joining: one of the constants above.
static STAGE: AtomicU32 = AtomicU32::new(NOT_JOINED);
/// Not zero: the program has joined, and the world runs. Assembly reads it, too.
pub static IS_RUNNING: AtomicU32 = AtomicU32::new(0);
/// Real time at which the world ended. Zero: it has not.
static ENDED_AT_NS: AtomicU64 = AtomicU64::new(0);
/// The pages of the program, mapped until the process ends.
static PAGES: AtomicPtr<ProgramPages> = AtomicPtr::new(std::ptr::null_mut());
/// Threads that have a page.
static THREADS: AtomicU32 = AtomicU32::new(0);
/// The process that has joined.
static PROCESS: AtomicI32 = AtomicI32::new(0);

/// Returns true if the program has joined a world, even if that has ended.
#[inline(always)]
pub fn is_joined() -> bool {
    STAGE.load(Ordering::Relaxed) == JOINED
}

/// Returns true if the program is in a running world.
#[inline(always)]
pub fn is_running() -> bool {
    IS_RUNNING.load(Ordering::Relaxed) != 0
}

/// Returns true if the world has ended.
#[inline(always)]
pub fn has_ended() -> bool {
    ENDED_AT_NS.load(Ordering::Relaxed) != 0
}

/// Returns the real time at which the world ended.
pub fn ended_at_ns() -> Option<u64> {
    let ended = ENDED_AT_NS.load(Ordering::Relaxed);
    (ended != 0).then_some(ended)
}

/// Returns the pages of the program. `None`: it has not joined.
pub fn pages() -> Option<&'static ProgramPages> {
    // SAFETY: the pointer is null, or to a mapping that stays until the process ends.
    unsafe { PAGES.load(Ordering::Acquire).as_ref() }
}

/// Returns true if a trace records what threads spend time on.
#[inline]
pub fn is_recorded() -> bool {
    pages().is_some_and(|pages| pages.program.is_recorded.load(Ordering::Relaxed) != 0)
}

/// Returns true if the clock of the world stands still until more programs have joined.
pub fn is_held() -> bool {
    pages().is_some_and(|pages| pages.program.is_held.load(Ordering::Relaxed) != 0)
}

/// Returns true if the program's parent, or an earlier program of its process, is in the world.
pub fn is_member() -> bool {
    pages().is_some_and(|pages| pages.program.is_member.load(Ordering::Relaxed) != 0)
}

/// Returns the number of threads of the program that have joined and not left.
pub fn thread_count() -> u32 {
    THREADS.load(Ordering::Relaxed)
}

/// Returns true in the process that has joined, and false in a child that shares its memory for a
/// while (`vfork`).
pub fn is_own_process() -> bool {
    PROCESS.load(Ordering::Relaxed) == getpid().as_raw_nonzero().get()
}

/// Reason why [`begin`] did not begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotBegun {
    /// Another thread is joining at the moment.
    Joining,
    /// The program has joined.
    Joined,
}

/// Begins to join; [`succeed`] or [`forget`] ends it.
pub fn begin() -> Result<(), NotBegun> {
    match STAGE.compare_exchange(NOT_JOINED, JOINING, Ordering::Acquire, Ordering::Relaxed) {
        Ok(_) => Ok(()),
        Err(JOINED) => Err(NotBegun::Joined),
        Err(_) => Err(NotBegun::Joining),
    }
}

/// Sets the pages of the program, in a world that has not ended.
pub fn set_pages(pages: &'static ProgramPages) {
    PAGES.store(std::ptr::from_ref(pages).cast_mut(), Ordering::Release);
    ENDED_AT_NS.store(0, Ordering::Relaxed);
}

/// Records the process that joins.
pub fn note_process() {
    PROCESS.store(getpid().as_raw_nonzero().get(), Ordering::Relaxed);
}

/// Notes that the program has joined a world that runs.
pub fn succeed() {
    IS_RUNNING.store(1, Ordering::Relaxed);
    STAGE.store(JOINED, Ordering::Release);
}

/// Counts a thread that has got its page.
pub fn count_thread() {
    THREADS.fetch_add(1, Ordering::Relaxed);
}

/// Counts a thread that has left.
pub fn count_end_of_thread() {
    THREADS.fetch_sub(1, Ordering::Relaxed);
}

/// Notes that the world has ended at this real time. Returns false if that was noted before.
pub fn note_end(at_ns: u64) -> bool {
    let order = Ordering::Relaxed;
    let is_first = ENDED_AT_NS.compare_exchange(0, at_ns, order, order).is_ok();
    IS_RUNNING.store(0, order);
    is_first
}

/// Reverts [`begin`] and all that followed, if the world refuses the program or in the child of a
/// fork.
pub fn forget() {
    PAGES.store(std::ptr::null_mut(), Ordering::Release);
    IS_RUNNING.store(0, Ordering::Relaxed);
    THREADS.store(0, Ordering::Relaxed);
    STAGE.store(NOT_JOINED, Ordering::Release);
}
