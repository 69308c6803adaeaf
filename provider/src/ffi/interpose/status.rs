//! Calls that describe a file: its status, permissions, file system and attributes.

use libc::{AT_FDCWD, c_char, c_int, c_long, c_uint, c_void, size_t, ssize_t};

use super::redirect::{redirect, room};
use super::{fail, passed_on};
use crate::errno::Errno;

/// Type of the file system at `/sys`: `SYSFS_MAGIC` of `<linux/magic.h>`.
const SYSFS_MAGIC: libc::__fsword_t = 0x6265_6572;

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

passed_on! {
    euidaccess(; mode: c_int) -> c_int;
    eaccess(; mode: c_int) -> c_int;
    pathconf(; name: c_int) -> c_long;
    statvfs(; status: *mut libc::statvfs) -> c_int;
    statvfs64(; status: *mut libc::statvfs64) -> c_int;
    inotify_add_watch(descriptor: c_int; mask: u32) -> c_int;
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

/// Declares the entries that read a file's status: the current ones, and the ones before glibc
/// 2.33, whose first argument is the version of the struct.
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
                return fail(Errno::INVALID);
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

/// Declares the entries that read a file's status relative to a directory.
macro_rules! stat_at_entries {
    ($($name:ident $old:ident;)*) => {$(
        /// `fstatat` of libc.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            directory: c_int,
            path: *const c_char,
            status: *mut libc::stat,
            flags: c_int,
        ) -> c_int {
            // SAFETY: contract of `fstatat`: `path` is null or a C string, and the struct is valid
            // for writes.
            unsafe { stat_at(directory, path, status, flags) }
        }

        /// `fstatat` of libc before 2.33.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $old(
            version: c_int,
            directory: c_int,
            path: *const c_char,
            status: *mut libc::stat,
            flags: c_int,
        ) -> c_int {
            if version != 0 && version != 1 {
                return fail(Errno::INVALID);
            }
            // SAFETY: contract of `fstatat`: `path` is null or a C string, and the struct is valid
            // for writes.
            unsafe { stat_at(directory, path, status, flags) }
        }
    )*};
}
stat_at_entries! {
    fstatat __fxstatat;
    fstatat64 __fxstatat64;
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

/// Declares the entries that describe a file system. On 64-bit machines libc's struct is the
/// kernel's.
macro_rules! file_system_entries {
    ($($name:ident $status:ty;)*) => {$(
        #[doc = concat!("`", stringify!($name), "` of libc.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(path: *const c_char, status: *mut $status) -> c_int {
            let mut room = room();
            // SAFETY: contract of `statfs`: `path` is null or a C string, and the struct is valid
            // for writes.
            unsafe {
                let redirected = redirect(path, &mut room);
                let result = libc::syscall(libc::SYS_statfs, redirected, status) as c_int;
                if result == 0 && redirected != path {
                    (*status).f_type = SYSFS_MAGIC;
                }
                result
            }
        }
    )*};
}
file_system_entries! {
    statfs libc::statfs;
    statfs64 libc::statfs64;
}

/// Declares the entries that read a file's extended attributes, which `ls -l` calls.
macro_rules! attribute_entries {
    ($($get:ident $get_call:ident $list:ident $list_call:ident;)*) => {$(
        #[doc = concat!("`", stringify!($get), "` of libc.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $get(
            path: *const c_char,
            name: *const c_char,
            value: *mut c_void,
            size: size_t,
        ) -> ssize_t {
            let mut room = room();
            // SAFETY: contract of `getxattr`: `path` and `name` are null or C strings, and `value`
            // has `size` bytes.
            unsafe {
                let path = redirect(path, &mut room);
                libc::syscall(libc::$get_call, path, name, value, size) as ssize_t
            }
        }

        #[doc = concat!("`", stringify!($list), "` of libc.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $list(
            path: *const c_char,
            names: *mut c_char,
            size: size_t,
        ) -> ssize_t {
            let mut room = room();
            // SAFETY: contract of `listxattr`: `path` is null or a C string, and `names` has `size`
            // bytes.
            unsafe {
                let path = redirect(path, &mut room);
                libc::syscall(libc::$list_call, path, names, size) as ssize_t
            }
        }
    )*};
}
attribute_entries! {
    getxattr SYS_getxattr listxattr SYS_listxattr;
    lgetxattr SYS_lgetxattr llistxattr SYS_llistxattr;
}

/// Checks that a system call's result, which has the width of a register, has libc's return type.
const _: () = assert!(size_of::<c_long>() == size_of::<ssize_t>());
