//! What the client lets the device reach.

use std::os::fd::BorrowedFd;

use zerocopy::IntoBytes;

use super::Client;
use crate::dma::{self, DmaRange};
use crate::error::RequestError;
use crate::message::{Command, DmaMapRequest, DmaUnmap};

/// How the server reaches memory that the client maps.
#[derive(Debug, Clone, Copy)]
pub enum ClientBacking<'a> {
    /// By mapping the file from this offset on.
    Mmap(BorrowedFd<'a>, u64),
    /// By `pread` and `pwrite` of the file from this offset on; made for `/proc/self/mem`. Only
    /// servers that know libvfio-user's flag for it do not take it for [`ClientBacking::Mmap`].
    FileIo(BorrowedFd<'a>, u64),
    /// It is at this address of the process that [`ClientOptions`](crate::ClientOptions) states: a
    /// server that reaches its memory does so, without a descriptor of this side; others send DMA
    /// messages.
    OwnMemory(u64),
    /// By DMA messages, which [`ClientMemory`](crate::ClientMemory) answers.
    Messages,
}

impl Client {
    /// Lets the device reach memory.
    pub fn dma_map(&self, range: DmaRange, backing: ClientBacking) -> Result<(), RequestError> {
        let page_size = self.server.page_size();
        dma::check_range(range.iova, range.length, page_size).map_err(|_| {
            RequestError::Invalid("the range does not consist of the server's pages")
        })?;
        let (file, offset, kind) = match backing {
            // Servers that know no flag for it map what comes without one.
            ClientBacking::Mmap(file, offset) => (Some(file), offset, 0),
            ClientBacking::FileIo(file, offset) => (Some(file), offset, dma::FLAG_FILE_IO),
            // Addresses are for servers that know the process.
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

    /// Takes memory back; when this returns, the device reaches it no more.
    pub fn dma_unmap(&self, iova: u64, length: u64) -> Result<(), RequestError> {
        self.unmap(iova, length, 0)
    }

    /// Takes all memory back. Servers that do not know this refuse it.
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
