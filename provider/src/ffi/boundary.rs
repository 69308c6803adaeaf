//! Converts `Result` to the conventions of C, and catches panics.

use std::panic::{AssertUnwindSafe, catch_unwind};

use libc::c_int;

use crate::errno::Errno;

/// Returns the calling thread's errno.
pub(super) fn last_errno() -> Errno {
    // SAFETY: the pointer to this thread's errno is always valid.
    Errno(unsafe { *libc::__errno_location() })
}

/// Sets the calling thread's errno.
pub(super) fn set_errno(errno: Errno) {
    // SAFETY: the pointer to this thread's errno is always valid.
    unsafe { *libc::__errno_location() = errno.0 };
}

/// Runs a verb; a panic in it is an I/O error.
#[inline]
pub(super) fn guard<R>(body: impl FnOnce() -> Result<R, Errno>) -> Result<R, Errno> {
    // Locks that do not poison protect the state after a panic, in objects that stay consistent
    // word by word.
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(Err(Errno::IO))
}

/// Runs a verb that returns a pointer: null and errno on failure.
pub(super) fn pointer<T>(body: impl FnOnce() -> Result<*mut T, Errno>) -> *mut T {
    guard(body).unwrap_or_else(|errno| {
        set_errno(errno);
        std::ptr::null_mut()
    })
}

/// Runs a verb that returns 0 or the errno itself.
#[inline]
pub(super) fn status(body: impl FnOnce() -> Result<(), Errno>) -> c_int {
    match guard(body) {
        Ok(()) => 0,
        Err(errno) => {
            set_errno(errno);
            errno.0
        }
    }
}

/// Runs a verb that returns a value, or -1 and errno.
pub(super) fn minus_one(body: impl FnOnce() -> Result<c_int, Errno>) -> c_int {
    guard(body).unwrap_or_else(|errno| {
        set_errno(errno);
        -1
    })
}
