//! File calls of libc, redirected for the few paths at which programs search for RDMA devices.
//!
//! There is no kernel driver, so `/sys/class/infiniband` has no `ferroce0`. Programs that read it
//! find a directory tree of this library instead (`sysfs.rs`); every other path is passed on
//! unchanged, at the cost of comparing its first bytes. The tree consists of real directories, so
//! opening relative to it and listing it need no further support; only files whose content changes,
//! such as counters, are opened by `live_file.rs`. Nothing in it can be written.
//!
//! Each libc call that takes a path and only reads is redirected. The page "Interfaces" of the book
//! lists them, and a test compares that table with this library's symbols and tries each call.
//! Calls that are one system call are made directly, so they do not depend on the order of
//! libraries; the others are looked up in the libraries after this one. The standard library inside
//! this library also calls these functions, so they must not call anything that would come back
//! here with a redirected path.
//!
//! A mount namespace would reach programs without libc, too, but it needs a user namespace. Many
//! systems refuse one, and inside it a program can no longer change its user.

mod names;
mod open;
mod redirect;
mod status;
mod walk;

use libc::{c_int, c_long};

use crate::errno::Errno;
use crate::os::set_errno;

/// Results with which calls of libc fail.
trait Failed {
    const FAILED: Self;
}

impl<T> Failed for *mut T {
    const FAILED: Self = std::ptr::null_mut();
}

impl Failed for c_int {
    const FAILED: Self = -1;
}

impl Failed for c_long {
    const FAILED: Self = -1;
}

/// Fails a call with an errno.
fn fail<T: Failed>(errno: Errno) -> T {
    set_errno(errno);
    T::FAILED
}

/// Fails a call that no library after this one has.
fn missing<T: Failed>() -> T {
    fail(Errno::new(libc::ENOSYS))
}

/// Declares calls that libc executes on the redirected path. Takes the arguments before the path,
/// then the ones after it.
macro_rules! passed_on {
    ($(
        $name:ident($($before:ident: $before_type:ty),*; $($after:ident: $after_type:ty),*)
            -> $result:ty;
    )*) => {$(
        #[doc = concat!("`", stringify!($name), "` of libc.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            $($before: $before_type,)*
            path: *const libc::c_char,
            $($after: $after_type,)*
        ) -> $result {
            type Next = unsafe extern "C" fn(
                $($before_type,)*
                *const libc::c_char,
                $($after_type,)*
            ) -> $result;
            let mut room = $crate::ffi::interpose::redirect::room();
            match $crate::ffi::next::next!($name as Next) {
                // SAFETY: the caller keeps the contract of this call: `path` is null or a C string,
                // and the other arguments are what libc's function of this name takes.
                Some(next) => unsafe {
                    let path = $crate::ffi::interpose::redirect::redirect(path, &mut room);
                    next($($before,)* path, $($after,)*)
                },
                None => $crate::ffi::interpose::missing(),
            }
        }
    )*};
}

use passed_on;
