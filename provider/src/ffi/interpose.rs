//! File calls of libc, redirected for the few paths at which programs search for RDMA devices.
//!
//! There is no kernel driver, so `/sys/class/infiniband` has no `ferroce0`. Programs that read it
//! find a directory tree of this library instead (`sysfs.rs`); every other path is passed on
//! unchanged, at the cost of comparing its first bytes. The tree consists of real directories, so
//! opening relative to it and listing it need no further support; only counters, whose values
//! change, are opened by `counter_file.rs`.
//!
//! Calls that are one system call are made as such, so they do not depend on the order in which
//! libraries are found; the others are looked up behind this library. The standard library of this
//! very library also calls these functions: they must not call anything that would return here with
//! a redirected path.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::{AT_FDCWD, DIR, FILE, c_char, c_int, c_long, c_uint, c_void, mode_t, size_t, ssize_t};

use super::boundary::set_errno;
use super::counter_file;
use super::next::next;
use crate::errno::Errno;
use crate::rdma_cm::DEVICE_FILE;

/// Bytes of the longest path, with its zero, that the kernel takes.
const PATH_MAX: usize = libc::PATH_MAX as usize;

/// Protocol of the kernel's RDMA subsystem: `<linux/netlink.h>`.
const NETLINK_RDMA: c_int = 20;

/// A redirected path with its zero.
type Target = [u8; PATH_MAX];

/// Returns an uninitialised buffer for a redirected path: most paths need none.
#[inline]
fn room() -> MaybeUninit<Target> {
    MaybeUninit::uninit()
}

/// True if any path of this process has been redirected.
static ROOT_USED: AtomicBool = AtomicBool::new(false);

/// Returns the path to use for `path`; `room` holds it when it is redirected.
///
/// # Safety
/// `path` is null or a C string.
#[inline]
unsafe fn redirect(path: *const c_char, room: &mut MaybeUninit<Target>) -> *const c_char {
    // SAFETY: the caller guarantees that `path` is null or a C string; the second byte is read only
    // when the first is not the end.
    let candidate = !path.is_null() && unsafe { *path == b'/' as c_char } && {
        // SAFETY: the first byte is `/` and not the final zero, so the second one is in the string.
        let second = unsafe { *path.add(1) } as u8;
        second == b's' || second == b'd'
    };
    if !candidate {
        return path;
    }
    // SAFETY: the caller guarantees that `path` is null or a C string.
    unsafe { redirect_candidate(path, room) }
}

/// Returns true for the device file of RDMA CM.
///
/// # Safety
/// `path` is null or a C string.
unsafe fn is_device_file(path: *const c_char) -> bool {
    // SAFETY: the caller guarantees that `path` is null or a C string.
    !path.is_null() && unsafe { CStr::from_ptr(path) }.to_bytes() == DEVICE_FILE
}

/// Implements [`redirect`] for paths with a redirected prefix.
///
/// # Safety
/// `path` is a C string.
#[cold]
unsafe fn redirect_candidate(path: *const c_char, room: &mut MaybeUninit<Target>) -> *const c_char {
    // SAFETY: the caller guarantees that `path` is a C string.
    let original = unsafe { CStr::from_ptr(path) }.to_bytes();
    if !crate::sysfs::is_ours(original) {
        return path;
    }
    let Ok(Some(root)) = super::boundary::guard(|| Ok(crate::sysfs::root())) else {
        return path;
    };
    ROOT_USED.store(true, Ordering::Relaxed);
    let root = root.as_bytes();
    if root.len() + original.len() >= PATH_MAX {
        return path;
    }
    let buffer: *mut u8 = room.as_mut_ptr().cast();
    // SAFETY: the buffer has PATH_MAX bytes; the length of root, path and zero was checked above.
    unsafe {
        buffer.copy_from_nonoverlapping(root.as_ptr(), root.len());
        buffer
            .add(root.len())
            .copy_from_nonoverlapping(original.as_ptr(), original.len());
        buffer.add(root.len() + original.len()).write(0);
    }
    buffer.cast()
}

/// Opens the file of a counter: see [`counter_file::open`].
///
/// # Safety
/// `path` is null or a C string.
unsafe fn open_counter(directory: c_int, path: *const c_char, flags: c_int) -> Option<c_int> {
    let is_root_used = ROOT_USED.load(Ordering::Relaxed);
    // SAFETY: the caller guarantees that `path` is null or a C string.
    unsafe { counter_file::open(directory, path, flags, is_root_used) }
}

