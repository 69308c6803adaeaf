//! Reports why a device cannot be used, in one line on standard error: verbs can only return an
//! errno, and most programs only print that a device cannot be opened.

use std::fmt::Display;

use ferroce_platform::os::limits;

use crate::errno::Errno;

/// Reports why `what` failed, with a remedy if a limit is the cause; returns the errno.
pub fn report(what: &str, error: &dyn Display, errno: i32) -> Errno {
    match limits::advice(errno) {
        Some(advice) => tracing::error!("{what}: {error}; {advice}"),
        None => tracing::error!("{what}: {error}"),
    }
    Errno::new(errno).because("the line before says why")
}

/// Like [`report`], for an error of the operating system.
pub fn report_system(what: &str, error: &std::io::Error) -> Errno {
    report(what, error, error.raw_os_error().unwrap_or(libc::EIO))
}
