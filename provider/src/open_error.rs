//! Why a device cannot be used, in one line on standard error: verbs can only return an errno, and
//! most programs print that a device cannot be opened and nothing else.

use std::fmt::Display;

use ferroce_platform::os::limits;

use crate::errno::Errno;

/// Says why `what` cannot be had, and what would be right if it is a limit; returns the errno.
pub fn tell(what: &str, error: &dyn Display, errno: i32) -> Errno {
    match limits::advice(errno) {
        Some(advice) => tracing::error!("{what}: {error}; {advice}"),
        None => tracing::error!("{what}: {error}"),
    }
    Errno(errno)
}

/// As [`tell`], for what the system refuses.
pub fn tell_system(what: &str, error: &std::io::Error) -> Errno {
    tell(what, error, error.raw_os_error().unwrap_or(libc::EIO))
}
