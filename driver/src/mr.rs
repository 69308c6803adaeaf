//! Memory regions: mapped, described page by page in the translation table, and named by a key.

use crate::bus::DmaAccess;
use crate::dma::{DmaBuffer, UserMapping};
use crate::error::Error;
use crate::huge_page::log_page_size;
use crate::identifier::{LKey, RKey};
use crate::pd::ProtectionDomain;
use crate::range::RangeAllocator;
use crate::use_count::Lease;
use ferroce_spec::command::CommandOpcode;
use ferroce_spec::context::{AccessRights, MemoryEntry, MemoryEntryWord, TranslationEntry};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// MTT ranges begin at a multiple of this: a cache line of the device.
const MTT_ALIGNMENT: u64 = 8;

/// The memory translation table and its allocator.
pub(crate) struct TranslationTable {
    buffer: DmaBuffer,
    allocator: RangeAllocator,
}

impl TranslationTable {
    /// A table of `1 << log_entries` entries.
    pub(crate) fn new(buffer: DmaBuffer, log_entries: u8) -> Self {
        Self {
            buffer,
            allocator: RangeAllocator::new(0..1 << log_entries),
        }
    }

    pub(crate) fn iova(&self) -> u64 {
        self.buffer.iova()
    }
}

/// Entries of the translation table; free again when dropped.
struct TranslationRange {
    pd: Arc<ProtectionDomain>,
    start: u64,
    length: u64,
}

impl TranslationRange {
    /// Entries for `pages` pages of `1 << log_page_size` bytes from `iova` on, filled in.
    fn new(
        pd: &Arc<ProtectionDomain>,
        iova: u64,
        pages: u64,
        log_page_size: u8,
    ) -> Result<Self, Error> {
        let table = pd.device().translation_table();
        let start = table.allocator.allocate(pages, MTT_ALIGNMENT, 0);
        let start = start.ok_or(Error::NoResources {
            what: "memory translation table entry",
        })?;
        let range = Self {
            pd: Arc::clone(pd),
            start,
            length: pages,
        };
        let words = &table.buffer.words()[start as usize..][..pages as usize];
        for (page, word) in (0u64..).zip(words) {
            let entry = TranslationEntry::new(iova + (page << log_page_size));
            word.store(entry.bits(), Ordering::Relaxed);
        }
        Ok(range)
    }
}

impl Drop for TranslationRange {
    fn drop(&mut self) {
        let table = self.pd.device().translation_table();
        table.allocator.release(self.start, self.length);
    }
}

/// What may be done with a memory region. Reading by the local device is always allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryAccess {
    /// The local device may write, for receives and READs.
    pub local_write: bool,
    /// RDMA WRITE of peers. Needs `local_write`.
    pub remote_write: bool,
    /// RDMA READ of peers.
    pub remote_read: bool,
    /// Atomics of peers. Needs `local_write`.
    pub remote_atomic: bool,
    /// Memory windows may be bound.
    pub window_bind: bool,
    /// Writes of the device may pass each other.
    pub relaxed_ordering: bool,
}

impl From<MemoryAccess> for AccessRights {
    fn from(access: MemoryAccess) -> Self {
        let mut rights = Self::default();
        rights.set_local_write(access.local_write);
        rights.set_remote_write(access.remote_write);
        rights.set_remote_read(access.remote_read);
        rights.set_remote_atomic(access.remote_atomic);
        rights.set_window_bind(access.window_bind);
        rights.set_relaxed_ordering(access.relaxed_ordering);
        rights
    }
}

/// A memory region: memory of the application that the device may use.
///
/// The memory must stay mapped in the process until the region is deregistered; the device reads
/// and writes it at any time, as its rights allow.
pub struct MemoryRegion {
    pd: Arc<ProtectionDomain>,
    key: u32,
    address: usize,
    length: usize,
    /// Gone when deregistered.
    resources: Mutex<Option<Resources>>,
}

/// In the order in which they are given back: the device has forgotten the region before.
struct Resources {
    _mapping: UserMapping,
    _translation: TranslationRange,
    _lease: Lease,
}

