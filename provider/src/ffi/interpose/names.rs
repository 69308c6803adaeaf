//! Calls that resolve a path or name the current directory. Programs read the names in the answer,
//! so the directory that stands for `/` is removed from it.

use libc::{AT_FDCWD, c_char, c_int, size_t, ssize_t};

use super::missing;
use super::redirect::{redirect, room, strip_root};
use crate::ffi::next::next;

/// Declares calls of libc whose answer is a resolved path.
macro_rules! resolving {
    ($($name:ident(path $(, $argument:ident: $type:ty)*);)*) => {$(
        #[doc = concat!("`", stringify!($name), "` of libc.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            path: *const c_char,
            $($argument: $type,)*
        ) -> *mut c_char {
            type Next = unsafe extern "C" fn(*const c_char, $($type,)*) -> *mut c_char;
            let mut room = room();
            match next!($name as Next) {
                // SAFETY: contract of `realpath`: `path` is null or a C string, and the buffer is
                // null or has the size that the caller states (`realpath`: PATH_MAX bytes).
                Some(next) => unsafe {
                    strip_root(next(redirect(path, &mut room), $($argument,)*))
                },
                None => missing(),
            }
        }
    )*};
}
resolving! {
    realpath(path, resolved: *mut c_char);
    __realpath_chk(path, resolved: *mut c_char, size: size_t);
    canonicalize_file_name(path);
}

/// Declares calls of libc that name the current directory.
macro_rules! naming_directory {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {$(
        #[doc = concat!("`", stringify!($name), "` of libc.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type,)*) -> *mut c_char {
            match next!($name as unsafe extern "C" fn($($type,)*) -> *mut c_char) {
                // SAFETY: the caller keeps the contract of `getcwd`: the buffer is null or has the
                // size that the caller states (`getwd`: PATH_MAX bytes).
                Some(next) => unsafe { strip_root(next($($argument,)*)) },
                None => missing(),
            }
        }
    )*};
}
naming_directory! {
    getcwd(buffer: *mut c_char, size: size_t);
    __getcwd_chk(buffer: *mut c_char, size: size_t, length: size_t);
    getwd(buffer: *mut c_char);
    __getwd_chk(buffer: *mut c_char, length: size_t);
    get_current_dir_name();
}

/// Reads a link by system call.
///
/// # Safety
/// `path` is null or a C string, and `buffer` has `size` bytes.
unsafe fn read_link(
    directory: c_int,
    path: *const c_char,
    buffer: *mut c_char,
    size: size_t,
) -> ssize_t {
    let mut room = room();
    // SAFETY: the caller guarantees that `path` is null or a C string, and `buffer` has `size`
    // bytes.
    unsafe {
        let path = redirect(path, &mut room);
        libc::syscall(libc::SYS_readlinkat, directory, path, buffer, size) as ssize_t
    }
}

/// `readlink` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn readlink(
    path: *const c_char,
    buffer: *mut c_char,
    size: size_t,
) -> ssize_t {
    // SAFETY: contract of `readlink`: `path` is null or a C string, `buffer` has `size` bytes.
    unsafe { read_link(AT_FDCWD, path, buffer, size) }
}

/// `readlink` of libc, as `_FORTIFY_SOURCE` calls it with the length of the buffer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __readlink_chk(
    path: *const c_char,
    buffer: *mut c_char,
    size: size_t,
    length: size_t,
) -> ssize_t {
    // SAFETY: contract of `readlink`: `path` is null or a C string, and the buffer has `length`
    // bytes.
    unsafe { read_link(AT_FDCWD, path, buffer, size.min(length)) }
}

/// `readlinkat` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn readlinkat(
    directory: c_int,
    path: *const c_char,
    buffer: *mut c_char,
    size: size_t,
) -> ssize_t {
    // SAFETY: contract of `readlinkat`: `path` is null or a C string, and the buffer has `size`
    // bytes.
    unsafe { read_link(directory, path, buffer, size) }
}

/// `readlinkat` of libc, as `_FORTIFY_SOURCE` calls it with the length of the buffer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __readlinkat_chk(
    directory: c_int,
    path: *const c_char,
    buffer: *mut c_char,
    size: size_t,
    length: size_t,
) -> ssize_t {
    // SAFETY: contract of `readlinkat`: `path` is null or a C string, and the buffer has `length`
    // bytes.
    unsafe { read_link(directory, path, buffer, size.min(length)) }
}
