//! One client's session: executes its commands, one after the other.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use zerocopy::IntoBytes;

use crate::capabilities::{self, Capabilities};
use crate::device::{Device, DeviceInfo};
use crate::dma::{self, DmaMap, DmaMessages};
use crate::error::Errno;
use crate::irq::{self, IrqAction, IrqInfo};
use crate::limit;
use crate::message::{
    Command, DeviceInfoFields, DmaMapRequest, DmaUnmap, IrqInfoFields, Message, RegionAccess,
    RegionInfoFields, SingleWrite, TYPE_COMMAND, WriteMulti, split, whole,
};
use crate::queue::Queue;
use crate::region::{self, RegionInfo};
use crate::requester::Requester;
use crate::socket::Socket;

/// `VFIO_DEVICE_FLAGS_RESET`.
pub(crate) const DEVICE_FLAG_RESET: u32 = 1;
/// `VFIO_DEVICE_FLAGS_PCI`.
pub(crate) const DEVICE_FLAG_PCI: u32 = 1 << 1;

/// Reply to a command that succeeded.
#[derive(Default)]
struct Answer {
    body: Vec<u8>,
    /// Index of the region whose file is sent with it.
    file_of_region: Option<usize>,
}

impl From<Vec<u8>> for Answer {
    fn from(body: Vec<u8>) -> Self {
        Self {
            body,
            file_of_region: None,
        }
    }
}

/// A client's session.
pub(crate) struct Session<'a> {
    device: &'a dyn Device,
    socket: &'a Socket,
    requester: &'a Arc<Requester>,
    /// Capabilities that this side has stated, or will state.
    capabilities: Capabilities,
    info: DeviceInfo,
    regions: Vec<RegionInfo>,
    irqs: Vec<IrqInfo>,
    /// Capabilities that the client has stated, once it has.
    client: Option<Capabilities>,
    /// The memory of the client's process, if the device can access it.
    process_memory: Option<OwnedFd>,
}

impl<'a> Session<'a> {
    pub(crate) fn new(
        device: &'a dyn Device,
        socket: &'a Socket,
        requester: &'a Arc<Requester>,
        capabilities: Capabilities,
    ) -> Self {
        let mut info = device.info();
        info.regions = info.regions.min(limit::INDEX_MAX);
        info.irqs = info.irqs.min(limit::INDEX_MAX);
        let region = |index| device.region(index).unwrap_or(RegionInfo::ABSENT);
        let irqs = |index| {
            let absent = IrqInfo { flags: 0, count: 0 };
            let mut irqs = device.irqs(index).unwrap_or(absent);
            irqs.count = irqs.count.min(limit::VECTORS_MAX);
            irqs
        };
        Self {
            device,
            socket,
            requester,
            capabilities,
            info,
            regions: (0..info.regions).map(region).collect(),
            irqs: (0..info.irqs).map(irqs).collect(),
            client: None,
            process_memory: None,
        }
    }

    /// Executes commands until there are no more.
    pub(crate) fn run(mut self, commands: &Queue) {
        while let Some(command) = commands.pop() {
            self.handle(command);
        }
        if self.client.is_some() {
            self.device.disconnected();
        }
    }

    fn handle(&mut self, mut message: Message) {
        let header = message.header;
        let was_connected = self.client.is_some();
        let fds = std::mem::take(&mut message.fds);
        // A client that has disconnected gets no reply; its commands are executed nevertheless.
        let _ = match self.execute(&message, fds) {
            Ok(answer) => {
                let region = answer
                    .file_of_region
                    .and_then(|index| self.regions.get(index));
                let mmap = region.and_then(|region| region.mmap.as_ref());
                let files: Vec<_> = mmap.iter().map(|mmap| mmap.file.as_fd()).collect();
                self.socket.reply(&header, [&answer.body, &[]], &files)
            }
            Err(errno) => {
                tracing::debug!(command = header.command().0, %errno, "vfio-user command refused");
                self.socket.reply_error(&header, errno)
            }
        };
        if let (false, Some(client)) = (was_connected, &self.client) {
            let messages = DmaMessages::new(Arc::clone(self.requester), client);
            self.device.connected(Arc::new(messages));
        }
    }

