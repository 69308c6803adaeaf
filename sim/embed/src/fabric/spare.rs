//! Spare room: memory for rings of processes that can no longer use the rendezvous directory
//! because they have changed their user ID or root directory since they opened the device, as
//! daemons do.
//!
//! It is one sparse file, which every process opens together with the registry and keeps open. Two
//! processes that can both use the directory put their ring into a separate file instead, which no
//! third process can reach.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use ferroce_platform::os;
use rustix::fs::{FallocateFlags, fallocate};

const FILE_NAME: &str = "spare";
/// Maximum size of a ring.
pub const ROOM: usize = 1 << 20;
/// Bytes of all rings to one place.
const ROW: u64 = (ROOM as u64) << u8::BITS;

/// The open file.
#[derive(Debug)]
pub struct Spare(File);

impl Spare {
    /// Opens the file in a rendezvous directory that has been checked.
    ///
    /// # Errors
    /// The error of open(2); `PermissionDenied` if another user owns the file.
    pub fn open(directory: &Path) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(directory.join(FILE_NAME))?;
        if file.metadata()?.uid() == os::user_id() {
            Ok(Self(file))
        } else {
            Err(io::ErrorKind::PermissionDenied.into())
        }
    }

    /// Returns the file.
    pub fn file(&self) -> &File {
        let Self(file) = self;
        file
    }

    /// Returns the offset of the ring from one place to another.
    ///
    /// Places are used in rotation, so when a place is used again no process still holds a frame of
    /// the ring to its last owner.
    pub fn offset(from: u8, to: u8) -> u64 {
        u64::from(to) * ROW + u64::from(from) * ROOM as u64
    }

    /// Allocates memory for a part of the file.
    ///
    /// # Errors
    /// The error of posix_fallocate(3).
    pub fn allocate(&self, part: Range<u64>) -> io::Result<()> {
        os::allocate_part(self.file(), part)
    }

    /// Returns true if it never held a ring.
    pub fn is_unused(&self) -> bool {
        self.file().metadata().is_ok_and(|found| found.len() == 0)
    }

    /// Frees the memory of all rings to a place.
    pub fn forget(&self, to: u8) {
        if self.is_unused() {
            return;
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        // If the file system cannot punch holes, the memory stays allocated until the file is
        // removed.
        let _ = fallocate(self.file(), flags, Self::offset(0, to), ROW);
    }
}
