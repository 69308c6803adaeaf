//! Files of the kernel that are others for a program of a world: `/proc/cpuinfo`, which states the
//! frequency of the time stamp counter, and those that identify the host (`names`).
//!
//! perftest uses that frequency if its own measurement is close to it. A program of a world sees
//! one processor with the frequency of the world's counter; the rest is the kernel's text.
#![expect(unsafe_code, reason = "exported functions of the C library")]

use std::ffi::{CStr, c_char, c_int};
use std::io::Write;
use std::os::fd::{AsFd, IntoRawFd, OwnedFd};

use libc::{FILE, mode_t};
use rustix::fs::{MemfdFlags, Mode, OFlags, SeekFrom, memfd_create, seek};
use rustix::io::read;

use crate::next::next;
use crate::os::set_errno;
use crate::thread::state;
use crate::{early, joined, names, shared_memory};

const PATH: &CStr = c"/proc/cpuinfo";
/// Bytes of the kernel's file that are read: they contain the first processor.
const READ_BYTES: usize = 1 << 14;

/// Returns the file to open in place of the kernel's, if there is one.
///
/// # Safety
/// `path` is null or a C string.
#[inline]
unsafe fn replacement(path: *const c_char, flags: c_int) -> Option<OwnedFd> {
    if path.is_null() || state().is_real() {
        return None;
    }
    // SAFETY: the caller guarantees a C string or null, and null is excluded above.
    let path = unsafe { CStr::from_ptr(path) };
    if path != PATH && !names::is_file(path) {
        shared_memory::note_open(path, flags);
        return None;
    }
    // A library that prepares itself before this one, as UCX, measures the counter next.
    early::join();
    if let Some(text) = names::file(path) {
        return with_text(&text).ok();
    }
    if path == PATH && joined::is_joined() {
        file().ok()
    } else {
        None
    }
}

