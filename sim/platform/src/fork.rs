//! What a child made by fork must not do.
//!
//! The child has a copy of the parent's memory, including locks that were held by threads which
//! do not exist in the child, and it has the parent's rings still mapped. So everything that
//! belongs to a function remembers the fork generation in which it was made and stays away from
//! shared state in any later one: to the child the device looks like a card that was pulled out.

use std::sync::atomic::{AtomicU32, Ordering};

static GENERATION: AtomicU32 = AtomicU32::new(0);

/// How many times this process is a child of the first one that used this library.
#[inline]
#[must_use]
pub fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// To be called in the child, from pthread_atfork, before anything else of this library.
pub fn after_fork_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}
