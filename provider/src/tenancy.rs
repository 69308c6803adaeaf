//! One use of a NIC function: from the bring-up of a device on it until all objects of that device
//! are dropped. The next use begins after it, because it resets the function and allocates the same
//! IOVAs.

use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferroce_embed::function::Function;
use parking_lot::{Condvar, Mutex};

/// The function, kept while it has users: an adapter, or an object of its driver.
pub struct Tenancy {
    /// Before `end`, so the function is released when the end is signalled.
    function: Arc<Function>,
    end: NotifyOnDrop,
}

impl Tenancy {
    /// Begins the use of a function.
    pub fn of(function: Arc<Function>) -> Arc<Self> {
        Arc::new(Self {
            function,
            end: NotifyOnDrop::default(),
        })
    }

    /// Returns a handle to wait for the end of this use.
    pub fn end(&self) -> End {
        self.end.end()
    }
}

impl Deref for Tenancy {
    type Target = Function;

    fn deref(&self) -> &Function {
        &self.function
    }
}

/// The end of a use, for waiting threads.
#[derive(Clone, Default)]
pub struct End(Arc<(Mutex<bool>, Condvar)>);

impl End {
    /// Returns true if the use is over.
    pub fn is_over(&self) -> bool {
        *self.0.0.lock()
    }

    /// Waits until the use is over, at most `limit`. Returns true if it is over.
    pub fn wait(&self, limit: Duration) -> bool {
        let (is_over, changed) = &*self.0;
        let deadline = Instant::now() + limit;
        let mut is_over = is_over.lock();
        while !*is_over {
            if changed.wait_until(&mut is_over, deadline).timed_out() {
                break;
            }
        }
        *is_over
    }
}

/// Signals an end when it is dropped: the last field of what ends.
#[derive(Default)]
pub struct NotifyOnDrop(End);

impl NotifyOnDrop {
    /// Returns a handle to wait for the drop.
    pub fn end(&self) -> End {
        self.0.clone()
    }
}

impl Drop for NotifyOnDrop {
    fn drop(&mut self) {
        let (is_over, changed) = &*self.0.0;
        *is_over.lock() = true;
        changed.notify_all();
    }
}
