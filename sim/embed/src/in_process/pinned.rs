//! Pages that the program takes away while the device may use them: see [`crate::pinned`].

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::MutexGuard;

use super::{InProcess, Model};
use ferroce_platform::memory::{MapError, MemoryMap};

/// A thread that is this little deeper in a stack than the model is called by the model.
const DEPTH: usize = 256 << 10;
/// How long to wait for the model. A signal handler may have interrupted who holds it.
const PATIENCE: Duration = Duration::from_millis(200);

/// The mappings of a function, for as long as this lives.
pub struct Held<'a>(MutexGuard<'a, Model>, &'a InProcess);

impl Held<'_> {
    /// The mappings.
    pub fn mappings(&mut self) -> &mut MemoryMap {
        self.0.mappings()
    }

    /// Lets go of them. Who rang meanwhile has left its mark, and relies on us.
    pub fn end(self) {
        let Self(model, function) = self;
        drop(model);
        std::sync::atomic::fence(Ordering::SeqCst);
        // Not run here: that could allocate memory. A program that polls will look itself.
        if !function.doorbells.is_empty() {
            let now = function.clock.ticks();
            function.registry.wake_background(function.place, now);
        }
    }
}

/// Where the stack of this thread is.
#[inline(always)]
pub(super) fn stack_pointer() -> usize {
    let here = 0_u8;
    std::ptr::from_ref(&here).addr()
}

impl InProcess {
    /// Whether this thread has been called by the model: then it holds the mappings already.
    pub fn is_caller(&self) -> bool {
        let inside = self.inside.load(Ordering::Relaxed);
        // The model's own frame may lie a little deeper than what is compared here.
        let here = stack_pointer();
        inside != 0 && here < inside + DEPTH && inside < here + DEPTH
    }

    /// Holds the mappings; `None` if they cannot be had within a short time.
    pub fn hold(&self) -> Option<Held<'_>> {
        let model = self.model.try_lock_for(PATIENCE)?;
        Some(Held(model, self))
    }

    /// As `Bus::unmap`, for mappings that may have moved. Places of their own that are left over.
    pub fn unmap_moved(&self, iova: u64, length: u64) -> Result<Vec<Range<usize>>, MapError> {
        self.with_mappings(|mappings| mappings.unmap_moved(iova, length))
    }

    /// What of these places no mapping uses.
    pub fn unused(&self, places: Vec<Range<usize>>) -> Vec<Range<usize>> {
        self.with_mappings(|mappings| mappings.unused(places))
    }
}
