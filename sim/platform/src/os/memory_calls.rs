//! System calls that change what is mapped, past the names of libc, which lead to
//! `embed::pinned`.

use std::io;

/// A system call's result, or the error number.
pub type Answer = Result<usize, i32>;

/// Makes a call that a program has asked for, with its own arguments, or one that moves or unmaps
/// memory of which the program has asked to be rid.
///
/// # Errors
/// The error number.
pub fn system_call(number: libc::c_long, arguments: [usize; 6]) -> Answer {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: what the program asks for is its own responsibility; what is moved in between is kept
    // (see `ferroce_embed::pinned`).
    match unsafe { libc::syscall(number, a, b, c, d, e, f) } {
        -1 => Err(io::Error::last_os_error()
            .raw_os_error()
            .unwrap_or(libc::EINVAL)),
        result => Ok(result as usize),
    }
}