/// Opens by system call.
///
/// # Safety
/// `path` is null or a C string.
unsafe fn open_at(directory: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: the caller guarantees that `path` is null or a C string.
    if unsafe { is_device_file(path) } {
        return super::rdma_cm::open(flags);
    }
    // SAFETY: the caller guarantees that `path` is null or a C string.
    if let Some(fd) = unsafe { open_counter(directory, path, flags) } {
        return fd;
    }
    let mut room = room();
    // SAFETY: the caller guarantees that `path` is null or a C string.
    unsafe {
        let path = redirect(path, &mut room);
        libc::syscall(
            libc::SYS_openat,
            directory,
            path,
            flags | libc::O_LARGEFILE,
            mode,
        ) as c_int
    }
}

/// Declares entries that open a file. C declares them variadic; the optional mode is passed like a
/// third argument on the supported machines, and the kernel reads it only when it creates a file.
macro_rules! open_entries {
    ($($name:ident)*) => {$(
        /// `open` of libc.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
            // SAFETY: contract of `open`: `path` is null or a C string.
            unsafe { open_at(AT_FDCWD, path, flags, mode) }
        }
    )*};
}
open_entries!(open open64);

/// `open` of libc, as `_FORTIFY_SOURCE` calls it without a mode.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __open_2(path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: contract of `open`: `path` is null or a C string.
    unsafe { open_at(AT_FDCWD, path, flags, 0) }
}

/// `open64` of libc, as `_FORTIFY_SOURCE` calls it without a mode.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __open64_2(path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: contract of `open64`: `path` is null or a C string.
    unsafe { open_at(AT_FDCWD, path, flags, 0) }
}

/// `openat` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openat(
    directory: c_int,
    path: *const c_char,
    flags: c_int,
    mode: mode_t,
) -> c_int {
    // SAFETY: contract of `openat`: `path` is null or a C string.
    unsafe { open_at(directory, path, flags, mode) }
}

/// `openat64` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openat64(
    directory: c_int,
    path: *const c_char,
    flags: c_int,
    mode: mode_t,
) -> c_int {
    // SAFETY: contract of `openat64`: `path` is null or a C string.
    unsafe { open_at(directory, path, flags, mode) }
}

type Fopen = unsafe extern "C" fn(*const c_char, *const c_char) -> *mut FILE;

/// Opens a stream.
///
/// # Safety
/// `path` and `mode` are C strings, `next` is libc's `fopen`.
unsafe fn open_stream(next: Option<Fopen>, path: *const c_char, mode: *const c_char) -> *mut FILE {
    // SAFETY: the caller guarantees that `path` and `mode` are C strings.
    if let Some(stream) = unsafe { counter_stream(path, mode) } {
        return stream;
    }
    let mut room = room();
    match next {
        // SAFETY: the caller guarantees that `path` and `mode` are C strings, `next` is libc's
        // `fopen`.
        Some(next) => unsafe { next(redirect(path, &mut room), mode) },
        None => missing(),
    }
}

/// Opens the file of a counter as a stream. `None`: it is not the path of a counter.
///
/// # Safety
/// `path` is null or a C string, `mode` is a C string.
unsafe fn counter_stream(path: *const c_char, mode: *const c_char) -> Option<*mut FILE> {
    let is_read = !mode.is_null() && {
        // SAFETY: the caller guarantees that `mode` is a C string.
        let mode = unsafe { CStr::from_ptr(mode) }.to_bytes();
        mode.starts_with(b"r") && !mode.contains(&b'+')
    };
    let flags = if is_read {
        libc::O_RDONLY | libc::O_CLOEXEC
    } else {
        libc::O_RDWR
    };
    // SAFETY: the caller guarantees that `path` is null or a C string.
    let fd = unsafe { open_counter(AT_FDCWD, path, flags) }?;
    if fd < 0 {
        return Some(std::ptr::null_mut());
    }
    // SAFETY: the descriptor is open and belongs to the stream from now on; `mode` is a C string.
    Some(unsafe { libc::fdopen(fd, mode) })
}

/// Fails a call that the library behind this one does not have.
fn missing<T>() -> *mut T {
    set_errno(Errno::new(libc::ENOSYS));
    std::ptr::null_mut()
}

/// `fopen` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fopen(path: *const c_char, mode: *const c_char) -> *mut FILE {
    // SAFETY: contract of `fopen`: `path` and `mode` are C strings.
    unsafe { open_stream(next!(fopen as Fopen), path, mode) }
}

/// `fopen64` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fopen64(path: *const c_char, mode: *const c_char) -> *mut FILE {
    // SAFETY: contract of `fopen64`: `path` and `mode` are C strings.
    unsafe { open_stream(next!(fopen64 as Fopen), path, mode) }
}

/// `opendir` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn opendir(path: *const c_char) -> *mut DIR {
    let mut room = room();
    match next!(opendir as unsafe extern "C" fn(*const c_char) -> *mut DIR) {
        // SAFETY: contract of `opendir`: `path` is null or a C string.
        Some(next) => unsafe { next(redirect(path, &mut room)) },
        None => missing(),
    }
}

