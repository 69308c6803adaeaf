//! One use of a NIC function: from the bring-up of a device on it until nothing of that device is
//! left. The next one begins after it, for it resets the function and gives out the same IOVAs.

use ferroce_embed::function::Function;
use parking_lot::{Condvar, Mutex};
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The function for as long as anything uses it: an adapter, or an object of its driver.
pub struct Tenancy {
    /// Before `end`: the function is given back when the end is told.
    function: Arc<Function>,
    end: TellOnDrop,
}

impl Tenancy {
    /// Begins the use of a function.
    pub fn of(function: Arc<Function>) -> Arc<Self> {
        Arc::new(Self {
            function,
            end: TellOnDrop(End::default()),
        })
    }

    /// What tells that this use is over.
    pub fn end(&self) -> End {
        self.end.0.clone()
    }
}

impl Deref for Tenancy {
    type Target = Function;

    fn deref(&self) -> &Function {
        &self.function
    }
}

/// The end of a use, which others wait for.
#[derive(Clone, Default)]
pub struct End(Arc<(Mutex<bool>, Condvar)>);

impl End {
    /// Waits until the use is over, at most `limit`. Whether it is.
    pub fn wait(&self, limit: Duration) -> bool {
        let (is_over, told) = &*self.0;
        let deadline = Instant::now() + limit;
        let mut is_over = is_over.lock();
        while !*is_over {
            if told.wait_until(&mut is_over, deadline).timed_out() {
                break;
            }
        }
        *is_over
    }
}

struct TellOnDrop(End);

impl Drop for TellOnDrop {
    fn drop(&mut self) {
        let (is_over, told) = &*self.0.0;
        *is_over.lock() = true;
        told.notify_all();
    }
}
