//! A bug that tests switch on to check that they detect it.

use std::sync::atomic::{AtomicBool, Ordering};

static ACKNOWLEDGES_TOO_MUCH: AtomicBool = AtomicBool::new(false);

/// Makes all responders of this process also acknowledge the packet that they expect next.
pub fn acknowledge_too_much(is_on: bool) {
    ACKNOWLEDGES_TOO_MUCH.store(is_on, Ordering::Relaxed);
}

/// Returns true if responders acknowledge too much.
pub(crate) fn acknowledges_too_much() -> bool {
    ACKNOWLEDGES_TOO_MUCH.load(Ordering::Relaxed)
}
