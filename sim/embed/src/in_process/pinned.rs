//! Pages that the program unmaps while the device still uses them: see [`super::mapping_calls`].

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ferroce_host::memory::{MapError, MemoryMap};
use parking_lot::MutexGuard;

use super::{InProcess, Model};

/// If a thread's stack pointer is at most this far below the model's, the model called it.
const DEPTH: usize = 256 << 10;
/// Time limit for the model's lock. A signal handler may have interrupted its holder.
const TIMEOUT: Duration = Duration::from_millis(200);

/// The locked mappings of a function.
pub struct Held<'a>(MutexGuard<'a, Model>, &'a InProcess);

impl Held<'_> {
    /// Returns the mappings.
    pub fn mappings(&mut self) -> &mut MemoryMap {
        self.0.mappings()
    }

    /// Releases them. A thread that rang meanwhile has left its mark and relies on this thread.
    pub fn end(self) {
        let Self(model, function) = self;
        drop(model);
        std::sync::atomic::fence(Ordering::SeqCst);
        // The model does not run here, because it might allocate memory. A polling program runs it
        // itself.
        if !function.doorbells.is_empty() {
            function.words.wake_background(function.clock.ticks());
        }
    }
}

/// Returns the stack pointer of this thread.
#[inline(always)]
pub(super) fn stack_pointer() -> usize {
    let here = 0_u8;
    std::ptr::from_ref(&here).addr()
}

impl InProcess {
    /// Returns true if the model called this thread, which therefore already holds the mappings.
    pub fn is_caller(&self) -> bool {
        let inside = self.inside.load(Ordering::Relaxed);
        // The model's own frame may be a little deeper than the compared address.
        let here = stack_pointer();
        inside != 0 && here < inside + DEPTH && inside < here + DEPTH
    }

    /// Locks the mappings. `None` if the lock is not free within a short time.
    pub fn hold(&self) -> Option<Held<'_>> {
        let model = self.model.try_lock_for(TIMEOUT)?;
        Some(Held(model, self))
    }

    /// Does the same as `Bus::unmap` for mappings that may have moved. Returns the addresses of the
    /// remaining moved pages.
    pub fn unmap_moved(&self, iova: u64, length: u64) -> Result<Vec<Range<usize>>, MapError> {
        self.with_mappings(|mappings| mappings.unmap_moved(iova, length))
    }

    /// Returns the parts of these ranges that no mapping uses.
    pub fn unused(&self, places: Vec<Range<usize>>) -> Vec<Range<usize>> {
        self.with_mappings(|mappings| mappings.unused(places))
    }
}
