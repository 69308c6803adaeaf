//! The exported verbs, by object: check, convert, call, return.

mod address;
mod completion;
mod context;
mod device;
mod device_memory;
mod direct_verbs;
mod domain;
mod memory;
mod ops;
mod port;
mod queue_pair;
mod shared_receive;
mod text;
mod unsupported;
mod window;
mod xrc;

pub(super) use completion::release_channel;

use crate::errno::Errno;

/// Returns a number for the `handle` fields, which is only unique in the process.
fn next_handle() -> u32 {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Copies a struct to a program whose version of it may be shorter or longer: the common part, then
/// zeros.
///
/// # Safety
/// `destination` has `size` writable bytes; `T` is plain data without padding that matters.
unsafe fn copy_sized<T: Copy>(destination: *mut T, value: &T, size: usize) -> Result<(), Errno> {
    if destination.is_null() {
        return Err(Errno::null("attr"));
    }
    let known = size.min(size_of::<T>());
    let destination: *mut u8 = destination.cast();
    // SAFETY: the caller guarantees that `destination` has `size` writable bytes; `T` is plain data
    // without padding that matters.
    unsafe {
        destination.copy_from_nonoverlapping(std::ptr::from_ref(value).cast(), known);
        destination.add(known).write_bytes(0, size - known);
    }
    Ok(())
}
