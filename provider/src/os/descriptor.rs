//! Identity of the file that a descriptor of the program refers to.

use libc::c_int;

use super::last_errno;
use crate::errno::Errno;

/// Device and inode of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileIdentity(u64, u64);

impl FileIdentity {
    /// Returns the file that a descriptor refers to.
    ///
    /// # Errors
    /// `EBADF` when it is not open.
    pub(crate) fn of(fd: c_int) -> Result<Self, Errno> {
        // SAFETY: the struct consists of integers, for which zeros are valid.
        let mut status: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel writes to the local struct, which has the size that it expects.
        if unsafe { libc::fstat(fd, &raw mut status) } != 0 {
            return Err(last_errno());
        }
        Ok(Self(status.st_dev, status.st_ino))
    }
}
