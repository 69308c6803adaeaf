//! Waiting policy of a thread whose poll of a device in another process found nothing.

use std::cell::Cell;

/// Empty polls before a thread yields: with fewer processors than threads, the device may be
/// waiting for this processor.
const POLLS_BEFORE_YIELD: u32 = 20;

thread_local! {
    static EMPTY_POLLS: Cell<u32> = const { Cell::new(0) };
}

/// Spins for a moment, and yields after every [`POLLS_BEFORE_YIELD`] calls.
#[inline]
pub fn after_empty_poll() {
    // A thread that is ending and has no thread-local storage any more yields.
    let polls = EMPTY_POLLS.try_with(|polls| {
        polls.set((polls.get() + 1) % POLLS_BEFORE_YIELD);
        polls.get()
    });
    match polls {
        Ok(1..) => std::hint::spin_loop(),
        _ => std::thread::yield_now(),
    }
}
