//! Opens counter files: each open returns a memfd with the current value.

use std::ffi::CStr;
use std::os::unix::ffi::OsStrExt;

use libc::{AT_FDCWD, c_char, c_int};

use super::boundary::guard;
use crate::counter_files::{self, CounterFile};
use crate::errno::Errno;
use crate::os::{last_errno, set_errno};
use crate::sysfs;

/// Opens the counter at a path, which may be relative to a directory of the tree. `None`: the path
/// is not a counter's. -1 and errno: a counter cannot be opened with these flags.
///
/// # Safety
/// `path` is null or a C string.
pub(super) unsafe fn open(directory: c_int, path: *const c_char, flags: c_int) -> Option<c_int> {
    if path.is_null() {
        return None;
    }
    // SAFETY: the caller guarantees that `path` is a C string.
    let path = unsafe { CStr::from_ptr(path) }.to_bytes();
    if !counter_files::is_name_of_one(path) {
        return None;
    }
    let opened = guard(|| match find(directory, path) {
        Some(file) => open_file(file, flags).map(Some),
        None => Ok(None),
    });
    opened.unwrap_or_else(|errno| {
        set_errno(errno);
        Some(-1)
    })
}

fn find(directory: c_int, path: &[u8]) -> Option<CounterFile> {
    if path.starts_with(b"/") {
        let mut normal = [0; libc::PATH_MAX as usize];
        let length = sysfs::normalize(path, &mut normal)?;
        let path = &normal[..length];
        return sysfs::is_ours(path)
            .then(|| CounterFile::at(path))
            .flatten();
    }
    let below = match directory {
        AT_FDCWD => std::fs::read_link("/proc/self/cwd"),
        fd => std::fs::read_link(format!("/proc/self/fd/{fd}")),
    };
    let below = below.ok()?;
    let root = sysfs::root()?.as_bytes();
    let rest = below.as_os_str().as_bytes().strip_prefix(root)?;
    CounterFile::at(&[rest, b"/", path].concat())
}

/// Returns a descriptor of a file with the counter's value.
fn open_file(file: CounterFile, flags: c_int) -> Result<c_int, Errno> {
    if flags & libc::O_ACCMODE != libc::O_RDONLY {
        return Err(Errno::new(libc::EACCES));
    }
    let text = file.text()?;
    let close = if flags & libc::O_CLOEXEC != 0 {
        libc::MFD_CLOEXEC
    } else {
        0
    };
    // SAFETY: `memfd_create` reads a C string, and the name is a C string literal.
    let fd = unsafe { libc::memfd_create(c"counter".as_ptr(), close) };
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
