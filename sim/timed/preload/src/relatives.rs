//! Other processes of the world with the same ancestor: they may share pipes and memory with this
//! one.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::joined;

/// True if a child has joined the world.
static HAS_CHILDREN: AtomicBool = AtomicBool::new(false);

/// True if a child has not joined.
static HAS_OTHER_CHILDREN: AtomicBool = AtomicBool::new(false);

/// Notes that a child has joined the world.
pub fn note_child() {
    HAS_CHILDREN.store(true, Ordering::Relaxed);
}

/// Notes that a child has not joined the world.
pub fn note_other_child() {
    HAS_OTHER_CHILDREN.store(true, Ordering::Relaxed);
}

/// Returns true if there are children, and all of them are in the world.
#[inline]
pub fn all_children_are_members() -> bool {
    HAS_CHILDREN.load(Ordering::Relaxed) && !HAS_OTHER_CHILDREN.load(Ordering::Relaxed)
}

/// Returns true if there may be any in the world.
#[inline]
pub fn may_exist() -> bool {
    HAS_CHILDREN.load(Ordering::Relaxed) || joined::is_member()
}

/// Returns true if others than the calling thread may change what it waits for: threads of the
/// program, or relatives.
#[inline]
pub fn others_may_act() -> bool {
    joined::thread_count() > 1 || may_exist()
}
