//! The threads of the world by the numbers of their pages.

#![expect(unsafe_code, reason = "a function of libc")]

use std::sync::atomic::{AtomicUsize, Ordering};

use ferroce_timed_protocol::MAX_THREADS;
use ferroce_timed_protocol::page::ThreadPage;
use libc::pthread_t;

use crate::joined;

/// The thread of each page. Zero: the page is free.
static THREADS: [AtomicUsize; MAX_THREADS] = [const { AtomicUsize::new(0) }; MAX_THREADS];

/// Returns the entry for a page.
fn entry_of(page: &ThreadPage) -> Option<&'static AtomicUsize> {
    let pages = &joined::pages()?.threads;
    let number = pages.iter().position(|other| std::ptr::eq(other, page))?;
    THREADS.get(number)
}

/// Notes that the calling thread has this page.
pub fn add_own(page: &ThreadPage) {
    if let Some(entry) = entry_of(page) {
        // SAFETY: `pthread_self` takes no arguments.
        entry.store(unsafe { libc::pthread_self() } as usize, Ordering::Relaxed);
    }
}

/// Notes that the thread with this page ends. Returns the address for which threads wait that wait
/// for that.
pub fn remove(page: &ThreadPage) -> Option<usize> {
    let entry = entry_of(page)?;
    entry.store(0, Ordering::Relaxed);
    Some(std::ptr::from_ref(entry).addr())
}

/// Forgets all threads, in the child of a fork.
pub fn forget() {
    for entry in &THREADS {
        entry.store(0, Ordering::Relaxed);
    }
}

/// Returns the number of the page of a thread. `None`: it is outside of the world.
pub fn number_of(thread: pthread_t) -> Option<usize> {
    let is_thread = |entry: &AtomicUsize| entry.load(Ordering::Relaxed) == thread as usize;
    THREADS.iter().position(is_thread)
}

/// Returns the address for which threads wait that wait for the end of the thread with this number.
pub fn address_of(number: usize) -> Option<usize> {
    THREADS
        .get(number)
        .map(|entry| std::ptr::from_ref(entry).addr())
}
