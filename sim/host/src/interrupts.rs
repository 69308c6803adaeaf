//! MSI-X messages of a function in this process: queued under the model's lock, delivered after.

use std::sync::atomic::{AtomicU64, Ordering};

use ferroce_driver::bus::InterruptHandler;
use ferroce_spec::register::VECTOR_COUNT;
use parking_lot::{Mutex, RwLock};

const _: () = assert!(VECTOR_COUNT as u32 <= u64::BITS);

/// Handlers, and the vectors whose handlers are to be called.
#[derive(Default)]
pub struct Interrupts {
    waiting: AtomicU64,
    handlers: RwLock<[Option<InterruptHandler>; VECTOR_COUNT as usize]>,
    /// Held by the thread that delivers. A handler may cause the next interrupt; its thread then
    /// delivers that one after the handler has returned, not inside it.
    delivering: Mutex<()>,
}

impl std::fmt::Debug for Interrupts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Interrupts")
            .field("waiting", &self.waiting)
            .finish_non_exhaustive()
    }
}

impl Interrupts {
    /// Sets or clears the handler of a vector. Returns false if there is no such vector.
    pub fn set_handler(&self, vector: u16, handler: Option<InterruptHandler>) -> bool {
        match self.handlers.write().get_mut(usize::from(vector)) {
            Some(place) => {
                *place = handler;
                true
            }
            None => false,
        }
    }

    /// Calls the handlers of the vectors whose bits are set in `raised`, and of pending ones.
    #[inline]
    pub fn deliver(&self, raised: u64) {
        if raised != 0 {
            self.waiting.fetch_or(raised, Ordering::SeqCst);
            self.deliver_waiting();
        }
    }

    #[cold]
    fn deliver_waiting(&self) {
        // A thread that fails to get the lock leaves its bits to the holder, which checks again
        // after
        // releasing the lock.
        while self.waiting.load(Ordering::SeqCst) != 0 {
            let Some(_delivering) = self.delivering.try_lock() else {
                return;
            };
            let mut vectors = self.waiting.swap(0, Ordering::SeqCst);
            while vectors != 0 {
                let vector = vectors.trailing_zeros() as usize;
                vectors &= vectors - 1;
                // Not called under the lock: a handler may set handlers.
                let handler = self.handlers.read().get(vector).cloned().flatten();
                if let Some(handler) = handler {
                    handler();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[test]
    fn a_handler_that_raises_is_called_again_and_not_inside_itself() {
        let interrupts = Arc::new(Interrupts::default());
        let (inner, calls, depth) = (
            interrupts.clone(),
            Arc::new(AtomicU32::new(0)),
            AtomicU32::new(0),
        );
        let counted = calls.clone();
        let handler = move || {
            assert_eq!(depth.fetch_add(1, Ordering::SeqCst), 0);
            if counted.fetch_add(1, Ordering::SeqCst) < 3 {
                inner.deliver(1 << 2);
            }
            depth.fetch_sub(1, Ordering::SeqCst);
        };
        assert!(interrupts.set_handler(2, Some(Arc::new(handler))));
        interrupts.deliver(1 << 2 | 1 << 5);
        assert_eq!(calls.load(Ordering::SeqCst), 4);
        assert!(interrupts.set_handler(2, None));
        interrupts.deliver(1 << 2);
        assert_eq!(calls.load(Ordering::SeqCst), 4);
        assert!(!interrupts.set_handler(VECTOR_COUNT, None));
    }
}