/// Removes the directory that stands for `/` from a resolved path, so that the path reads as with a
/// kernel driver, and can be used again.
///
/// # Safety
/// `path` is null or a writable C string.
unsafe fn strip_root(path: *mut c_char) -> *mut c_char {
    if path.is_null() || !ROOT_USED.load(Ordering::Relaxed) {
        return path;
    }
    let Ok(Some(root)) = super::boundary::guard(|| Ok(crate::sysfs::root())) else {
        return path;
    };
    // SAFETY: the caller guarantees that `path` is null or a writable C string; the moved bytes are
    // the end of the string with its zero.
    unsafe {
        let resolved = CStr::from_ptr(path).to_bytes_with_nul();
        let Some(rest) = resolved.strip_prefix(root.as_bytes()) else {
            return path;
        };
        if crate::sysfs::is_ours(&rest[..rest.len() - 1]) {
            let (from, length) = (rest.as_ptr(), rest.len());
            path.cast::<u8>().copy_from(from, length);
        }
    }
    path
}

type Realpath = unsafe extern "C" fn(*const c_char, *mut c_char) -> *mut c_char;

/// `realpath` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realpath(path: *const c_char, resolved: *mut c_char) -> *mut c_char {
    let mut room = room();
    match next!(realpath as Realpath) {
        // SAFETY: contract of `realpath`: `path` is null or a C string, and the buffer has the size
        // that the caller states (`realpath`: null, or PATH_MAX bytes).
        Some(next) => unsafe { strip_root(next(redirect(path, &mut room), resolved)) },
        None => missing(),
    }
}

/// `realpath` of libc, as `_FORTIFY_SOURCE` calls it with the size of the buffer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __realpath_chk(
    path: *const c_char,
    resolved: *mut c_char,
    size: size_t,
) -> *mut c_char {
    type Checked = unsafe extern "C" fn(*const c_char, *mut c_char, size_t) -> *mut c_char;
    let mut room = room();
    match next!(__realpath_chk as Checked) {
        // SAFETY: contract of `realpath`: `path` is null or a C string, and the buffer has the size
        // that the caller states (`realpath`: null, or PATH_MAX bytes).
        Some(next) => unsafe { strip_root(next(redirect(path, &mut room), resolved, size)) },
        None => missing(),
    }
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
    // SAFETY: contract of `readlink`: `path` is null or a C string, and the buffer has the size
    // that the caller states (`realpath`: null, or PATH_MAX bytes).
    unsafe { read_link(AT_FDCWD, path, buffer, size) }
}

/// `readlink` of libc, as `_FORTIFY_SOURCE` calls it with the size of the buffer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __readlink_chk(
    path: *const c_char,
    buffer: *mut c_char,
    length: size_t,
    size: size_t,
) -> ssize_t {
    // SAFETY: contract of `readlink`: `path` is null or a C string, and the buffer has the size
    // that the caller states (`realpath`: null, or PATH_MAX bytes).
    unsafe { read_link(AT_FDCWD, path, buffer, length.min(size)) }
}

/// `readlinkat` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn readlinkat(
    directory: c_int,
    path: *const c_char,
    buffer: *mut c_char,
    size: size_t,
) -> ssize_t {
    // SAFETY: contract of `readlinkat`: `path` is null or a C string, and the buffer has the size
    // that the caller states (`realpath`: null, or PATH_MAX bytes).
    unsafe { read_link(directory, path, buffer, size) }
}

/// `access` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn access(path: *const c_char, mode: c_int) -> c_int {
    // SAFETY: contract of `access`: `path` is null or a C string.
    unsafe { faccessat(AT_FDCWD, path, mode, 0) }
}

/// `faccessat` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn faccessat(
    directory: c_int,
    path: *const c_char,
    mode: c_int,
    flags: c_int,
) -> c_int {
    let mut room = room();
    // SAFETY: contract of `faccessat`: `path` is null or a C string.
    unsafe {
        let path = redirect(path, &mut room);
        if flags == 0 {
            return libc::syscall(libc::SYS_faccessat, directory, path, mode) as c_int;
        }
        libc::syscall(libc::SYS_faccessat2, directory, path, mode, flags) as c_int
    }
}

/// Reads a file's status by system call.
///
/// # Safety
/// `path` is null or a C string, and `status` a `struct stat`.
unsafe fn stat_at(
    directory: c_int,
    path: *const c_char,
    status: *mut libc::stat,
    flags: c_int,
) -> c_int {
    let mut room = room();
    // SAFETY: the caller guarantees that `path` is null or a C string, and `status` a `struct
    // stat`; on 64-bit machines libc's struct is the kernel's.
    unsafe {
        let path = redirect(path, &mut room);
        libc::syscall(libc::SYS_newfstatat, directory, path, status, flags) as c_int
    }
}

