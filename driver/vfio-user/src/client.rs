//! The client: uses a device that another process offers.

mod dma;
mod irqs;
mod memory;

use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

pub use dma::ClientBacking;
pub use memory::ClientMemory;
use zerocopy::IntoBytes;

use crate::capabilities::{self, Capabilities, ProcessMemory};
use crate::device::DeviceInfo;
use crate::error::{ConnectError, RequestError};
use crate::irq::IrqInfo;
use crate::limit;
use crate::message::{
    Command, DeviceInfoFields, IrqInfoFields, RegionAccess, RegionInfoFields, split,
};
use crate::queue::Queue;
use crate::region::{self, RegionInfo};
use crate::requester::{Reply, Requester, receive_all};
use crate::session::{DEVICE_FLAG_PCI, DEVICE_FLAG_RESET};
use crate::socket::{Socket, Timeouts};

/// Error of a reply that lacks fields.
const SHORT: RequestError = RequestError::Malformed("it is too short");

/// Options of a client.
#[derive(Debug, Clone, Copy)]
pub struct ClientOptions {
    /// Time limit of a reply.
    pub timeout: Duration,
    /// Process whose memory a server may access without messages: [`ClientBacking::OwnMemory`].
    pub process_memory: Option<ProcessMemory>,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            timeout: limit::REQUEST_TIMEOUT,
            process_memory: None,
        }
    }
}

/// A connection to a server. Any thread may use it; requests of several threads are outstanding
/// at the same time, and are executed in the order in which they were sent.
///
/// It ends on drop. The child of a `fork` shares the socket, but has none of the threads: it must
/// neither use nor drop the client.
#[derive(Debug)]
pub struct Client {
    socket: Arc<Socket>,
    requester: Arc<Requester>,
    commands: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
    options: ClientOptions,
    server: Capabilities,
    info: DeviceInfo,
}

impl Client {
    /// Connects to the server at `path` and agrees with it on a version.
    pub fn connect(path: &Path, memory: Arc<dyn ClientMemory>) -> Result<Self, ConnectError> {
        Self::from_stream(UnixStream::connect(path)?, memory, ClientOptions::default())
    }

    /// Like [`Client::connect`], on an existing connection.
    pub fn from_stream(
        stream: UnixStream,
        memory: Arc<dyn ClientMemory>,
        options: ClientOptions,
    ) -> Result<Self, ConnectError> {
        let socket = Arc::new(Socket::new(
            stream,
            limit::MESSAGE_FDS_MAX,
            Timeouts::default(),
        )?);
        let mut client = Self {
            requester: Arc::new(Requester::new(Arc::clone(&socket))),
            commands: Arc::default(),
            threads: Vec::new(),
            options,
            server: Capabilities::UNSTATED,
            info: DeviceInfo {
                regions: 0,
                irqs: 0,
                resettable: false,
                pci: false,
            },
            socket,
        };
        client.start_threads(memory)?;
        client.server = client.agree().map_err(ConnectError::Version)?;
        client.info = client.ask_info().map_err(ConnectError::DeviceInfo)?;
        Ok(client)
    }

    fn start_threads(&mut self, memory: Arc<dyn ClientMemory>) -> Result<(), ConnectError> {
        let (socket, commands) = (Arc::clone(&self.socket), Arc::clone(&self.commands));
        let notified = Arc::clone(&memory);
        let answer = thread::Builder::new()
            .name("vfio-user-dma".to_owned())
            .spawn(move || memory::answer_all(&*memory, &socket, &commands))?;
        self.threads.push(answer);
        let (socket, commands) = (Arc::clone(&self.socket), Arc::clone(&self.commands));
        let requester = Arc::clone(&self.requester);
        let receive = thread::Builder::new()
            .name("vfio-user-recv".to_owned())
            .spawn(move || {
                receive_all(&socket, &requester, &commands);
                notified.disconnected();
            })?;
        self.threads.push(receive);
        Ok(())
    }

    /// Exchanges `VERSION` messages.
    fn agree(&self) -> Result<Capabilities, RequestError> {
        let own = Capabilities {
            process_memory: self.options.process_memory,
            ..Capabilities::SUPPORTED
        };
        let body = capabilities::encode(capabilities::MINOR, &own);
        let reply = self.request(Command::VERSION, [&body, &[]], &[])?;
        let (version, server) = capabilities::decode(&reply.body)
            .map_err(|_| RequestError::Malformed("its capabilities cannot be read"))?;
        if version.major.get() != capabilities::MAJOR || version.minor.get() > capabilities::MINOR {
            return Err(RequestError::Malformed("it is of an unknown version"));
        }
        Ok(server)
    }

    fn ask_info(&self) -> Result<DeviceInfo, RequestError> {
        let request = DeviceInfoFields {
            argsz: (size_of::<DeviceInfoFields>() as u32).into(),
            ..DeviceInfoFields::default()
        };
        let parts = [request.as_bytes(), &[]];
        let reply = self.request(Command::DEVICE_GET_INFO, parts, &[])?;
        let (fields, _) = split::<DeviceInfoFields>(&reply.body).map_err(|_| SHORT)?;
        let flags = fields.flags.get();
        Ok(DeviceInfo {
            regions: fields.regions.get(),
            irqs: fields.irqs.get(),
            resettable: flags & DEVICE_FLAG_RESET != 0,
            pci: flags & DEVICE_FLAG_PCI != 0,
        })
    }

