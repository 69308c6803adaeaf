//! Copies from and to memory that may be unmapped meanwhile.
//!
//! A program may unmap memory that it has registered, protect it, or truncate the file behind it.
//! The copy then returns an error and does not end the process: the handler of SIGSEGV and SIGBUS
//! (`os::faults` of the platform) recognises the instructions of this file by their addresses
//! ([`landing`]), as a kernel recognises its copies from and to user space, and continues at their
//! end. So a copy without a fault costs no more than an unguarded one.
//!
//! Only x86-64 has guarded instructions.

use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
use x86_64 as machine;

#[cfg(not(target_arch = "x86_64"))]
mod portable;
pub use machine::{landing, prepare};
#[cfg(not(target_arch = "x86_64"))]
use portable as machine;

/// The memory was not accessible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fault;

/// Copies `length` bytes.
///
/// # Safety
/// What is mapped in the two ranges must be memory that may be read, and written; nothing need be
/// mapped there. They do not overlap.
#[inline]
pub(super) unsafe fn copy(
    destination: *mut u8,
    source: *const u8,
    length: usize,
) -> Result<(), Fault> {
    // SAFETY: the caller keeps the same contract.
    answer(unsafe { machine::copy(destination, source, length, 0) })
}

/// Does the same as [`copy`], then copies `tail` bytes, 1, 2, 4 or 8, by one store: they follow in
/// both ranges, and are aligned to their number in the destination.
///
/// # Safety
/// The contract of [`copy`], for `head + tail` bytes.
#[inline]
pub(super) unsafe fn copy_and_store(
    destination: *mut u8,
    source: *const u8,
    head: usize,
    tail: usize,
) -> Result<(), Fault> {
    // SAFETY: the caller keeps the same contract.
    answer(unsafe { machine::copy(destination, source, head, tail) })
}

/// Stores 64-bit words one after the other, each by one store.
///
/// # Safety
/// The contract of [`copy`], and the destination is aligned to 8 bytes.
#[inline]
pub(super) unsafe fn store_words(destination: *mut u64, words: &[u64]) -> Result<(), Fault> {
    // SAFETY: the caller keeps the contract for the destination; the source is a slice.
    answer(unsafe { machine::store_words(destination, words.as_ptr(), words.len()) })
}

/// Adds to a word, by one instruction. Returns its previous value.
///
/// # Safety
/// The contract of [`copy`], for reading and writing; the address is aligned to 8 bytes.
pub(super) unsafe fn fetch_add(address: *mut u64, add: u64) -> Result<u64, Fault> {
    let before = AtomicU64::new(0);
    // SAFETY: the caller keeps the contract for `address`; `before` is a local.
    answer(unsafe { machine::fetch_add(address, add, before.as_ptr()) })?;
    Ok(before.load(Ordering::Relaxed))
}

/// Replaces a word if it is `compare`, by one instruction. Returns its previous value.
///
/// # Safety
/// The contract of [`fetch_add`].
pub(super) unsafe fn compare_swap(
    address: *mut u64,
    compare: u64,
    swap: u64,
) -> Result<u64, Fault> {
    let before = AtomicU64::new(0);
    // SAFETY: the caller keeps the contract for `address`; `before` is a local.
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
