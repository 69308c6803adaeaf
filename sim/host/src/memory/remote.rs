//! Memory that this process cannot map: it is read and written piece by piece.

use std::io;
use std::sync::Arc;

/// Memory of another process that is reached by system calls or by messages.
pub trait RemoteMemory: Send + Sync + std::fmt::Debug {
    /// Fills `destination` from `offset` on.
    ///
    /// # Errors
    /// The memory is gone, or its owner refuses.
    fn read(&self, offset: u64, destination: &mut [u8]) -> io::Result<()>;

    /// Writes all of `source` from `offset` on, the last bytes last.
    ///
    /// # Errors
    /// Those of [`Self::read`]; a part may have been written.
    fn write(&self, offset: u64, source: &[u8]) -> io::Result<()>;
}

/// A mapped range: IOVAs `start..end`, the memory from `offset` on.
#[derive(Debug)]
pub(super) struct RemoteRegion {
    pub start: u64,
    pub end: u64,
    pub offset: u64,
    pub physical: u64,
    pub memory: Arc<dyn RemoteMemory>,
    pub readable: bool,
    pub writable: bool,
}

impl RemoteRegion {
    /// Reads from `iova` on; the whole access is inside.
    pub fn read(&self, iova: u64, destination: &mut [u8]) -> io::Result<()> {
        let offset = self.offset + (iova - self.start);
        self.memory.read(offset, destination)
    }

    /// Writes from `iova` on; the whole access is inside.
    pub fn write(&self, iova: u64, source: &[u8]) -> io::Result<()> {
        let offset = self.offset + (iova - self.start);
        self.memory.write(offset, source)
    }
}