    fn request(
        &self,
        command: Command,
        parts: [&[u8]; 2],
        fds: &[BorrowedFd],
    ) -> Result<Reply, RequestError> {
        self.requester
            .request(command, parts, fds, self.options.timeout)
    }

    /// Returns the description of the device.
    pub fn device_info(&self) -> DeviceInfo {
        self.info
    }

    /// Returns the capabilities that the server has stated.
    pub fn server_capabilities(&self) -> Capabilities {
        self.server
    }

    /// Returns the description of a region, with its mappable memory.
    pub fn region_info(&self, region: u32) -> Result<RegionInfo, RequestError> {
        // The first answer gives the length of the whole one.
        let first = self.ask_region(region, region::FIXED_SIZE)?;
        let (fields, _) = split::<RegionInfoFields>(&first.body).map_err(|_| SHORT)?;
        let needed = fields.argsz.get();
        let mut reply = if needed > region::FIXED_SIZE {
            self.ask_region(region, needed.min(limit::REGION_INFO_SIZE_MAX))?
        } else {
            first
        };
        let file = reply.fds.pop();
        RegionInfo::decode(region, &reply.body, file).map_err(RequestError::Malformed)
    }

    fn ask_region(&self, region: u32, argsz: u32) -> Result<Reply, RequestError> {
        let request = RegionInfoFields {
            argsz: argsz.into(),
            index: region.into(),
            ..RegionInfoFields::default()
        };
        let parts = [request.as_bytes(), &[]];
        self.request(Command::DEVICE_GET_REGION_INFO, parts, &[])
    }

    /// Returns the description of a kind of interrupts.
    pub fn irq_info(&self, index: u32) -> Result<IrqInfo, RequestError> {
        let request = IrqInfoFields {
            argsz: (size_of::<IrqInfoFields>() as u32).into(),
            index: index.into(),
            ..IrqInfoFields::default()
        };
        let parts = [request.as_bytes(), &[]];
        let reply = self.request(Command::DEVICE_GET_IRQ_INFO, parts, &[])?;
        let (fields, _) = split::<IrqInfoFields>(&reply.body).map_err(|_| SHORT)?;
        if fields.index.get() != index {
            return Err(RequestError::Malformed("it describes other interrupts"));
        }
        Ok(IrqInfo {
            flags: fields.flags.get(),
            count: fields.count.get(),
        })
    }

    /// Returns the maximum number of data bytes in one message to the server.
    fn data_size_max(&self) -> usize {
        self.server
            .max_data_xfer_size
            .min(limit::DATA_TRANSFER_SIZE_MAX)
    }

    /// Reads from a region. A read longer than the server's limit is split.
    pub fn read(&self, region: u32, offset: u64, data: &mut [u8]) -> Result<(), RequestError> {
        let mut offset = offset;
        for chunk in data.chunks_mut(self.data_size_max()) {
            let access = access(region, offset, chunk.len());
            let reply = self.request(Command::REGION_READ, [access.as_bytes(), &[]], &[])?;
            match split::<RegionAccess>(&reply.body) {
                Ok((answered, bytes))
                    if answered.as_bytes() == access.as_bytes() && bytes.len() == chunk.len() =>
                {
                    chunk.copy_from_slice(bytes);
                }
                _ => return Err(RequestError::Malformed("it is not the requested data")),
            }
            offset = offset.wrapping_add(chunk.len() as u64);
        }
        Ok(())
    }

    /// Writes to a region; returns when the device has the data. A write longer than the server's
    /// limit is split.
    pub fn write(&self, region: u32, offset: u64, data: &[u8]) -> Result<(), RequestError> {
        let mut offset = offset;
        for chunk in data.chunks(self.data_size_max()) {
            let access = access(region, offset, chunk.len());
            let reply = self.request(Command::REGION_WRITE, [access.as_bytes(), chunk], &[])?;
            if reply.body != access.as_bytes() {
                return Err(RequestError::Malformed("it is not for the data written"));
            }
            offset = offset.wrapping_add(chunk.len() as u64);
        }
        Ok(())
    }

    /// Writes to a region; returns when the data has been sent. Errors of the device are not
    /// reported. The write reaches the device before every later request.
    pub fn write_posted(&self, region: u32, offset: u64, data: &[u8]) -> Result<(), RequestError> {
        let mut offset = offset;
        for chunk in data.chunks(self.data_size_max()) {
            let access = access(region, offset, chunk.len());
            self.requester
                .post(Command::REGION_WRITE, [access.as_bytes(), chunk])?;
            offset = offset.wrapping_add(chunk.len() as u64);
        }
        Ok(())
    }

    /// Resets the device.
    pub fn reset(&self) -> Result<(), RequestError> {
        self.request(Command::DEVICE_RESET, [&[], &[]], &[])?;
        Ok(())
    }

    /// Returns true unless the connection is known to have ended.
    pub fn is_connected(&self) -> bool {
        self.requester.is_connected()
    }
}

/// Returns the fields of an access to a region.
fn access(region: u32, offset: u64, length: usize) -> RegionAccess {
    RegionAccess {
        offset: offset.into(),
        region: region.into(),
        // At most `limit::DATA_TRANSFER_SIZE_MAX`.
        count: (length as u32).into(),
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.socket.shut_down();
        for thread in self.threads.drain(..) {
            // A thread that has panicked has already reported it. The last owner may be `memory`.
            if thread.thread().id() != thread::current().id() {
                let _ = thread.join();
            }
        }
    }
}
