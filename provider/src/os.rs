//! Services of the operating system, except the device: descriptors, memory, forks.

use crate::errno::Errno;

pub(crate) mod caller;
pub(crate) mod descriptor;
pub(crate) mod event_fd;
pub(crate) mod exit_hint;
pub(crate) mod fork;
pub(crate) mod memory;

/// Returns the calling thread's errno.
pub(crate) fn last_errno() -> Errno {
    // SAFETY: the pointer to this thread's errno is always valid.
    Errno::new(unsafe { *libc::__errno_location() })
}

/// Sets the calling thread's errno.
pub(crate) fn set_errno(errno: Errno) {
    // SAFETY: the pointer to this thread's errno is always valid.
    unsafe { *libc::__errno_location() = errno.number() };
}
