//! `SIGCHLD` in simulated time.
//!
//! The kernel signals a parent as soon as the process of a child has ended, while the parent waits
//! for its turn. The signal is held back until the parent has the turn: its handler runs at the
//! simulated time at which the child has ended, and its calls are simulated. The world lets the
//! first thread that takes the signal have the turn at that time, whatever that thread waits for.

use crate::{os, relatives, signals, timers};

/// A set with this signal alone, as the kernel has it.
const ENDS_OF_CHILDREN: u64 = signals::set_of(libc::SIGCHLD);

/// Holds the signal back in the calling thread while it lives.
#[derive(Debug)]
pub struct HeldBack {
    /// The signals that were blocked before.
    mask: u64,
}

/// Holds the signal back, if the program handles it and all its children are in the world.
pub fn hold_back() -> Option<HeldBack> {
    if !relatives::all_children_are_members() || !signals::has_handler(libc::SIGCHLD) {
        return None;
    }
    let mask = signals::block(ENDS_OF_CHILDREN);
    Some(HeldBack { mask })
}

impl HeldBack {
    /// Returns true if the thread takes the signal when this value is dropped.
    pub fn is_taken(&self) -> bool {
        self.mask & ENDS_OF_CHILDREN == 0
    }
}

impl Drop for HeldBack {
    fn drop(&mut self) {
        if !self.is_taken() {
            return;
        }
        os::keeping_errno(|| {
            if signals::pending() & ENDS_OF_CHILDREN != 0 {
                timers::note_raised(libc::SIGCHLD);
            }
            signals::restore(self.mask);
        });
    }
}
