//! Health of the device: usable or not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Flag that is set once, when the device has stopped, does not answer or is gone; shared by all
/// objects that can detect that.
#[derive(Debug, Default, Clone)]
pub(crate) struct Health(Arc<AtomicBool>);

impl Health {
    pub(crate) fn mark_dead(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
