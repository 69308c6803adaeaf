//! The client's memory: its mappings for the device, and the device's access to them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::sync::Arc;

use ferroce_host::memory::{MapChange, MapError, MemoryMap, RemoteMemory, Rights, UnmapError};
use ferroce_platform::mapped_file::identity_of;
use ferroce_platform::served::ServedModel;
use ferroce_vfio_user::{DmaBacking, DmaMap, DmaMessages, Errno};

use super::client_file::{ClientFile, ClientFiles};

/// Maximum number of mappings of a client; the same as in VFIO (`dma_entry_limit`).
pub const MAX_MAPPINGS: usize = 65535;
/// Upper bound of their total size: the address range of a processor as a whole, for on-demand
/// regions, and once more in pieces.
const MAX_BYTES: u64 = 1 << 48;
/// Mappings begin and end at multiples of this size.
pub const PAGE_SIZE: u64 = 4096;

/// Memory that only the client can access.
#[derive(Debug)]
struct MessageMemory(Arc<DmaMessages>);

impl RemoteMemory for MessageMemory {
    fn read(&self, offset: u64, destination: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, destination).map_err(io::Error::from)
    }

    fn write(&self, offset: u64, source: &[u8]) -> io::Result<()> {
        self.0.write(offset, source).map_err(io::Error::from)
    }
}

/// Resources of a mapping.
#[derive(Debug)]
struct Held {
    length: u64,
    _file: Option<ClientFile>,
}

/// The mappings of one client.
#[derive(Debug)]
pub struct ClientMemory {
    messages: Arc<dyn RemoteMemory>,
    files: ClientFiles,
    held: BTreeMap<u64, Held>,
    bytes: u64,
}

impl ClientMemory {
    /// Creates the mappings of a client that answers `messages`.
    pub fn new(messages: Arc<DmaMessages>) -> Self {
        Self {
            messages: Arc::new(MessageMemory(messages)),
            files: ClientFiles::default(),
            held: BTreeMap::new(),
            bytes: 0,
        }
    }

    /// Lets the device access a range.
    ///
    /// # Errors
    /// `EINVAL`, `EEXIST`, `EACCES`, `ENOSPC` (too many), `ENOMEM` (too much), `EFAULT` (the file
    /// was truncated).
    pub fn map(&mut self, function: &dyn ServedModel, map: DmaMap) -> Result<(), Errno> {
        let DmaMap {
            iova,
            length,
            readable,
            writable,
            backing,
        } = map;
        let rights = match (readable, writable) {
            (true, true) => Rights::ReadWrite,
            (true, false) => Rights::Read,
            (false, true) => Rights::Write,
            (false, false) => return Err(Errno::INVAL),
        };
        if iova % PAGE_SIZE != 0 || length % PAGE_SIZE != 0 {
            return Err(Errno::INVAL);
        }
        if self.held.len() >= MAX_MAPPINGS {
            return Err(Errno::NOSPC);
        }
        let bytes = self.bytes.checked_add(length);
        let bytes = bytes.filter(|bytes| *bytes <= MAX_BYTES);
        let bytes = bytes.ok_or(Errno::NOMEM)?;
        let mut identity = None;
        let (file, offset) = match backing {
            DmaBacking::Mmap { file, offset } => {
                let file = File::from(file);
                identity = file.metadata().ok().map(|file| identity_of(&file));
                let file = self.files.map(file, offset, length, writable)?;
                (Some(file), offset)
            }
            DmaBacking::FileIo { file, offset } => {
                let file = self.files.call(File::from(file), rights)?;
                (Some(file), offset)
            }
            DmaBacking::Messages => (None, iova),
        };
        function
            .with_mappings(MapChange::Addition, |map| {
                self.insert(map, iova, length, rights, file.as_ref(), offset)
            })
            .ok_or(Errno::IO)?
            .map_err(errno_of)?;
        if let Some(identity) = identity {
            function.note_file(iova..iova + length, identity, offset);
        }
        let held = Held {
            length,
            _file: file,
        };
        self.held.insert(iova, held);
        self.bytes = bytes;
        Ok(())
    }

    /// Maps memory of the client: `file` from `offset` on; `None`: memory at the address `offset`
    /// that only the client can access.
    fn insert(
        &self,
        map: &mut MemoryMap,
        iova: u64,
        length: u64,
        rights: Rights,
        file: Option<&ClientFile>,
        offset: u64,
    ) -> Result<(), MapError> {
        match file {
            Some(ClientFile::Mapped(file)) => {
                let address = file.address(offset, length).ok_or(MapError::BadRange)?;
                map.map(iova, address, length, rights)
            }
            Some(ClientFile::OfAddresses(part)) => {
                let address = part.address(offset, length).ok_or(MapError::BadRange)?;
                let owner = usize::try_from(offset).map_err(|_| MapError::BadRange)?;
                map.map_of_owner(iova, address, owner, length, rights)
            }
            Some(ClientFile::Called(file)) => {
                map.map_remote(iova, length, rights, file.clone(), offset)
            }
            None => map.map_remote(iova, length, rights, self.messages.clone(), offset),
        }
    }

    /// Removes a range, which may contain several mappings or none: behind a virtual IOMMU a
    /// guest's range may never have been mapped.
    ///
    /// # Errors
    /// `EINVAL`: it would cut a mapping in two.
    pub fn unmap(
        &mut self,
        function: &dyn ServedModel,
        iova: u64,
        length: u64,
    ) -> Result<(), Errno> {
        let unmapped =
            function.with_mappings(MapChange::Removal, |map| map.unmap_range(iova, length));
        match unmapped {
            Some(Ok(())) => {}
            Some(Err(UnmapError::NotMapped)) => return Ok(()),
            Some(Err(UnmapError::Cut)) => return Err(Errno::INVAL),
            None => return Err(Errno::IO),
        }
        let end = iova.saturating_add(length);
        let gone: Vec<u64> = self.held.range(iova..end).map(|(at, _)| *at).collect();
        for at in gone {
            if let Some(held) = self.held.remove(&at) {
                self.bytes -= held.length;
            }
        }
        Ok(())
    }

    /// Removes all mappings.
    pub fn unmap_all(&mut self, function: &dyn ServedModel) {
        function.change_mappings(MapChange::Removal, &mut MemoryMap::unmap_all);
        self.held.clear();
        self.bytes = 0;
    }
}

fn errno_of(error: MapError) -> Errno {
    match error {
        MapError::BadRange => Errno::INVAL,
        MapError::Overlap => Errno::EXIST,
        MapError::NotMapped => Errno::NOENT,
    }
}