impl MemoryRegion {
    /// Registers `length` bytes at `address`. WQEs and peers name the first of them
    /// `virtual_address`.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for an empty range, one that wraps around, or contradicting
    /// rights; [`Error::Bus`] when the memory is not there; [`Error::NoResources`].
    pub fn register(
        pd: &Arc<ProtectionDomain>,
        address: usize,
        length: usize,
        virtual_address: u64,
        access: MemoryAccess,
    ) -> Result<Arc<Self>, Error> {
        let device = pd.device();
        let limits = device.limits();
        check(address, length, virtual_address, access)?;
        if length as u64 > limits.max_mr_length {
            let what = "the memory region is too long";
            return Err(Error::InvalidArgument { what });
        }
        let lease = pd.lease()?;
        let log_page = log_page_size(address, length, limits.page_sizes);
        let page_size = 1usize << log_page;
        let writes = access.local_write || access.remote_write || access.remote_atomic;
        let dma_access = if writes {
            DmaAccess::ReadWrite
        } else {
            DmaAccess::Read
        };
        let mapping = UserMapping::new(device.space(), address, length, page_size, dma_access)?;
        let pages = mapping.length() as u64 >> log_page;
        let translation = TranslationRange::new(pd, mapping.iova(), pages, log_page)?;
        let mut word = MemoryEntryWord::default();
        word.set_log_page_size(log_page);
        word.set_valid(true);
        let entry = MemoryEntry {
            word,
            key: device.next_key_variant().into(),
            pd: pd.number(),
            access: access.into(),
            start: virtual_address,
            length: length as u64,
            translation: translation.start,
            first_page_offset: (address & (page_size - 1)) as u64,
            ..MemoryEntry::default()
        };
        let key = device.create_mr(&entry)?;
        let resources = Resources {
            _mapping: mapping,
            _translation: translation,
            _lease: lease,
        };
        Ok(Arc::new(Self {
            pd: Arc::clone(pd),
            key,
            address,
            length,
            resources: Mutex::new(Some(resources)),
        }))
    }

    /// Local key.
    pub fn lkey(&self) -> LKey {
        LKey(self.key)
    }

    /// Remote key.
    pub fn rkey(&self) -> RKey {
        RKey(self.key)
    }

    /// First address in this process.
    pub fn address(&self) -> usize {
        self.address
    }

    /// Bytes.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Protection domain.
    pub fn pd(&self) -> &Arc<ProtectionDomain> {
        &self.pd
    }

    /// Deregisters the region. The device does not touch the memory any more.
    ///
    /// # Errors
    ///
    /// What the device answers, [`Error::Destroyed`] the second time.
    pub fn deregister(&self) -> Result<(), Error> {
        let mut resources = self.resources.lock();
        if resources.is_none() {
            return Err(Error::Destroyed);
        }
        self.pd
            .device()
            .destroy(CommandOpcode::DESTROY_MR, self.key.into())?;
        *resources = None;
        Ok(())
    }
}

impl Drop for MemoryRegion {
    fn drop(&mut self) {
        match self.deregister() {
            Ok(()) | Err(Error::Destroyed) => {}
            Err(error) => tracing::warn!(key = self.key, %error, "MR not deregistered"),
        }
    }
}

fn check(
    address: usize,
    length: usize,
    virtual_address: u64,
    access: MemoryAccess,
) -> Result<(), Error> {
    let end = address.checked_add(length);
    let virtual_end = virtual_address.checked_add(length as u64);
    if length == 0 || end.is_none() || virtual_end.is_none() {
        let what = "the memory region is empty or wraps around";
        return Err(Error::InvalidArgument { what });
    }
    // IBTA vol 1, 10.6.3.1: who lets peers write must let the local device write.
    if (access.remote_write || access.remote_atomic) && !access.local_write {
        let what = "remote write or atomic without local write";
        return Err(Error::InvalidArgument { what });
    }
    Ok(())
}
