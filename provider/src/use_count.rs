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
