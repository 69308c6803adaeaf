//! Restrictions of a child made by fork.
//!
//! The child has a copy of the parent's memory, including locks held by threads that do not exist
//! in the child, and it has the parent's rings still mapped. So every part of a function records
//! the fork generation in which it was created, and does not access shared state in any later one:
//! in the child the device appears unplugged.

use std::sync::atomic::{AtomicU32, Ordering};

static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Returns the fork generation of this process: the number of forks since the first process that
/// used this library.
#[inline]
#[must_use]
pub fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// Called in the child, from pthread_atfork, before anything else of this library.
pub fn after_fork_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}
