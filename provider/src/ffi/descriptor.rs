//! What file a descriptor of the program is open on.

use super::boundary::last_errno;
use crate::errno::Errno;
use libc::c_int;

/// Device and inode of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileIdentity(u64, u64);

impl FileIdentity {
    /// The file behind a descriptor.
    ///
    /// # Errors
    /// `EBADF` when it is not open.
    pub(crate) fn of(fd: c_int) -> Result<Self, Errno> {
        // SAFETY: the struct has integers only.
        let mut status: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: fills in the local struct.
        if unsafe { libc::fstat(fd, &raw mut status) } != 0 {
            return Err(last_errno());
        }
        Ok(Self(status.st_dev, status.st_ino))
    }
}
