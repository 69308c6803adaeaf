//! Which paths are redirected, and the way back.
//!
//! A thread may be cancelled inside libc's functions, and inside the program's functions that they
//! call. The frames below must be plain (see `ffi/blocking.rs`), so code that may panic is in
//! functions that are `extern "C"` and not inlined.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::c_char;

use crate::ffi::boundary::guard;
use crate::ffi::loading;
use crate::sysfs;

/// Bytes of the longest path, with its zero, that the kernel takes.
pub(super) const PATH_MAX: usize = libc::PATH_MAX as usize;

/// A redirected path with its zero.
pub(super) type Target = [u8; PATH_MAX];

/// Returns an uninitialised buffer for a redirected path: most paths need none.
#[inline]
pub(super) fn room() -> MaybeUninit<Target> {
    MaybeUninit::uninit()
}

/// True if any path of this process has been redirected.
static ROOT_USED: AtomicBool = AtomicBool::new(false);

/// Returns the path to use for `path`; `room` holds it when it is redirected.
///
/// # Safety
/// `path` is null or a C string.
#[inline]
pub(super) unsafe fn redirect(
    path: *const c_char,
    room: &mut MaybeUninit<Target>,
) -> *const c_char {
    // SAFETY: the caller guarantees that `path` is null or a C string; a candidate is not null.
    match unsafe { is_candidate(path) } {
        true => redirect_slowly(path, room),
        false => path,
    }
}

/// Implements [`redirect`] for a C string that begins like a redirected path.
#[cold]
#[inline(never)]
extern "C" fn redirect_slowly(
    path: *const c_char,
    room: &mut MaybeUninit<Target>,
) -> *const c_char {
    // SAFETY: `redirect` passes a C string.
    let original = unsafe { CStr::from_ptr(path) };
    let redirected = guard(|| Ok(redirect_candidate(original, room)));
    redirected.ok().flatten().unwrap_or(path)
}

/// Returns true if a path begins like a redirected one, in any spelling.
///
/// # Safety
/// `path` is null or a C string.
#[inline]
unsafe fn is_candidate(path: *const c_char) -> bool {
    // SAFETY: the caller guarantees that `path` is null or a C string; the second byte is read only
    // when the first is not the end.
    !path.is_null() && unsafe { *path == b'/' as c_char } && {
        // SAFETY: the first byte is `/` and not the final zero, so the second one is in the string.
        let second = unsafe { *path.add(1) } as u8;
        matches!(second, b's' | b'd' | b'/' | b'.')
    }
}

/// Returns the redirected path for a path of the device.
fn redirect_candidate(path: &CStr, room: &mut MaybeUninit<Target>) -> Option<*const c_char> {
    let target = room.write([0; PATH_MAX]);
    let length = sysfs::normalize(path.to_bytes(), target)?;
    if !sysfs::is_ours(&target[..length]) {
        return None;
    }
    let root = sysfs::root()?.as_bytes();
    if root.len() + length >= PATH_MAX {
        return None;
    }
    if !ROOT_USED.swap(true, Ordering::Relaxed) {
        loading::check_at_exit();
    }
    target.copy_within(..length, root.len());
    target[..root.len()].copy_from_slice(root);
    target[root.len() + length] = 0;
    Some(target.as_ptr().cast())
}

/// Returns true for a path of sysfs that is redirected: none of these files can be written.
///
/// # Safety
/// `path` is null or a C string.
#[inline(never)]
pub(super) unsafe extern "C" fn is_read_only(path: *const c_char) -> bool {
    // SAFETY: the caller guarantees that `path` is null or a C string.
    if !unsafe { is_candidate(path) } {
        return false;
    }
    // SAFETY: the caller guarantees that `path` is a C string, as it is not null.
    let path = unsafe { CStr::from_ptr(path) };
    let is_ours = guard(|| {
        let mut normal = [0; PATH_MAX];
        let length = sysfs::normalize(path.to_bytes(), &mut normal);
        Ok(length.is_some_and(|length| {
            let path = &normal[..length];
            path.starts_with(b"/sys/") && sysfs::is_ours(path)
        }))
    });
    is_ours.unwrap_or(false)
}

/// Returns the length of the directory that stands for `/`, if the path is of the device and in
/// that directory; otherwise zero.
///
/// # Safety
/// `path` is null or a C string.
#[inline(never)]
pub(super) unsafe extern "C" fn root_length(path: *const c_char) -> usize {
    if path.is_null() || !ROOT_USED.load(Ordering::Relaxed) {
        return 0;
    }
    // SAFETY: the caller guarantees that `path` is a C string, as it is not null.
    let path = unsafe { CStr::from_ptr(path) }.to_bytes();
    let length = guard(|| {
        let root = sysfs::root().map(|root| root.as_bytes());
        let root = root.filter(|root| path.strip_prefix(*root).is_some_and(sysfs::is_ours));
        Ok(root.map_or(0, <[u8]>::len))
    });
    length.unwrap_or(0)
}

/// Removes the directory that stands for `/` from a resolved path, so that the path reads as with a
/// kernel driver, and can be used again.
///
/// # Safety
/// `path` is null or a writable C string.
pub(super) unsafe fn strip_root(path: *mut c_char) -> *mut c_char {
    // SAFETY: the caller guarantees that `path` is null or a writable C string; the moved bytes are
    // the end of the string with its zero.
    unsafe {
        let root = root_length(path);
        if root != 0 {
            let rest = path.add(root);
            path.copy_from(rest, CStr::from_ptr(rest).to_bytes_with_nul().len());
        }
    }
    path
}
