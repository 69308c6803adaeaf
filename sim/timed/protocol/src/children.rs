//! The child processes of a program that are in the world.
//!
//! The world enters a child before the parent continues, and notes its end at the simulated time at
//! which the child has ended. The parent removes it when it has reaped the process.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::thread::futex;

/// Children of a program at a time that the world knows. Waits for others are not simulated.
pub const MAX_CHILDREN: usize = 64;

/// A parent that waits for the end of a child waits for this address: no object is there.
pub const CHILDREN_ADDRESS: u64 = 1;

/// A child, or an empty entry.
#[derive(Debug, Default)]
#[repr(C)]
struct Child {
    /// Process ID. Zero: the entry is empty.
    pid: AtomicU32,
    /// Zero: it runs. Otherwise its place in the order in which children have ended.
    end: AtomicU32,
}

/// The children of a program.
#[derive(Debug)]
#[repr(C)]
pub struct Children {
    /// Children that have joined so far.
    joined: AtomicU32,
    /// Children that have ended so far.
    ended: AtomicU32,
    all: [Child; MAX_CHILDREN],
}

/// What is known of a parent's children.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// This process is the first that has ended.
    Ended(u32),
    /// None has ended, and some run.
    Running,
    /// The world knows none of them.
    Unknown,
}

impl Default for Children {
    fn default() -> Self {
        Self {
            joined: AtomicU32::new(0),
            ended: AtomicU32::new(0),
            all: std::array::from_fn(|_| Child::default()),
        }
    }
}

impl Children {
    /// Enters a child. Returns false if there is no room.
    pub fn add(&self, pid: u32) -> bool {
        let free = self.entry_of(0);
        if let Some(child) = free {
            child.end.store(0, Ordering::Relaxed);
            child.pid.store(pid, Ordering::SeqCst);
        }
        self.joined.fetch_add(1, Ordering::SeqCst);
        // On failure (no memory) the parent looks again after its time limit.
        let _ = futex::wake(&self.joined, futex::Flags::empty(), u32::MAX >> 1);
        free.is_some()
    }

    /// Takes over the children of the program that the same process has executed before.
    pub fn adopt(&self, earlier: &Self) {
        for (word, earlier) in self.words().zip(earlier.words()) {
            word.store(earlier.load(Ordering::SeqCst), Ordering::SeqCst);
        }
    }

    fn words(&self) -> impl Iterator<Item = &AtomicU32> {
        let all = self.all.iter().flat_map(|child| [&child.pid, &child.end]);
        [&self.joined, &self.ended].into_iter().chain(all)
    }

    /// Notes that a child has ended.
    pub fn end(&self, pid: u32) {
        if let Some(child) = self.entry_of(pid).filter(|_| pid != 0) {
            let before = self.ended.fetch_add(1, Ordering::SeqCst);
            child.end.store(before.saturating_add(1), Ordering::SeqCst);
        }
    }

    /// Removes a child.
    pub fn remove(&self, pid: u32) {
        if let Some(child) = self.entry_of(pid).filter(|_| pid != 0) {
            child.pid.store(0, Ordering::SeqCst);
        }
    }

    /// Returns what is known of child `pid`, or of all children.
    pub fn find(&self, pid: Option<u32>) -> Found {
        let is_wanted = |child: &&Child| match (child.pid.load(Ordering::SeqCst), pid) {
            (0, _) => false,
            (own, Some(pid)) => own == pid,
            (_, None) => true,
        };
        let mut wanted = self.all.iter().filter(is_wanted).peekable();
        if wanted.peek().is_none() {
            return Found::Unknown;
        }
        let end = |child: &&Child| child.end.load(Ordering::SeqCst);
        let ended = wanted.filter(|child| end(child) != 0).min_by_key(end);
        ended.map_or(Found::Running, |child| {
            Found::Ended(child.pid.load(Ordering::SeqCst))
        })
    }

    /// Returns how many children have joined so far.
    pub fn joined(&self) -> u32 {
        self.joined.load(Ordering::SeqCst)
    }

    /// Waits until more children have joined than `before`, or for `limit`. May return early.
    pub fn await_more_than(&self, before: u32, limit: Duration) {
        let limit = futex::Timespec {
            tv_sec: limit.as_secs() as i64,
            tv_nsec: limit.subsec_nanos().into(),
        };
        // Joined, timed out or interrupted: the caller looks again.
        let _ = futex::wait(&self.joined, futex::Flags::empty(), before, Some(&limit));
    }

    fn entry_of(&self, pid: u32) -> Option<&Child> {
        let mut all = self.all.iter();
        all.find(|child| child.pid.load(Ordering::SeqCst) == pid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_are_found_in_the_order_of_their_ends() {
        let children = Children::default();
        assert_eq!(children.find(None), Found::Unknown);
        assert!(children.add(5) && children.add(6));
        assert_eq!(children.joined(), 2);
        assert_eq!(children.find(Some(7)), Found::Unknown);
        assert_eq!(children.find(None), Found::Running);
        children.end(6);
        assert_eq!(children.find(Some(5)), Found::Running);
        children.end(5);
        assert_eq!(children.find(None), Found::Ended(6));
        children.remove(6);
        assert_eq!(children.find(None), Found::Ended(5));
        children.remove(5);
        assert_eq!(children.find(None), Found::Unknown);
    }

    #[test]
    fn a_child_without_room_is_unknown() {
        let children = Children::default();
        assert!((1..=MAX_CHILDREN as u32).all(|pid| children.add(pid)));
        assert!(!children.add(99));
        assert_eq!(children.find(Some(99)), Found::Unknown);
    }
}
