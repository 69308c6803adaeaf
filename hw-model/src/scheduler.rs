//! Which queue pair runs next: round robin over those that have work.

use crate::queue_pair::QueuePair;
use std::collections::VecDeque;

/// The list of queue pairs that have work.
#[derive(Debug, Default)]
pub struct Scheduler {
    active: VecDeque<u32>,
}

impl Scheduler {
    /// Puts a queue pair at the end of the list, once.
    #[inline]
    pub fn activate(&mut self, qp: &mut QueuePair) {
        if !qp.scheduled {
            qp.scheduled = true;
            self.active.push_back(qp.index);
        }
    }

    /// Takes the index of the next queue pair. It may have been destroyed since.
    #[inline]
    pub fn take_next(&mut self) -> Option<u32> {
        self.active.pop_front()
    }

    /// Queue pairs in the list.
    #[inline]
    pub fn len(&self) -> usize {
        self.active.len()
    }

    /// Whether nobody has work.
    pub fn is_empty(&self) -> bool {
        self.active.is_empty()
    }

    /// Takes a destroyed queue pair out of the list.
    pub fn remove(&mut self, index: u32) {
        self.active.retain(|active| *active != index);
    }

    /// Forgets everything (reset).
    pub fn clear(&mut self) {
        self.active.clear();
    }
}
