//! Memory that the client maps for the device.

use std::os::fd::BorrowedFd;

use zerocopy::IntoBytes;

use super::Client;
use crate::dma::{self, DmaRange};
use crate::error::RequestError;
use crate::message::{Command, DmaMapRequest, DmaUnmap};

/// Way in which the server accesses memory that the client maps.
#[derive(Debug, Clone, Copy)]
pub enum ClientBacking<'a> {
    /// By mapping the file from this offset on.
    Mmap(BorrowedFd<'a>, u64),
    /// By `pread` and `pwrite` of the file from this offset on; meant for `/proc/self/mem`. Servers
    /// that do not support libvfio-user's flag for it treat it as [`ClientBacking::Mmap`].
    FileIo(BorrowedFd<'a>, u64),
    /// At this address of the process in [`ClientOptions`](crate::ClientOptions). A server that can
    /// access that process's memory does so, without a descriptor from this side; other servers
    /// send DMA messages.
    OwnMemory(u64),
    /// By DMA messages, which [`ClientMemory`](crate::ClientMemory) answers.
    Messages,
}

impl Client {
    /// Maps memory for the device.
    pub fn dma_map(&self, range: DmaRange, backing: ClientBacking) -> Result<(), RequestError> {
        let page_size = self.server.page_size();
        dma::check_range(range.iova, range.length, page_size).map_err(|_| {
            RequestError::Invalid("the range does not consist of the server's pages")
        })?;
        let (file, offset, kind) = match backing {
            // Servers without a flag for it map a file that comes without a flag.
            ClientBacking::Mmap(file, offset) => (Some(file), offset, 0),
            ClientBacking::FileIo(file, offset) => (Some(file), offset, dma::FLAG_FILE_IO),
            // Addresses are only for servers that have opened the process's memory.
            ClientBacking::OwnMemory(address) if self.server.reaches_process_memory => {
                (None, address, 0)
            }
            ClientBacking::OwnMemory(_) | ClientBacking::Messages => (None, 0, 0),
        };
        if file.is_some() && self.server.max_msg_fds == 0 {
            return Err(RequestError::Invalid("the server takes no file descriptor"));
        }
        let readable = if range.readable { dma::FLAG_READ } else { 0 };
        let writable = if range.writable { dma::FLAG_WRITE } else { 0 };
        let request = DmaMapRequest {
            argsz: (size_of::<DmaMapRequest>() as u32).into(),
            flags: (readable | writable | kind).into(),
            offset: offset.into(),
            iova: range.iova.into(),
            length: range.length.into(),
        };
        let parts = [request.as_bytes(), &[]];
        self.request(Command::DMA_MAP, parts, file.as_slice())?;
        Ok(())
    }

    /// Unmaps memory; when this returns, the device no longer accesses it.
    pub fn dma_unmap(&self, iova: u64, length: u64) -> Result<(), RequestError> {
        self.unmap(iova, length, 0)
    }

    /// Unmaps all memory. Servers that do not support this refuse it.
    pub fn dma_unmap_all(&self) -> Result<(), RequestError> {
        self.unmap(0, 0, dma::UNMAP_FLAG_ALL)
    }

    fn unmap(&self, iova: u64, length: u64, flags: u32) -> Result<(), RequestError> {
        let request = DmaUnmap {
            argsz: (size_of::<DmaUnmap>() as u32).into(),
            flags: flags.into(),
            iova: iova.into(),
            length: length.into(),
        };
        self.request(Command::DMA_UNMAP, [request.as_bytes(), &[]], &[])?;
        Ok(())
    }
}
