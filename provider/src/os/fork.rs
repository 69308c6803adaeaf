//! State of the library in a child after `fork`.
//!
//! The device's threads do not exist there and its locks may be held forever, so all objects that
//! the parent opened are dead: their verbs return `EIO` and have no effect. The child may open the
//! device anew.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::lock_api::RawMutex as _;
use parking_lot::{Mutex, MutexGuard};

/// Number of forks between the first process that loaded the library and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// The process, in a line of forks, in which an object was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Generation(u32);

impl Generation {
    /// Returns the current process.
    pub(crate) fn current() -> Self {
        Self(FORKS.load(Ordering::Relaxed))
    }

    /// Returns true if that process is the current one.
    #[inline]
    pub(crate) fn is_current(self) -> bool {
        self.0 == FORKS.load(Ordering::Relaxed)
    }
}

/// The lock that no thread but the forking one holds during a fork.
static FORK_LOCK: Mutex<()> = Mutex::new(());

/// A section of code during which no other thread can fork; at most one thread is in it.
pub(crate) struct ProcessLock {
    _guard: MutexGuard<'static, ()>,
}

impl ProcessLock {
    /// Enters, after the handlers of `fork` are in place.
    pub(crate) fn enter() -> Self {
        static REGISTERED: Once = Once::new();
        REGISTERED.call_once(|| {
            // SAFETY: the handlers are functions of this library, which is never unloaded (-z
            // nodelete).
            unsafe {
                libc::pthread_atfork(Some(before), Some(after_in_parent), Some(after_in_child))
            };
        });
        Self {
            _guard: FORK_LOCK.lock(),
        }
    }
}

extern "C" fn before() {
    std::mem::forget(FORK_LOCK.lock());
}

extern "C" fn after_in_parent() {
    // SAFETY: `before` locked the mutex in this thread and leaked the guard.
    unsafe { FORK_LOCK.raw().unlock() };
}

extern "C" fn after_in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    ferroce_platform::fork::after_fork_child();
    after_in_parent();
}