    fn execute(&mut self, message: &Message, fds: Vec<OwnedFd>) -> Result<Answer, Errno> {
        if let Some(errno) = message.lost_fds {
            return Err(errno);
        }
        if message.header.kind() != TYPE_COMMAND {
            return Err(Errno::INVAL);
        }
        let body = &message.body[..];
        let command = message.header.command();
        let is_version = command == Command::VERSION;
        if is_version != self.client.is_none() {
            return Err(Errno::INVAL); // it must be first, and only once
        }
        match command {
            Command::DMA_MAP => return self.dma_map(body, fds),
            Command::DEVICE_SET_IRQS => return self.set_irqs(body, fds),
            _ if !fds.is_empty() => return Err(Errno::INVAL),
            _ => {}
        }
        match command {
            Command::VERSION => self.version(body),
            Command::DMA_UNMAP => self.dma_unmap(body),
            Command::DEVICE_GET_INFO => self.device_info(body),
            Command::DEVICE_GET_REGION_INFO => self.region_info(body),
            Command::DEVICE_GET_IRQ_INFO => self.irq_info(body),
            Command::REGION_READ => self.region_read(body),
            Command::REGION_WRITE => self.region_write(body),
            Command::REGION_WRITE_MULTI if self.capabilities.write_multiple => {
                self.region_write_multi(body)
            }
            Command::DEVICE_RESET => self.reset(),
            _ => Err(Errno::NOTSUP),
        }
    }

    fn version(&mut self, body: &[u8]) -> Result<Answer, Errno> {
        let (proposed, client) = capabilities::decode(body)?;
        if proposed.major.get() != capabilities::MAJOR {
            return Err(Errno::INVAL);
        }
        // A capability that the client does not know may not be stated.
        self.capabilities.write_multiple &= client.write_multiple;
        self.process_memory = client
            .process_memory
            .and_then(|memory| self.device.process_memory(self.socket.as_fd(), &memory));
        self.capabilities.process_memory = None;
        self.capabilities.reaches_process_memory = self.process_memory.is_some();
        self.client = Some(client);
        self.socket.agreed();
        let minor = proposed.minor.get().min(capabilities::MINOR);
        Ok(capabilities::encode(minor, &self.capabilities).into())
    }

    fn dma_map(&self, body: &[u8], fds: Vec<OwnedFd>) -> Result<Answer, Errno> {
        let request = whole::<DmaMapRequest>(body)?;
        let page_size = self.capabilities.page_size();
        let map = DmaMap::decode(&request, fds, page_size, self.process_memory.as_ref())?;
        self.device.map(map)?;
        Ok(Answer::default())
    }

    fn dma_unmap(&self, body: &[u8]) -> Result<Answer, Errno> {
        let (request, _bitmap) = split::<DmaUnmap>(body)?;
        let (iova, length) = (request.iova.get(), request.length.get());
        match request.flags.get() {
            0 => {
                dma::check_range(iova, length, self.capabilities.page_size())?;
                self.device.unmap(iova, length)?;
            }
            dma::UNMAP_FLAG_ALL if (iova, length) == (0, 0) => self.device.unmap_all(),
            dma::UNMAP_FLAG_DIRTY_BITMAP => return Err(Errno::NOTSUP),
            _ => return Err(Errno::INVAL),
        }
        Ok(request.as_bytes().to_vec().into())
    }

    fn device_info(&self, body: &[u8]) -> Result<Answer, Errno> {
        let (request, _) = split::<DeviceInfoFields>(body)?;
        let mut fields = DeviceInfoFields::default();
        let size = size_of_val(&fields) as u32;
        if request.argsz.get() < size {
            return Err(Errno::INVAL);
        }
        let reset = if self.info.resettable {
            DEVICE_FLAG_RESET
        } else {
            0
        };
        let pci = if self.info.pci { DEVICE_FLAG_PCI } else { 0 };
        fields.argsz = size.into();
        fields.flags = (reset | pci).into();
        fields.regions = self.info.regions.into();
        fields.irqs = self.info.irqs.into();
        Ok(fields.as_bytes().to_vec().into())
    }

