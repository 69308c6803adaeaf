//! Calls that open a file. Counters and the RDMA CM device file are no files of the tree: they are
//! opened separately.

use std::ffi::CStr;
use std::mem::MaybeUninit;

use libc::{AT_FDCWD, FILE, c_char, c_int, mode_t};

use super::redirect::{PATH_MAX, Target, is_read_only, redirect, room};
use super::{fail, missing};
use crate::errno::Errno;
use crate::ffi::next::next;
use crate::ffi::{live_file, rdma_cm};
use crate::rdma_cm::DEVICE_FILE;

/// Files of sysfs cannot be written, not even by root.
const READ_ONLY: Errno = Errno::new(libc::EACCES);

/// Returns true for the device file of RDMA CM.
///
/// # Safety
/// `path` is null or a C string.
unsafe fn is_device_file(path: *const c_char) -> bool {
    // SAFETY: the caller guarantees that `path` is null or a C string.
    !path.is_null() && unsafe { CStr::from_ptr(path) }.to_bytes() == DEVICE_FILE
}

/// Opens by system call.
///
/// # Safety
/// `path` is null or a C string.
unsafe fn open_at(directory: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: the caller guarantees that `path` is null or a C string.
    if unsafe { is_device_file(path) } {
        return rdma_cm::open(flags);
    }
    // SAFETY: the caller guarantees that `path` is null or a C string.
    if let Some(fd) = unsafe { live_file::open(directory, path, flags) } {
        return fd;
    }
    let writes = flags & (libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC) != libc::O_RDONLY;
    // SAFETY: the caller guarantees that `path` is null or a C string.
    if writes && unsafe { is_read_only(path) } {
        return fail(READ_ONLY);
    }
    let mut room = room();
    let flags = flags | libc::O_LARGEFILE;
    // SAFETY: the caller guarantees that `path` is null or a C string.
    unsafe {
        let path = redirect(path, &mut room);
        libc::syscall(libc::SYS_openat, directory, path, flags, mode) as c_int
    }
}

/// Declares entries that open a file. C declares them variadic; the optional mode is passed like
/// one more argument on the supported machines, and the kernel reads it only when it creates a
/// file. Names that end in `_2` are called under `_FORTIFY_SOURCE`, without a mode.
macro_rules! open_entries {
    ($($open:ident $open_2:ident $openat:ident $openat_2:ident;)*) => {$(
        /// `open` of libc.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
            // SAFETY: contract of `open`: `path` is null or a C string.
            unsafe { open_at(AT_FDCWD, path, flags, mode) }
        }

        /// `open` of libc under `_FORTIFY_SOURCE`.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $open_2(path: *const c_char, flags: c_int) -> c_int {
            // SAFETY: contract of `open`: `path` is null or a C string.
            unsafe { open_at(AT_FDCWD, path, flags, 0) }
        }

        /// `openat` of libc.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $openat(
            directory: c_int,
            path: *const c_char,
            flags: c_int,
            mode: mode_t,
        ) -> c_int {
            // SAFETY: contract of `openat`: `path` is null or a C string.
            unsafe { open_at(directory, path, flags, mode) }
        }

        /// `openat` of libc under `_FORTIFY_SOURCE`.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $openat_2(
            directory: c_int,
            path: *const c_char,
            flags: c_int,
        ) -> c_int {
            // SAFETY: contract of `openat`: `path` is null or a C string.
            unsafe { open_at(directory, path, flags, 0) }
        }
    )*};
}
open_entries! {
    open __open_2 openat __openat_2;
    open64 __open64_2 openat64 __openat64_2;
}

/// Returns true if a stream of this mode is only read.
///
/// # Safety
/// `mode` is null or a C string.
unsafe fn is_read_mode(mode: *const c_char) -> bool {
    !mode.is_null() && {
        // SAFETY: the caller guarantees that `mode` is a C string, as it is not null.
        let mode = unsafe { CStr::from_ptr(mode) }.to_bytes();
        mode.starts_with(b"r") && !mode.contains(&b'+')
    }
}

