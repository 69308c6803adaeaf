//! Converts `Result` to the conventions of C, and catches panics.

use std::panic::{AssertUnwindSafe, catch_unwind};

use libc::c_int;

use crate::errno::Errno;
use crate::log;
use crate::os::{exit_hint, set_errno};

/// The error that a panic is converted to.
const PANIC: Errno = Errno::IO.because("the library has failed; this is a fault of Ferroce");

/// Logs at level info why a verb is refused, for `FERROCE_LOG` and `--explain-errors`.
#[cold]
pub(super) fn refused(verb: &str, errno: Errno) {
    if !errno.is_usual() {
        exit_hint::note_refused();
        let (site, qpn) = (log::site(), errno.qpn());
        tracing::info!(target: log::REFUSED, qpn, site, "{verb}: {errno}");
    }
}

/// Returns -1 and sets errno if a call has failed. Logs no reason: a signal, for example, is no
/// refusal of a verb.
pub(super) fn or_errno<T: From<i8>>(body: impl FnOnce() -> Result<T, Errno>) -> T {
    guard(body).unwrap_or_else(|errno| {
        set_errno(errno);
        T::from(-1)
    })
}

/// Sets errno for a verb that is refused.
#[cold]
pub(super) fn fail(verb: &str, errno: Errno) -> c_int {
    refused(verb, errno);
    // Last, because the diagnostics may have changed errno.
    set_errno(errno);
    errno.number()
}

/// Runs a verb; a panic in it is an I/O error.
#[inline]
pub(super) fn guard<R>(body: impl FnOnce() -> Result<R, Errno>) -> Result<R, Errno> {
    // Locks do not poison, and objects stay consistent word by word, so they are usable after a
    // panic.
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(Err(PANIC))
}

/// Runs a verb that returns a pointer: null and errno on failure.
pub(super) fn pointer<T>(verb: &str, body: impl FnOnce() -> Result<*mut T, Errno>) -> *mut T {
    guard(body).unwrap_or_else(|errno| {
        fail(verb, errno);
        std::ptr::null_mut()
    })
}

/// Runs a verb that returns 0 or the errno itself.
#[inline]
pub(super) fn status(verb: &str, body: impl FnOnce() -> Result<(), Errno>) -> c_int {
    match guard(body) {
        Ok(()) => 0,
        Err(errno) => fail(verb, errno),
    }
}

/// Runs a verb that returns a value, or -1 and errno.
pub(super) fn minus_one(verb: &str, body: impl FnOnce() -> Result<c_int, Errno>) -> c_int {
    guard(body).unwrap_or_else(|errno| {
        fail(verb, errno);
        -1
    })
}
