//! Room for rings of processes that can no longer use the rendezvous directory: they have changed
//! their user, or their root directory, since they opened the device, as daemons do.
//!
//! It is one file, which every process opens together with the registry and keeps open; only its
//! used parts have memory behind them. A process that can use the directory makes no ring in it for
//! another one that can: such a ring is in a separate file, which no third process can reach.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use ferroce_platform::os;
use rustix::fs::{FallocateFlags, fallocate};

const FILE_NAME: &str = "spare";
/// Most bytes of a ring.
pub const ROOM: usize = 1 << 20;
/// Bytes of all rings to one place.
const ROW: u64 = (ROOM as u64) << u8::BITS;

/// The open file.
#[derive(Debug)]
pub struct Spare(File);

impl Spare {
    /// Opens the file in a rendezvous directory, which has been checked.
    ///
    /// # Errors
    /// That of opening; `PermissionDenied` if it belongs to another user.
    pub fn open(directory: &Path) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(directory.join(FILE_NAME))?;
        match file.metadata()?.uid() == os::user_id() {
            true => Ok(Self(file)),
            false => Err(io::ErrorKind::PermissionDenied.into()),
        }
    }

    /// Returns the file.
    pub fn file(&self) -> &File {
        let Self(file) = self;
        file
    }

    /// Returns where the ring from one place to another one is.
    ///
    /// A place is used again only when all others were: no process holds a frame of the ring to its
    /// last owner by then.
    pub fn offset(from: u8, to: u8) -> u64 {
        u64::from(to) * ROW + u64::from(from) * ROOM as u64
    }

    /// Puts memory behind a part.
    ///
    /// # Errors
    /// That of posix_fallocate.
    pub fn allocate(&self, part: Range<u64>) -> io::Result<()> {
        os::allocate_part(self.file(), part)
    }

    /// Returns true if no ring was ever made in it.
    pub fn is_unused(&self) -> bool {
        self.file().metadata().is_ok_and(|found| found.len() == 0)
    }

    /// Gives back the memory of all rings to a place.
    pub fn forget(&self, to: u8) {
        if self.is_unused() {
            return;
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        // Where the file system cannot, the memory stays until the file is removed.
        let _ = fallocate(self.file(), flags, Self::offset(0, to), ROW);
    }
}