/// Result of [`open_live`] if the tree has the content of the file.
const NOT_LIVE: c_int = -2;

/// Opens a file whose content changes for a stream; -1 and errno if it cannot be opened so.
///
/// # Safety
/// `path` and `mode` are null or C strings.
#[inline(never)]
unsafe extern "C" fn open_live(path: *const c_char, mode: *const c_char) -> c_int {
    // SAFETY: the caller guarantees that `path` and `mode` are null or C strings.
    let opened = unsafe {
        let access = if is_read_mode(mode) {
            libc::O_RDONLY
        } else {
            libc::O_RDWR
        };
        live_file::open(AT_FDCWD, path, access | libc::O_CLOEXEC)
    };
    opened.unwrap_or(NOT_LIVE)
}

/// Returns the path of a descriptor of this process, by which the kernel opens its file anew.
#[inline(never)]
extern "C" fn path_of_descriptor(fd: c_int, room: &mut MaybeUninit<Target>) -> *const c_char {
    let text = format!("/proc/self/fd/{fd}\0");
    let target = room.write([0; PATH_MAX]);
    target[..text.len()].copy_from_slice(text.as_bytes());
    target.as_ptr().cast()
}

type Fopen = unsafe extern "C" fn(*const c_char, *const c_char) -> *mut FILE;

/// Opens a stream.
///
/// # Safety
/// `path` and `mode` are C strings, `next` is libc's `fopen`.
unsafe fn open_stream(next: Option<Fopen>, path: *const c_char, mode: *const c_char) -> *mut FILE {
    let mut room = room();
    // SAFETY: the caller guarantees that `path` and `mode` are C strings; the new descriptor
    // is open and belongs to the stream from then on.
    unsafe {
        match open_live(path, mode) {
            NOT_LIVE => {}
            -1 => return std::ptr::null_mut(),
            fd => return libc::fdopen(fd, mode),
        }
        if !is_read_mode(mode) && is_read_only(path) {
            return fail(READ_ONLY);
        }
        next.map_or_else(missing, |next| next(redirect(path, &mut room), mode))
    }
}

type Freopen = unsafe extern "C" fn(*const c_char, *const c_char, *mut FILE) -> *mut FILE;

/// Opens another file in a stream.
///
/// # Safety
/// `path` and `mode` are C strings (`path` may be null), `stream` is a stream of libc and `next`
/// its `freopen`.
unsafe fn reopen_stream(
    next: Option<Freopen>,
    path: *const c_char,
    mode: *const c_char,
    stream: *mut FILE,
) -> *mut FILE {
    let Some(next) = next else { return missing() };
    let mut room = room();
    // SAFETY: the caller guarantees what libc's `freopen` needs; the new descriptor is ours.
    unsafe {
        let fd = open_live(path, mode);
        if fd >= 0 {
            let stream = next(path_of_descriptor(fd, &mut room), mode, stream);
            libc::close(fd);
            return stream;
        }
        if !is_read_mode(mode) && is_read_only(path) {
            // The stream is closed, as after each failure of this call.
            libc::fclose(stream);
            return fail(READ_ONLY);
        }
        next(redirect(path, &mut room), mode, stream)
    }
}

/// Declares entries that open a stream.
macro_rules! stream_entries {
    ($($fopen:ident $freopen:ident;)*) => {$(
        /// `fopen` of libc.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $fopen(path: *const c_char, mode: *const c_char) -> *mut FILE {
            // SAFETY: contract of `fopen`: `path` and `mode` are C strings.
            unsafe { open_stream(next!($fopen as Fopen), path, mode) }
        }

        /// `freopen` of libc.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $freopen(
            path: *const c_char,
            mode: *const c_char,
            stream: *mut FILE,
        ) -> *mut FILE {
            // SAFETY: contract of `freopen`: `path` is null or a C string, `mode` is a C string and
            // `stream` a stream.
            unsafe { reopen_stream(next!($freopen as Freopen), path, mode, stream) }
        }
    )*};
}
stream_entries! {
    fopen freopen;
    fopen64 freopen64;
}
