//! Counts the users of an object, so that it cannot be destroyed while it has any.

#[cfg(not(all(test, loom)))]
use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

#[cfg(all(test, loom))]
use loom::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use crate::error::Error;

const CLOSED: u32 = 1 << 31;

/// Number of users of an object.
#[derive(Debug, Default, Clone)]
pub struct UseCount(Arc<AtomicU32>);

/// One user; removed when dropped.
#[derive(Debug)]
pub struct Lease(Arc<AtomicU32>);

impl UseCount {
    /// Adds a user. Returns `None` when the object is closed (or has 2^31 users).
    pub fn acquire(&self) -> Option<Lease> {
        self.acquire_below(CLOSED - 1)
    }

    /// Adds a user if there are fewer than `limit`.
    pub fn acquire_below(&self, limit: u32) -> Option<Lease> {
        self.0
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |count| {
                (count & CLOSED == 0 && count < limit).then_some(count + 1)
            })
            .ok()
            .map(|_| Lease(Arc::clone(&self.0)))
    }

    /// Adds a user of an object that is never closed.
    pub fn lease(&self) -> Lease {
        self.0.fetch_add(1, Ordering::AcqRel);
        Lease(Arc::clone(&self.0))
    }

    /// Returns true if the object has users.
    pub fn is_used(&self) -> bool {
        self.0.load(Ordering::Acquire) & !CLOSED != 0
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
    pub(crate) fn close_forever(&self) -> Result<(), Error> {
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

#[cfg(all(test, not(loom)))]
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

    #[test]
    fn counts_users_up_to_a_limit() {
        let count = UseCount::default();
        let first = count.acquire_below(2).expect("room");
        let second = count.lease();
        assert!(count.acquire_below(2).is_none());
        assert!(count.is_used());
        drop((first, second));
        assert!(!count.is_used());
        assert!(count.acquire_below(1).is_some());
    }
}

/// Every order of the accesses, as the memory model of Rust allows them: tests/scripts/loom.
#[cfg(all(test, loom))]
mod loom_tests {
    use loom::thread;

    use super::*;

    /// Data that a user of the object writes: only the ordering of the count makes it visible to
    /// others.
    #[derive(Default)]
    struct Object {
        users: UseCount,
        written: AtomicU32,
    }

    #[test]
    fn closing_sees_what_users_wrote() {
        loom::model(|| {
            let object = Arc::new(Object::default());
            let lease = object.users.acquire().expect("open");
            let other = object.clone();
            let user = thread::spawn(move || {
                other.written.store(1, Ordering::Relaxed);
                drop(lease);
            });
            if object.users.close() {
                assert_eq!(object.written.load(Ordering::Relaxed), 1);
            }
            user.join().expect("the user ends");
        });
    }

    #[test]
    fn giving_up_an_object_without_users_sees_what_they_wrote() {
        loom::model(|| {
            let object = Arc::new(Object::default());
            let lease = object.users.lease();
            let other = object.clone();
            let user = thread::spawn(move || {
                other.written.store(1, Ordering::Relaxed);
                drop(lease);
            });
            if !object.users.is_used() {
                assert_eq!(object.written.load(Ordering::Relaxed), 1);
            }
            user.join().expect("the user ends");
        });
    }

    #[test]
    fn an_object_has_either_a_user_or_is_closed() {
        loom::model(|| {
            let object = Arc::new(Object::default());
            let other = object.clone();
            let user = thread::spawn(move || other.users.acquire());
            let is_closed = object.users.close();
            let lease = user.join().expect("the user ends");
            assert!(is_closed != lease.is_some());
        });
    }

    #[test]
    fn a_user_after_reopening_sees_what_was_written_while_closed() {
        loom::model(|| {
            let object = Arc::new(Object::default());
            assert!(object.users.close());
            let other = object.clone();
            let user = thread::spawn(move || {
                if other.users.acquire().is_some() {
                    assert_eq!(other.written.load(Ordering::Relaxed), 1);
                }
            });
            object.written.store(1, Ordering::Relaxed);
            object.users.reopen();
            user.join().expect("the user ends");
        });
    }

    #[test]
    fn the_limit_holds() {
        loom::model(|| {
            let object = Arc::new(Object::default());
            let other = object.clone();
            let user = thread::spawn(move || other.users.acquire_below(1));
            let own = object.users.acquire_below(1);
            let others = user.join().expect("the user ends");
            assert!(own.is_some() != others.is_some());
        });
    }
}
