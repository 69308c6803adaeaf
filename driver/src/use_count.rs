//! Counts the users of an object, so that it cannot be destroyed while it has any.

use crate::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

const CLOSED: u32 = 1 << 31;

/// Number of users of an object.
#[derive(Debug, Default, Clone)]
pub(crate) struct UseCount(Arc<AtomicU32>);

/// One user; removed when dropped.
#[derive(Debug)]
pub(crate) struct Lease(Arc<AtomicU32>);

impl UseCount {
    /// Adds a user. Returns `None` when the object is closed (or has 2^31 users).
    pub(crate) fn acquire(&self) -> Option<Lease> {
        self.acquire_below(CLOSED - 1)
    }

    /// Adds a user if there are fewer than `limit`.
    pub(crate) fn acquire_below(&self, limit: u32) -> Option<Lease> {
        self.0
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |count| {
                (count & CLOSED == 0 && count < limit).then_some(count + 1)
            })
            .ok()
            .map(|_| Lease(Arc::clone(&self.0)))
    }

    /// Closes the object if it has no users; returns true if it did.
    pub(crate) fn close(&self) -> bool {
        self.0
            .compare_exchange(0, CLOSED, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// Closes an object that exists in the driver only.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`] while it has users, [`Error::Destroyed`] the second time.
    pub(crate) fn close_for_ever(&self) -> Result<(), Error> {
        if self.close() {
            Ok(())
        } else if self.is_closed() {
            Err(Error::Destroyed)
        } else {
            Err(Error::Busy)
        }
    }

    /// Undoes [`UseCount::close`], when the object could not be destroyed after all.
    pub(crate) fn reopen(&self) {
        self.0.fetch_and(!CLOSED, Ordering::AcqRel);
    }

    /// Returns true if the object is closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.load(Ordering::Acquire) & CLOSED != 0
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
    fn closes_only_without_users() {
        let count = UseCount::default();
        let lease = count.acquire().expect("open");
        assert!(!count.close());
        drop(lease);
        assert!(count.close());
        assert!(count.is_closed());
        assert!(count.acquire().is_none());
        count.reopen();
        assert!(count.acquire().is_some());
    }
}
