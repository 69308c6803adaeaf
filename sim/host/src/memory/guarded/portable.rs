//! Unguarded copies, for other processors: a fault is the program's.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

/// See `guarded::copy` and `guarded::copy_and_store`.
///
/// # Safety
/// Their contracts, with both ranges valid.
#[inline]
pub(super) unsafe fn copy(
    destination: *mut u8,
    source: *const u8,
    head: usize,
    tail: usize,
) -> u32 {
    // SAFETY: the caller guarantees two valid ranges that do not overlap, and an aligned tail.
    unsafe {
        std::ptr::copy_nonoverlapping(source, destination, head);
        if tail > 0 {
            let bytes = std::slice::from_raw_parts(source.add(head), tail);
            store_last(destination.add(head), bytes);
        }
    }
    0
}

/// See `guarded::store_words`.
///
/// # Safety
/// Its contract, with both ranges valid.
pub(super) unsafe fn store_words(destination: *mut u64, source: *const u64, words: usize) -> u32 {
    for index in 0..words {
        let ordering = if index + 1 == words {
            Ordering::Release
        } else {
            Ordering::Relaxed
        };
        // SAFETY: the caller guarantees two valid ranges, and an aligned destination.
        unsafe {
            let word = AtomicU64::from_ptr(destination.add(index));
            word.store(*source.add(index), ordering);
        }
    }
    0
}

/// See `guarded::fetch_add`.
///
/// # Safety
/// Its contract, with a valid address.
pub(super) unsafe fn fetch_add(address: *mut u64, add: u64, before: *mut u64) -> u32 {
    // SAFETY: the caller guarantees a valid, aligned address, and `before` is writable.
    unsafe { *before = AtomicU64::from_ptr(address).fetch_add(add, Ordering::SeqCst) };
    0
}

/// See `guarded::compare_swap`.
///
/// # Safety
/// Its contract, with a valid address.
pub(super) unsafe fn compare_swap(
    address: *mut u64,
    compare: u64,
    swap: u64,
    before: *mut u64,
) -> u32 {
    // SAFETY: the caller guarantees a valid, aligned address, and `before` is writable.
    unsafe {
        let word = AtomicU64::from_ptr(address);
        let found = word.compare_exchange(compare, swap, Ordering::SeqCst, Ordering::SeqCst);
        *before = found.unwrap_or_else(|original| original);
    }
    0
}

/// Does nothing: there is nothing to prepare.
pub fn prepare() {}

/// Returns true: there is one way to copy.
#[cfg(test)]
pub fn prepare_narrower(steps: u8) -> bool {
    steps == 0
}

/// Returns `None`: no instruction is guarded.
pub fn landing(_instruction: usize) -> Option<usize> {
    None
}

/// Stores 1, 2, 4 or 8 bytes after everything stored before.
///
/// # Safety
/// `address` must be valid for writes of `bytes.len()` bytes.
#[inline]
unsafe fn store_last(address: *mut u8, bytes: &[u8]) {
    // SAFETY: the caller guarantees validity, and chose a length to which the end, and so the
    // start, is aligned. Other threads may read these bytes meanwhile: hence atomics.
    unsafe {
        match *bytes {
            [a] => AtomicU8::from_ptr(address).store(a, Ordering::Release),
            [a, b] => AtomicU16::from_ptr(address.cast())
                .store(u16::from_ne_bytes([a, b]), Ordering::Release),
            [a, b, c, d] => AtomicU32::from_ptr(address.cast())
                .store(u32::from_ne_bytes([a, b, c, d]), Ordering::Release),
            [a, b, c, d, e, f, g, h] => AtomicU64::from_ptr(address.cast()).store(
                u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
                Ordering::Release,
            ),
            _ => {
                fence(Ordering::Release);
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), address, bytes.len());
            }
        }
    }
}
