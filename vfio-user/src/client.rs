//! The client: a device that somebody else offers.

use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::capabilities::Capabilities;
use crate::device::DeviceInfo;
use crate::dma::DmaRange;
use crate::error::{ConnectError, Errno, RequestError};
use crate::irq::IrqInfo;
use crate::limit;
use crate::region::RegionInfo;

/// Memory of the client that the server reaches by DMA messages.
///
/// Called on a thread of the client's own. Errnos are the reply: `ENODEV` for what is not mapped.
pub trait ClientMemory: Send + Sync {
    /// Reads memory for the device.
    fn read(&self, iova: u64, data: &mut [u8]) -> Result<(), Errno>;
    /// Writes memory for the device.
    fn write(&self, iova: u64, data: &[u8]) -> Result<(), Errno>;
}

/// How the server reaches memory that the client maps.
#[derive(Debug, Clone, Copy)]
pub enum ClientBacking<'a> {
    /// By mapping the file from this offset on.
    Mmap(BorrowedFd<'a>, u64),
    /// By `pread` and `pwrite` of the file from this offset on; made for `/proc/self/mem`.
    FileIo(BorrowedFd<'a>, u64),
    /// By DMA messages, which [`ClientMemory`] answers.
    Messages,
}

/// How a client behaves.
#[derive(Debug, Clone, Copy)]
pub struct ClientOptions {
    /// How long a request waits for its reply.
    pub timeout: Duration,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            timeout: limit::REQUEST_TIMEOUT,
        }
    }
}

/// A connection to a server. Any thread may use it; requests of several threads are outstanding
/// at the same time, and are executed in the order in which they were sent.
#[derive(Debug)]
pub struct Client {}

impl Client {
    /// Connects to the server at `path` and agrees on a version.
    pub fn connect(path: &Path, memory: Arc<dyn ClientMemory>) -> Result<Self, ConnectError> {
        Self::from_stream(UnixStream::connect(path)?, memory, ClientOptions::default())
    }

    /// [`Client::connect`] on a connection that exists already.
    pub fn from_stream(
        stream: UnixStream,
        memory: Arc<dyn ClientMemory>,
        options: ClientOptions,
    ) -> Result<Self, ConnectError> {
        let _ = (stream, memory, options);
        Err(ConnectError::Version(RequestError::Disconnected))
    }

    /// What the device is.
    pub fn device_info(&self) -> DeviceInfo {
        DeviceInfo {
            regions: 0,
            irqs: 0,
            resettable: false,
            pci: false,
        }
    }

    /// What the server has said that it takes.
    pub fn server_capabilities(&self) -> Capabilities {
        Capabilities::UNSTATED
    }

    /// Describes a region, with the memory behind it.
    pub fn region_info(&self, region: u32) -> Result<RegionInfo, RequestError> {
        let _ = region;
        Err(RequestError::Disconnected)
    }

    /// Describes interrupts.
    pub fn irq_info(&self, index: u32) -> Result<IrqInfo, RequestError> {
        let _ = index;
        Err(RequestError::Disconnected)
    }

    /// Reads from a region.
    pub fn read(&self, region: u32, offset: u64, data: &mut [u8]) -> Result<(), RequestError> {
        let _ = (region, offset, data);
        Err(RequestError::Disconnected)
    }

    /// Writes to a region; returns when the device has it.
    pub fn write(&self, region: u32, offset: u64, data: &[u8]) -> Result<(), RequestError> {
        let _ = (region, offset, data);
        Err(RequestError::Disconnected)
    }

    /// Writes to a region; returns when it has been sent. No errno of the device comes back. It
    /// reaches the device before every later request.
    pub fn write_posted(&self, region: u32, offset: u64, data: &[u8]) -> Result<(), RequestError> {
        let _ = (region, offset, data);
        Err(RequestError::Disconnected)
    }

    /// Lets the device reach memory.
    pub fn dma_map(&self, range: DmaRange, backing: ClientBacking) -> Result<(), RequestError> {
        let _ = (range, backing);
        Err(RequestError::Disconnected)
    }

    /// Takes memory back; when this returns, the device reaches it no more.
    pub fn dma_unmap(&self, iova: u64, length: u64) -> Result<(), RequestError> {
        let _ = (iova, length);
        Err(RequestError::Disconnected)
    }

    /// Takes all memory back.
    pub fn dma_unmap_all(&self) -> Result<(), RequestError> {
        Err(RequestError::Disconnected)
    }

    /// Connects eventfds to vectors from `start` on; `None` takes a vector's eventfd away.
    pub fn connect_irqs(
        &self,
        index: u32,
        start: u32,
        events: &[Option<BorrowedFd>],
    ) -> Result<(), RequestError> {
        let _ = (index, start, events);
        Err(RequestError::Disconnected)
    }

    /// Takes all eventfds of a kind away.
    pub fn disable_irqs(&self, index: u32) -> Result<(), RequestError> {
        let _ = index;
        Err(RequestError::Disconnected)
    }

    /// Has the device send vectors (a loopback test).
    pub fn trigger_irqs(&self, index: u32, vectors: Range<u32>) -> Result<(), RequestError> {
        let _ = (index, vectors);
        Err(RequestError::Disconnected)
    }

    /// Masks vectors.
    pub fn mask_irqs(&self, index: u32, vectors: Range<u32>) -> Result<(), RequestError> {
        let _ = (index, vectors);
        Err(RequestError::Disconnected)
    }

    /// Unmasks vectors.
    pub fn unmask_irqs(&self, index: u32, vectors: Range<u32>) -> Result<(), RequestError> {
        let _ = (index, vectors);
        Err(RequestError::Disconnected)
    }

    /// Resets the device.
    pub fn reset(&self) -> Result<(), RequestError> {
        Err(RequestError::Disconnected)
    }

    /// Whether the server is still there, as far as known.
    pub fn is_connected(&self) -> bool {
        false
    }
}
