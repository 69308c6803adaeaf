//! How many threads of the program wait for an address, by a hash of the address: most objects have
//! none, and are left without asking the world.

use std::sync::atomic::{AtomicU32, Ordering};

const BUCKETS: usize = 1024;
static COUNTS: [AtomicU32; BUCKETS] = [const { AtomicU32::new(0) }; BUCKETS];

fn count(address: usize) -> &'static AtomicU32 {
    &COUNTS[(address / align_of::<u32>()) % BUCKETS]
}

/// Returns true if a thread may wait for this address.
#[inline]
pub fn are_at(address: usize) -> bool {
    count(address).load(Ordering::Relaxed) != 0
}

/// Counts a thread that begins to wait.
pub fn add(address: usize) {
    count(address).fetch_add(1, Ordering::Relaxed);
}

/// Counts a thread that no longer waits.
pub fn remove(address: usize) {
    count(address).fetch_sub(1, Ordering::Relaxed);
}

/// Forgets all waiting threads, in the child of a fork.
pub fn forget() {
    for count in &COUNTS {
        count.store(0, Ordering::Relaxed);
    }
}
