//! Copies from and to memory that may go away meanwhile.
//!
//! A program may unmap what it has registered, protect it, or truncate the file behind it. The copy
//! then ends with an answer and not with the process: the handler of SIGSEGV and SIGBUS
//! ([`crate::os::faults`]) knows the instructions of this file by their addresses, as a kernel knows
//! its copies from and to user space, and goes on at their end. So a copy that does not fault costs
//! no more than one that nobody guards.
//!
//! On other processors than x86-64 nothing is guarded.

use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
use x86_64 as machine;

#[cfg(not(target_arch = "x86_64"))]
mod portable;
#[cfg(not(target_arch = "x86_64"))]
use portable as machine;

pub use machine::{landing, prepare};

/// The memory was not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fault;

/// Copies `length` bytes.
///
/// # Safety
/// One of the two ranges must be valid, for what is done with it. The other one may be any: what is
/// mapped there must be memory that may be read or written, or not be there at all. They do not
/// overlap.
#[inline]
pub(super) unsafe fn copy(
    destination: *mut u8,
    source: *const u8,
    length: usize,
) -> Result<(), Fault> {
    // SAFETY: by this function's contract.
    answer(unsafe { machine::copy(destination, source, length, 0) })
}

/// As [`copy`], and then `tail` bytes, 1, 2, 4 or 8, by one store: they follow in both ranges, and
/// are aligned to their number in the destination.
///
/// # Safety
/// As for [`copy`], of `head + tail` bytes.
#[inline]
pub(super) unsafe fn copy_and_store(
    destination: *mut u8,
    source: *const u8,
    head: usize,
    tail: usize,
) -> Result<(), Fault> {
    // SAFETY: by this function's contract.
    answer(unsafe { machine::copy(destination, source, head, tail) })
}

/// Stores 64-bit words one after the other, each one whole.
///
/// # Safety
/// As for [`copy`], and the destination is aligned to 8 bytes.
#[inline]
pub(super) unsafe fn store_words(destination: *mut u64, words: &[u64]) -> Result<(), Fault> {
    // SAFETY: by this function's contract; the words are ours.
    answer(unsafe { machine::store_words(destination, words.as_ptr(), words.len()) })
}

/// Adds to a word, as one instruction. What was there before.
///
/// # Safety
/// As for [`copy`], for reading and writing; the address is aligned to 8 bytes.
pub(super) unsafe fn fetch_add(address: *mut u64, add: u64) -> Result<u64, Fault> {
    let before = AtomicU64::new(0);
    // SAFETY: by this function's contract; `before` is ours.
    answer(unsafe { machine::fetch_add(address, add, before.as_ptr()) })?;
    Ok(before.load(Ordering::Relaxed))
}

/// Replaces a word if it is `compare`, as one instruction. What was there before.
///
/// # Safety
/// As for [`fetch_add`].
pub(super) unsafe fn compare_swap(
    address: *mut u64,
    compare: u64,
    swap: u64,
) -> Result<u64, Fault> {
    let before = AtomicU64::new(0);
    // SAFETY: as in `fetch_add`.
    answer(unsafe { machine::compare_swap(address, compare, swap, before.as_ptr()) })?;
    Ok(before.load(Ordering::Relaxed))
}

#[inline]
fn answer(has_faulted: u32) -> Result<(), Fault> {
    match has_faulted {
        0 => Ok(()),
        _ => Err(Fault),
    }
}

#[cfg(test)]
mod tests;
