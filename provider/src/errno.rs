//! The error type of the verbs: an errno.

use libc::c_int;

/// Error of a verb, as its `errno`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub c_int);

impl Errno {
    /// An argument, or a combination of arguments, is wrong.
    pub const INVALID: Self = Self(libc::EINVAL);
    /// The device, or this release, does not support the operation.
    pub const NOT_SUPPORTED: Self = Self(libc::EOPNOTSUPP);
    /// Another object still uses the object.
    pub const BUSY: Self = Self(libc::EBUSY);
    /// A queue is full, or memory is exhausted.
    pub const NO_MEMORY: Self = Self(libc::ENOMEM);
    /// The library failed, or the object belongs to the parent of this process.
    pub const IO: Self = Self(libc::EIO);
    /// No event is available yet; the caller may try again.
    pub const AGAIN: Self = Self(libc::EAGAIN);
    /// The memory is not mapped, or not with these rights.
    pub const FAULT: Self = Self(libc::EFAULT);
    /// The object does not exist.
    pub const NO_ENTRY: Self = Self(libc::ENOENT);
    /// The GID table has no entry there.
    pub const NO_DATA: Self = Self(libc::ENODATA);
    /// There is no answer for the destination GID.
    pub const HOST_UNREACHABLE: Self = Self(libc::EHOSTUNREACH);
}

impl From<ferroce_driver::Error> for Errno {
    fn from(error: ferroce_driver::Error) -> Self {
        tracing::debug!(%error, "verb failed");
        Self(error.errno())
    }
}

impl From<ferroce_driver::PostError> for Errno {
    fn from(error: ferroce_driver::PostError) -> Self {
        Self(error.errno())
    }
}
