//! System calls that change mappings, bypassing the names of libc, which lead to `mapping_calls` of
//! `embed`.

use std::io;

/// Result of a system call, or the errno.
pub type Answer = Result<usize, i32>;

/// Makes a call that a program has requested, with its own arguments, or one that moves or unmaps
/// memory that the program has requested to be unmapped.
///
/// # Errors
/// The errno.
pub fn system_call(number: libc::c_long, arguments: [usize; 6]) -> Answer {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the program is responsible for the effect of its request; moved memory is kept
    // (see `mapping_calls` of `embed`).
    match unsafe { libc::syscall(number, a, b, c, d, e, f) } {
        -1 => Err(io::Error::last_os_error()
            .raw_os_error()
            .unwrap_or(libc::EINVAL)),
        result => Ok(result as usize),
    }
}