/// Returns a file with the text for the program.
fn file() -> std::io::Result<OwnedFd> {
    let mut buffer = vec![0; READ_BYTES];
    let kernel = rustix::fs::open(PATH, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut length = 0;
    loop {
        match read(&kernel, &mut buffer[length..])? {
            0 => break,
            count => length += count,
        }
    }
    with_text(&one_processor(&String::from_utf8_lossy(&buffer[..length])))
}

/// Returns a file with this text.
fn with_text(text: &str) -> std::io::Result<OwnedFd> {
    let file = std::fs::File::from(memfd_create("ferroce-text", MemfdFlags::CLOEXEC)?);
    (&file).write_all(text.as_bytes())?;
    seek(file.as_fd(), SeekFrom::Start(0))?;
    Ok(file.into())
}

/// Returns the first processor of the kernel's text, changed to the world's frequency.
fn one_processor(text: &str) -> String {
    let lines = text.lines().take_while(|line| !line.trim().is_empty());
    let mut result = String::with_capacity(text.len());
    for line in lines {
        let name = line.split(':').next().unwrap_or(line).trim_end();
        let value = match name {
            "cpu MHz" => Some("1000.000"),
            "siblings" | "cpu cores" => Some("1"),
            _ => None,
        };
        match (value, line.split_once(':')) {
            (Some(value), Some((head, _))) => {
                result.push_str(head);
                result.push_str(": ");
                result.push_str(value);
            }
            _ => result.push_str(line),
        }
        result.push('\n');
    }
    result.push('\n');
    result
}

type Open = unsafe extern "C" fn(*const c_char, c_int, mode_t) -> c_int;
type OpenAt = unsafe extern "C" fn(c_int, *const c_char, c_int, mode_t) -> c_int;
type OpenFile = unsafe extern "C" fn(*const c_char, *const c_char) -> *mut FILE;

/// # Safety
/// `path` is null or a C string.
unsafe fn open_with(real: Option<Open>, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: the caller keeps this function's contract: `path` is null or a C string.
    if let Some(file) = unsafe { replacement(path, flags) } {
        return file.into_raw_fd();
    }
    match real {
        // SAFETY: the caller keeps the contract of `open`; the arguments are passed on.
        Some(real) => unsafe { real(path, flags, mode) },
        None => {
            set_errno(libc::ENOSYS);
            -1
        }
    }
}

/// # Safety
/// The contract of [`open_with`].
unsafe fn open_at_with(
    real: Option<OpenAt>,
    folder: c_int,
    path: *const c_char,
    flags: c_int,
    mode: mode_t,
) -> c_int {
    // SAFETY: the caller keeps this function's contract: `path` is null or a C string.
    if let Some(file) = unsafe { replacement(path, flags) } {
        return file.into_raw_fd();
    }
    match real {
        // SAFETY: the caller keeps the contract of `openat`; the arguments are passed on.
        Some(real) => unsafe { real(folder, path, flags, mode) },
        None => {
            set_errno(libc::ENOSYS);
            -1
        }
    }
}

/// # Safety
/// Both are C strings.
unsafe fn open_file_with(
    real: Option<OpenFile>,
    path: *const c_char,
    mode: *const c_char,
) -> *mut FILE {
    // SAFETY: the contract of `replacement`: the caller guarantees that `path` is a C string.
    if let Some(file) = unsafe { replacement(path, libc::O_RDONLY) } {
        // SAFETY: the descriptor is open and its ownership passes to the stream; the caller
        // guarantees that `mode` is a C string.
        return unsafe { libc::fdopen(file.into_raw_fd(), mode) };
    }
    match real {
        // SAFETY: the caller guarantees two C strings, as `fopen` requires.
        Some(real) => unsafe { real(path, mode) },
        None => {
            set_errno(libc::ENOSYS);
            std::ptr::null_mut()
        }
    }
}

// The C library's functions take the mode only if they may create a file. In the ABIs of the
// supported machines it is harmless to read an argument that was not passed.
macro_rules! wrap_open {
    ($($name:ident, $text:literal;)*) => {$(
        /// # Safety
        /// The contract of the C library's function of this name.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
            // SAFETY: the caller keeps the libc function's contract, which includes the one of
            // `open_with`.
            unsafe { open_with(next!($text as Open), path, flags, mode) }
        }
    )*};
}
wrap_open!(open, c"open"; open64, c"open64"; __open_2, c"__open_2"; __open64_2, c"__open64_2";);

macro_rules! wrap_openat {
    ($($name:ident, $text:literal;)*) => {$(
        /// # Safety
        /// The contract of the C library's function of this name.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            folder: c_int,
            path: *const c_char,
            flags: c_int,
            mode: mode_t,
        ) -> c_int {
            // SAFETY: the caller keeps the libc function's contract, which includes the one of
            // `open_at_with`.
            unsafe { open_at_with(next!($text as OpenAt), folder, path, flags, mode) }
        }
    )*};
}
wrap_openat!(openat, c"openat"; openat64, c"openat64";);
wrap_openat!(__openat_2, c"__openat_2"; __openat64_2, c"__openat64_2";);

macro_rules! wrap_fopen {
    ($($name:ident, $text:literal;)*) => {$(
        /// # Safety
        /// The contract of the C library's function of this name.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(path: *const c_char, mode: *const c_char) -> *mut FILE {
            // SAFETY: the caller keeps the libc function's contract, which includes the one of
            // `open_file_with`.
            unsafe { open_file_with(next!($text as OpenFile), path, mode) }
        }
    )*};
}
wrap_fopen!(fopen, c"fopen"; fopen64, c"fopen64";);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_processor_of_the_worlds_frequency() {
        let kernel = "processor\t: 0\nmodel name\t: a: b\ncpu MHz\t\t: 2596.122\nsiblings\t: 2\n\n\
            processor\t: 1\ncpu MHz\t\t: 2596.122\n\n";
        let expected =
            "processor\t: 0\nmodel name\t: a: b\ncpu MHz\t\t: 1000.000\nsiblings\t: 1\n\n";
        assert_eq!(one_processor(kernel), expected);
    }
}