/// Declares the entries that read a file's status: the current ones and those of glibc before 2.33,
/// whose first argument is the version of the struct.
macro_rules! stat_entries {
    ($($name:ident $old:ident $flags:expr;)*) => {$(
        /// `stat` or `lstat` of libc.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(path: *const c_char, status: *mut libc::stat) -> c_int {
            // SAFETY: contract of `stat`: `path` is null or a C string, and the struct is valid for
            // writes.
            unsafe { stat_at(AT_FDCWD, path, status, $flags) }
        }

        /// `stat` or `lstat` of libc before 2.33.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $old(
            version: c_int,
            path: *const c_char,
            status: *mut libc::stat,
        ) -> c_int {
            if version != 0 && version != 1 {
                set_errno(Errno::INVALID);
                return -1;
            }
            // SAFETY: contract of `stat`: `path` is null or a C string, and the struct is valid for
            // writes.
            unsafe { stat_at(AT_FDCWD, path, status, $flags) }
        }
    )*};
}
stat_entries! {
    stat __xstat 0;
    stat64 __xstat64 0;
    lstat __lxstat libc::AT_SYMLINK_NOFOLLOW;
    lstat64 __lxstat64 libc::AT_SYMLINK_NOFOLLOW;
}

/// `fstatat` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fstatat(
    directory: c_int,
    path: *const c_char,
    status: *mut libc::stat,
    flags: c_int,
) -> c_int {
    // SAFETY: contract of `fstatat`: `path` is null or a C string, and the struct is valid for
    // writes.
    unsafe { stat_at(directory, path, status, flags) }
}

/// `fstatat64` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fstatat64(
    directory: c_int,
    path: *const c_char,
    status: *mut libc::stat,
    flags: c_int,
) -> c_int {
    // SAFETY: contract of `fstatat64`: `path` is null or a C string, and the struct is valid for
    // writes.
    unsafe { stat_at(directory, path, status, flags) }
}

/// `statx` of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn statx(
    directory: c_int,
    path: *const c_char,
    flags: c_int,
    mask: c_uint,
    status: *mut c_void,
) -> c_int {
    let mut room = room();
    // SAFETY: contract of `statx`: `path` is null or a C string, and the struct is valid for
    // writes.
    unsafe {
        let path = redirect(path, &mut room);
        libc::syscall(libc::SYS_statx, directory, path, flags, mask, status) as c_int
    }
}

/// Reads an extended attribute by system call.
///
/// # Safety
/// `path` and `name` are null or C strings, and `value` has `size` bytes.
unsafe fn attribute(
    call: c_long,
    path: *const c_char,
    name: *const c_char,
    value: *mut c_void,
    size: size_t,
) -> ssize_t {
    let mut room = room();
    // SAFETY: the caller guarantees that `path` and `name` are null or C strings, and `value` has
    // `size` bytes.
    unsafe { libc::syscall(call, redirect(path, &mut room), name, value, size) as ssize_t }
}

/// `getxattr` of libc, which `ls -l` calls.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getxattr(
    path: *const c_char,
    name: *const c_char,
    value: *mut c_void,
    size: size_t,
) -> ssize_t {
    // SAFETY: contract of `getxattr`: `path` and `name` are null or C strings, and `value` has
    // `size` bytes.
    unsafe { attribute(libc::SYS_getxattr, path, name, value, size) }
}

/// `lgetxattr` of libc, which `ls -l` calls.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lgetxattr(
    path: *const c_char,
    name: *const c_char,
    value: *mut c_void,
    size: size_t,
) -> ssize_t {
    // SAFETY: contract of `lgetxattr`: `path` and `name` are null or C strings, and `value` has
    // `size` bytes.
    unsafe { attribute(libc::SYS_lgetxattr, path, name, value, size) }
}

/// `socket` of libc. The kernel's list of RDMA devices (`NETLINK_RDMA`) is that of other devices:
/// with its numbers librdmacm would take the kernel's `/dev/infiniband/rdma_cm` for the right one.
/// Without the protocol it reads sysfs, as on a kernel that lacks RDMA.
#[unsafe(no_mangle)]
pub extern "C" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    if domain == libc::AF_NETLINK && protocol == NETLINK_RDMA {
        set_errno(Errno::new(libc::EPROTONOSUPPORT));
        return -1;
    }
    // That of librspreload, for one, is behind this library.
    type Socket = extern "C" fn(c_int, c_int, c_int) -> c_int;
    match next!(socket as Socket) {
        Some(next) => next(domain, kind, protocol),
        // SAFETY: the system call reads no memory.
        None => unsafe { libc::syscall(libc::SYS_socket, domain, kind, protocol) as c_int },
    }
}

/// Narrows a system call's result, which has the width of a register, to libc's return type.
const _: () = assert!(size_of::<c_long>() == size_of::<ssize_t>());
