//! Opens files whose content changes: each open returns a memfd with the current content.

use std::ffi::CStr;
use std::os::unix::ffi::OsStrExt;

use libc::{AT_FDCWD, c_char, c_int};

use super::boundary::guard;
use crate::errno::Errno;
use crate::live_files::{self, Content, LiveFile};
use crate::os::{last_errno, set_errno};
use crate::sysfs;

/// Opens the file at a path, which may be relative to a directory of the tree. `None`: it is
/// another file, or the tree has its content. -1 and errno: it cannot be opened with these flags.
///
/// # Safety
/// `path` is null or a C string.
pub(super) unsafe fn open(directory: c_int, path: *const c_char, flags: c_int) -> Option<c_int> {
    if path.is_null() {
        return None;
    }
    // SAFETY: the caller guarantees that `path` is a C string.
    let path = unsafe { CStr::from_ptr(path) }.to_bytes();
    if !live_files::has_name_of_one(path) {
        return None;
    }
    let opened = guard(|| match find(directory, path) {
        Some(file) => open_file(file, flags),
        None => Ok(None),
    });
    opened.unwrap_or_else(|errno| {
        set_errno(errno);
        Some(-1)
    })
}

fn find(directory: c_int, path: &[u8]) -> Option<LiveFile> {
    if path.starts_with(b"/") {
        let mut normal = [0; libc::PATH_MAX as usize];
        let length = sysfs::normalize(path, &mut normal)?;
        let path = &normal[..length];
        return sysfs::is_ours(path).then(|| LiveFile::at(path)).flatten();
    }
    let below = match directory {
        AT_FDCWD => std::fs::read_link("/proc/self/cwd"),
        fd => std::fs::read_link(format!("/proc/self/fd/{fd}")),
    };
    let below = below.ok()?;
    let root = sysfs::root()?.as_bytes();
    let rest = below.as_os_str().as_bytes().strip_prefix(root)?;
    LiveFile::at(&[rest, b"/", path].concat())
}

/// Returns a descriptor of a file with the content; `None`: the tree has it.
fn open_file(file: LiveFile, flags: c_int) -> Result<Option<c_int>, Errno> {
    if flags & libc::O_ACCMODE != libc::O_RDONLY {
        return Err(Errno::new(libc::EACCES));
    }
    let closes_on_exec = flags & libc::O_CLOEXEC != 0;
    match file.content()? {
        Content::AsInTree => Ok(None),
        Content::Text(text) => filled(&text, closes_on_exec).map(Some),
        Content::Unreadable => unreadable(closes_on_exec).map(Some),
    }
}

/// Returns a descriptor that fails with `EINVAL` when it is read: the kernel has no read for epoll.
fn unreadable(closes_on_exec: bool) -> Result<c_int, Errno> {
    let close = if closes_on_exec {
        libc::EPOLL_CLOEXEC
    } else {
        0
    };
    // SAFETY: `epoll_create1` takes no pointers.
    let fd = unsafe { libc::epoll_create1(close) };
    if fd < 0 { Err(last_errno()) } else { Ok(fd) }
}

/// Returns a descriptor of a file with a text.
fn filled(text: &str, closes_on_exec: bool) -> Result<c_int, Errno> {
    let close = if closes_on_exec { libc::MFD_CLOEXEC } else { 0 };
    // SAFETY: `memfd_create` reads a C string, and the name is a C string literal.
    let fd = unsafe { libc::memfd_create(c"sysfs".as_ptr(), close) };
    if fd < 0 {
        return Err(last_errno());
    }
    // SAFETY: `pwrite` reads `text.len()` bytes at `text`, which is alive and that long. The
    // position of the descriptor stays at the beginning.
    let written = unsafe { libc::pwrite(fd, text.as_ptr().cast(), text.len(), 0) };
    if usize::try_from(written) != Ok(text.len()) {
        let errno = last_errno();
        // SAFETY: the descriptor is ours, and no other code has it yet.
        unsafe { libc::close(fd) };
        return Err(errno);
    }
    Ok(fd)
}