    fn region_info(&self, body: &[u8]) -> Result<Answer, Errno> {
        let (request, _) = split::<RegionInfoFields>(body)?;
        let index = request.index.get();
        let region = self.regions.get(index as usize).ok_or(Errno::INVAL)?;
        let argsz = request.argsz.get();
        if argsz < region::FIXED_SIZE {
            return Err(Errno::INVAL);
        }
        let takes_files = self.client.is_some_and(|client| client.max_msg_fds > 0);
        if region.mmap.is_some() && !takes_files {
            let mut trapped = region.clone();
            trapped.mmap = None;
            return Ok(trapped.encode(index, argsz).into());
        }
        let body = region.encode(index, argsz);
        // An incomplete reply has no file: the client will request it again.
        let is_complete = body.len() > region::FIXED_SIZE as usize;
        Ok(Answer {
            body,
            file_of_region: is_complete.then_some(index as usize),
        })
    }

    fn irq_info(&self, body: &[u8]) -> Result<Answer, Errno> {
        let (request, _) = split::<IrqInfoFields>(body)?;
        let irqs = self.irqs.get(request.index.get() as usize);
        let irqs = irqs.ok_or(Errno::INVAL)?;
        let mut fields = IrqInfoFields::default();
        let size = size_of_val(&fields) as u32;
        if request.argsz.get() < size {
            return Err(Errno::INVAL);
        }
        fields.argsz = size.into();
        fields.flags = irqs.flags.into();
        fields.index = request.index;
        fields.count = irqs.count.into();
        Ok(fields.as_bytes().to_vec().into())
    }

    fn set_irqs(&self, body: &[u8], fds: Vec<OwnedFd>) -> Result<Answer, Errno> {
        let (set, data) = irq::decode_set(body)?;
        let index = set.index.get();
        let irqs = self.irqs.get(index as usize).ok_or(Errno::INVAL)?;
        let action = IrqAction::decode(&set, data, fds, irqs.count)?;
        self.device.set_irqs(index, action)?;
        Ok(Answer::default())
    }

    /// Checks that an access with the `needed` rights lies inside of its region and is not too
    /// long.
    fn check_access(&self, access: &RegionAccess, needed: u32) -> Result<(), Errno> {
        let region = self.regions.get(access.region.get() as usize);
        let region = region.ok_or(Errno::INVAL)?;
        let count = u64::from(access.count.get());
        if count > self.capabilities.max_data_xfer_size as u64 {
            return Err(Errno::TOOBIG);
        }
        let end = access.offset.get().checked_add(count);
        let is_inside = end.is_some_and(|end| end <= region.size);
        if count > 0 && is_inside && region.flags & needed == needed {
            Ok(())
        } else {
            Err(Errno::INVAL)
        }
    }

    fn region_read(&self, body: &[u8]) -> Result<Answer, Errno> {
        let access = whole::<RegionAccess>(body)?;
        self.check_access(&access, region::FLAG_READ)?;
        let fixed_size = size_of_val(&access);
        let mut reply = vec![0; fixed_size + access.count.get() as usize];
        let (fixed, data) = reply.split_at_mut(fixed_size);
        fixed.copy_from_slice(access.as_bytes());
        self.device
            .read(access.region.get(), access.offset.get(), data)?;
        Ok(reply.into())
    }

    fn region_write(&self, body: &[u8]) -> Result<Answer, Errno> {
        let (access, data) = split::<RegionAccess>(body)?;
        self.write(&access, data)?;
        Ok(access.as_bytes().to_vec().into())
    }

    fn write(&self, access: &RegionAccess, data: &[u8]) -> Result<(), Errno> {
        self.check_access(access, region::FLAG_WRITE)?;
        if data.len() != access.count.get() as usize {
            return Err(Errno::INVAL);
        }
        self.device
            .write(access.region.get(), access.offset.get(), data)
    }

    /// Executes the writes up to the first that fails.
    fn region_write_multi(&self, body: &[u8]) -> Result<Answer, Errno> {
        let (fixed, mut writes) = split::<WriteMulti>(body)?;
        let size = fixed
            .count
            .get()
            .checked_mul(size_of::<SingleWrite>() as u64);
        if size != Some(writes.len() as u64) {
            return Err(Errno::INVAL);
        }
        while !writes.is_empty() {
            let (single, rest) = split::<SingleWrite>(writes)?;
            writes = rest;
            let count = single.access.count.get() as usize;
            let data = single.data.get(..count).ok_or(Errno::INVAL)?;
            self.write(&single.access, data)?;
        }
        Ok(fixed.as_bytes().to_vec().into())
    }

    fn reset(&self) -> Result<Answer, Errno> {
        if !self.info.resettable {
            return Err(Errno::NOTSUP);
        }
        self.device.reset()?;
        Ok(Answer::default())
    }
}
