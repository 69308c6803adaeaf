//! Pipes and socket pairs between processes of the same ancestor in a world.

use std::sync::atomic::{AtomicU64, Ordering};

/// Ends that are remembered; a later one may replace an earlier one, which is then treated as if a
/// process outside of the world had its other end.
const ENDS: usize = 1024;

/// The inode numbers of the ends.
#[derive(Debug)]
#[repr(C)]
pub struct InnerPipes([AtomicU64; ENDS]);

impl InnerPipes {
    /// Returns an empty table.
    pub const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; ENDS])
    }

    fn entry(&self, inode: u64) -> &AtomicU64 {
        &self.0[(inode % ENDS as u64) as usize]
    }

    /// Enters an end.
    pub fn add(&self, inode: u64) {
        self.entry(inode).store(inode, Ordering::Relaxed);
    }

    /// Returns true if this is an end.
    pub fn contains(&self, inode: u64) -> bool {
        inode != 0 && self.entry(inode).load(Ordering::Relaxed) == inode
    }

    /// Enters the ends of another table.
    pub fn add_all(&self, others: &Self) {
        for (own, other) in self.0.iter().zip(&others.0) {
            let inode = other.load(Ordering::Relaxed);
            if inode != 0 {
                own.store(inode, Ordering::Relaxed);
            }
        }
    }
}

impl Default for InnerPipes {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_knows_the_pipes_of_its_parent() {
        let (parent, child) = (InnerPipes::new(), InnerPipes::new());
        parent.add(4711);
        child.add(12);
        child.add_all(&parent);
        assert!(child.contains(4711) && child.contains(12));
        assert!(!child.contains(0) && !parent.contains(12));
    }
}
