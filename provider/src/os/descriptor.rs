//! Files that descriptors of the program refer to.

use ferroce_platform::shared_memory::EXPORT_NAME;
use libc::c_int;

use super::last_errno;
use crate::errno::{Errno, Right};

/// Type of the kernel's file system of dma-bufs (linux/magic.h: DMA_BUF_MAGIC).
const DMA_BUF_MAGIC: libc::__fsword_t = 0x444d_4142;

/// Device and inode of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileIdentity(u64, u64);

impl FileIdentity {
    /// Returns the file that a descriptor refers to.
    ///
    /// # Errors
    /// `EBADF` when it is not open.
    pub(crate) fn of(fd: c_int) -> Result<Self, Errno> {
        let status = status_of(fd)?;
        Ok(Self(status.st_dev, status.st_ino))
    }
}

fn status_of(fd: c_int) -> Result<libc::stat, Errno> {
    // SAFETY: the struct consists of integers, for which zeros are valid.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes to the local struct, which has the size that it expects.
    match unsafe { libc::fstat(fd, &raw mut status) } {
        0 => Ok(status),
        _ => Err(last_errno()),
    }
}

/// What a descriptor of the program refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    /// A dma-buf of the kernel.
    DmaBuf,
    /// Device memory that a function of this library has exported, perhaps in another process.
    Export,
    /// Another file of memory (memfd_create(2)).
    Memory,
    Other,
}

/// A file of the program, which keeps it open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProgramFile {
    descriptor: c_int,
    kind: FileKind,
}

impl ProgramFile {
    /// Returns the file of a descriptor.
    ///
    /// # Errors
    /// `EBADF` when it is not open.
    pub(crate) fn of(descriptor: c_int) -> Result<Self, Errno> {
        // SAFETY: the struct consists of integers, for which zeros are valid.
        let mut status: libc::statfs = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel writes to the local struct, which has the size that it expects.
        if unsafe { libc::fstatfs(descriptor, &raw mut status) } != 0 {
            return Err(match last_errno().number() {
                libc::EBADF => {
                    let right = Right::Text("an open descriptor of a dma-buf");
                    Errno::new(libc::EBADF).argument("fd", descriptor, right)
                }
                number => Errno::new(number),
            });
        }
        let kind = match status.f_type {
            DMA_BUF_MAGIC => FileKind::DmaBuf,
            _ => kind_by_name(descriptor),
        };
        Ok(Self { descriptor, kind })
    }

    pub(crate) fn descriptor(&self) -> c_int {
        self.descriptor
    }

    pub(crate) fn kind(&self) -> FileKind {
        self.kind
    }

    /// Returns the length in bytes.
    ///
    /// # Errors
    /// The error of the system.
    pub(crate) fn size(&self) -> Result<u64, Errno> {
        if self.kind == FileKind::DmaBuf {
            // Only this call has the length of a dma-buf, which has no position to change.
            // SAFETY: it takes no pointers.
            let size = unsafe { libc::lseek(self.descriptor, 0, libc::SEEK_END) };
            return u64::try_from(size).map_err(|_| last_errno());
        }
        let status = status_of(self.descriptor)?;
        Ok(u64::try_from(status.st_size).unwrap_or(0))
    }
}

/// Distinguishes files of memory by their name.
fn kind_by_name(descriptor: c_int) -> FileKind {
    let link = std::fs::read_link(format!("/proc/self/fd/{descriptor}"));
    let Ok(link) = link else {
        return FileKind::Other;
    };
    let link = link.to_string_lossy();
    // The kernel adds " (deleted)".
    let name = link
        .strip_prefix("/memfd:")
        .map(|rest| rest.split(' ').next());
    match name.flatten() {
        Some(EXPORT_NAME) => FileKind::Export,
        Some(_) => FileKind::Memory,
        None => FileKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;

    fn memory_file(name: &CStr) -> c_int {
        // SAFETY: the name ends with NUL.
        let file = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
        // SAFETY: it takes no pointers.
        assert_eq!(unsafe { libc::ftruncate(file, 5000) }, 0);
        file
    }

    #[test]
    fn files_are_distinguished_by_their_name() {
        for (name, kind) in [
            (c"ferroce-dma-buf", FileKind::Export),
            (c"ferroce-dma-bufs", FileKind::Memory),
            (c"a name", FileKind::Memory),
        ] {
            let file = ProgramFile::of(memory_file(name)).expect("open");
            assert_eq!((file.kind(), file.size()), (kind, Ok(5000)), "{name:?}");
        }
        let other = ProgramFile::of(0).map(|file| file.kind());
        assert!(matches!(other, Ok(FileKind::Other) | Err(_)), "{other:?}");
        assert_eq!(ProgramFile::of(-1).err(), Some(Errno::new(libc::EBADF)));
    }
}
