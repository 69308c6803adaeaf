//! The client's memory as the device reaches it.

use std::os::fd::OwnedFd;

use crate::error::{Errno, RequestError};

/// A range of IOVAs and what the device may do there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DmaRange {
    /// First I/O virtual address.
    pub iova: u64,
    /// Bytes.
    pub length: u64,
    /// The device may read.
    pub readable: bool,
    /// The device may write.
    pub writable: bool,
}

/// A mapping that the client asks for, as the server hands it to the device.
#[derive(Debug)]
pub struct DmaMap {
    /// First I/O virtual address.
    pub iova: u64,
    /// Bytes, not zero.
    pub length: u64,
    /// The device may read.
    pub readable: bool,
    /// The device may write.
    pub writable: bool,
    /// How the memory is reached.
    pub backing: DmaBacking,
}

/// How the device reaches mapped memory of the client.
#[derive(Debug)]
pub enum DmaBacking {
    /// By mapping the file.
    Mmap {
        /// The file.
        file: OwnedFd,
        /// Where in the file the range begins.
        offset: u64,
    },
    /// By `pread` and `pwrite` of the file; made for `/proc/PID/mem`.
    FileIo {
        /// The file.
        file: OwnedFd,
        /// Where in the file the range begins.
        offset: u64,
    },
    /// By DMA messages: [`DmaMessages`].
    Messages,
}

/// Reaches the client's memory by messages.
#[derive(Debug)]
pub struct DmaMessages {}

impl DmaMessages {
    /// Reads the client's memory, in as many messages as it takes.
    ///
    /// Waits at most [`crate::limit::REQUEST_TIMEOUT`] for each.
    pub fn read(&self, iova: u64, data: &mut [u8]) -> Result<(), Errno> {
        let _ = (iova, data);
        Err(RequestError::Disconnected.errno())
    }

    /// Writes the client's memory, in as many messages as it takes.
    ///
    /// Waits at most [`crate::limit::REQUEST_TIMEOUT`] for each.
    pub fn write(&self, iova: u64, data: &[u8]) -> Result<(), Errno> {
        let _ = (iova, data);
        Err(RequestError::Disconnected.errno())
    }
}
