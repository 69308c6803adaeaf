//! Counts what hangs on an object of the program, so that it refuses to go.
//!
//! The driver counts for itself what the device knows of. This is for what only verbs know: address
//! handles, parent and thread domains, several handles of one XRC domain.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Number of users of an object.
#[derive(Debug, Default)]
pub struct UseCount(Arc<AtomicU32>);

/// One user; gone when dropped.
#[derive(Debug)]
pub struct Lease(Arc<AtomicU32>);

impl UseCount {
    /// Becomes a user.
    pub fn lease(&self) -> Lease {
        self.0.fetch_add(1, Ordering::AcqRel);
        Lease(Arc::clone(&self.0))
    }

    /// Becomes a user unless there are `limit` already.
    pub fn lease_below(&self, limit: u32) -> Option<Lease> {
        let one_more = |count: u32| (count < limit).then(|| count + 1);
        self.0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more)
            .ok()?;
        Some(Lease(Arc::clone(&self.0)))
    }

    /// Whether there are users.
    pub fn is_used(&self) -> bool {
        self.0.load(Ordering::Acquire) != 0
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_users_up_to_a_limit() {
        let count = UseCount::default();
        let first = count.lease_below(2).expect("room");
        let second = count.lease();
        assert!(count.lease_below(2).is_none());
        drop((first, second));
        assert!(!count.is_used());
        assert!(count.lease_below(1).is_some());
    }
}
