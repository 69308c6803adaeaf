//! Memory regions: mapped, described page by page in the translation table, and named by a key.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use ferroce_spec::context::MemoryEntry;
use parking_lot::Mutex;

use crate::bus::{DmaFile, PAGE_SIZE, RegionTranslation};
use crate::dma::{PageSizes, UserMapping};
use crate::error::Error;
use crate::identifier::{LKey, RKey};
use crate::objects::device::Device;
use crate::objects::dm::DeviceMemory;
use crate::objects::memory::{MemoryAccess, MemoryRange, word};
use crate::objects::on_demand::{DemandPages, OnDemand, OnDemandMemory};
use crate::objects::pd::ProtectionDomain;
use crate::objects::translation_range::TranslationRange;
use crate::use_count::Lease;

/// Changes of a memory region in a reregistration; `None`: unchanged.
#[derive(Clone, Default)]
pub struct Reregistration {
    /// Protection domain.
    pub pd: Option<Arc<ProtectionDomain>>,
    /// Memory.
    pub range: Option<MemoryRange>,
    /// Rights.
    pub access: Option<MemoryAccess>,
    /// Way of address translation: this pins a region that was on demand, or the reverse.
    pub translation: Option<Translation>,
}

/// A memory region: memory of the application that the device may use.
///
/// The memory must stay mapped in the process until the region is deregistered; the device reads
/// and writes it at any time within its rights.
pub struct MemoryRegion {
    device: Arc<Device>,
    key: AtomicU32,
    /// `None` when deregistered.
    state: Mutex<Option<Region>>,
}

struct Region {
    /// Released first: the device has destroyed the region before.
    backing: Backing,
    owner: Owner,
    range: MemoryRange,
    access: MemoryAccess,
}

/// The protection domain, and a lease of it.
struct Owner {
    pd: u32,
    _lease: Lease,
}

impl Owner {
    fn new(pd: &ProtectionDomain) -> Result<Self, Error> {
        Ok(Self {
            pd: pd.number(),
            _lease: pd.lease()?,
        })
    }
}

/// Location of the memory.
enum Backing {
    Application(Pages),
    /// What the program has mapped at each access.
    OnDemand(OnDemand),
    /// None: the region has no bytes.
    Empty,
    Device {
        /// Offset in BAR4.
        place: u64,
        _memory: Arc<DeviceMemory>,
        _lease: Lease,
    },
    /// None: reads return zeros, writes are dropped.
    Null,
}

/// Way in which the device translates the addresses of a region to IOVAs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Translation {
    /// By pages of the size with which the kernel backs the memory, unless the bus has another
    /// way ([`Bus::region_translation`](crate::bus::Bus::region_translation)).
    #[default]
    Kernel,
    /// By pages of `1 << .0` bytes: 12, 21 or 30. The memory must be mapped in the process up to
    /// the bounds of these pages.
    Pages(u8),
    /// By an offset: the region is contiguous in IOVA space.
    Direct,
    /// By pages of 4 KiB, of a file whose mapping the memory is.
    File(DmaFile),
    /// By the page tables of the program, at each access ([`Bus::address_space`]): nothing is
    /// pinned or mapped for the region, and the memory need not exist.
    ///
    /// [`Bus::address_space`]: crate::bus::Bus::address_space
    OnDemand,
}

impl Translation {
    /// Returns the file whose mapping the memory is.
    fn file(self) -> Option<DmaFile> {
        match self {
            Self::File(file) => Some(file),
            Self::Kernel | Self::Pages(_) | Self::Direct | Self::OnDemand => None,
        }
    }
}

impl Backing {
    fn new(
        device: &Arc<Device>,
        range: &MemoryRange,
        access: MemoryAccess,
        translation: Translation,
    ) -> Result<Self, Error> {
        // Before the length: a region without bytes is on demand for prefetching, too.
        if translation == Translation::OnDemand {
            return OnDemand::new(device, range, access.of_device()).map(Self::OnDemand);
        }
        if range.length == 0 {
            return Ok(Self::Empty);
        }
        Pages::new(device, range, access, translation).map(Self::Application)
    }

    /// Returns the way of translation.
    fn translation(&self) -> Translation {
        match self {
            Self::Application(pages) => pages.translation,
            Self::OnDemand(_) => Translation::OnDemand,
            Self::Empty | Self::Device { .. } | Self::Null => Translation::Kernel,
        }
    }

    /// Returns the pages of an on-demand region that the device knows.
    fn demand_pages(&self) -> Option<&Arc<DemandPages>> {
        match self {
            Self::OnDemand(memory) => memory.pages(),
            _ => None,
        }
    }

    /// Writes the location of the memory to an entry.
    fn place(&self, entry: &mut MemoryEntry, range: &MemoryRange) {
        match self {
            Self::Application(pages) => place(entry, range, pages),
            Self::OnDemand(memory) => memory.place(entry, range),
            Self::Empty => {
                // No address is ever translated: each access of a byte is out of bounds.
                entry.word = word(|word| word.set_direct(true));
                entry.start = range.virtual_address;
                entry.length = 0;
                entry.translation = 0;
                entry.first_page_offset = 0;
            }
            Self::Device { place, .. } => {
                entry.word = word(|word| word.set_device_memory(true));
                entry.translation = *place;
            }
            Self::Null => entry.word = word(|word| word.set_null(true)),
        }
    }
}

/// Base-2 logarithm of [`PAGE_SIZE`].
const LOG_PAGE_SIZE: u8 = PAGE_SIZE.trailing_zeros() as u8;

/// Base-2 logarithms of the page sizes of a region.
struct Sizes {
    /// Whole pages of this size are mapped for the device.
    log_mapped: u8,
    /// By pages of this size the device translates addresses; `None`: by an offset.
    log_translated: Option<u8>,
}

impl Sizes {
    fn choose(
        device: &Device,
        range: &MemoryRange,
        translation: Translation,
    ) -> Result<Self, Error> {
        let page_sizes = device.limits().page_sizes;
        let is_supported = |log: u8| log < 64 && page_sizes >> log & 1 == 1;
        let bus = device.bus();
        let small = |log_translated| Self {
            log_mapped: LOG_PAGE_SIZE,
            log_translated,
        };
        let both = |log| Self {
            log_mapped: log,
            log_translated: Some(log),
        };
        Ok(match (translation, bus.region_translation()) {
            (Translation::Pages(log), _) if is_supported(log) => both(log),
            (Translation::Pages(_), _) => {
                let what = "page size of a memory region";
                return Err(Error::InvalidArgument { what });
            }
            (Translation::Direct | Translation::OnDemand, _) => small(None),
            (_, Some(RegionTranslation::Direct)) => small(None),
            (_, Some(RegionTranslation::Pages(log))) if is_supported(log) => small(Some(log)),
            (Translation::File(_), _) => small(Some(LOG_PAGE_SIZE)),
            (Translation::Kernel, _) => {
                both(bus.log_page_size(range.address, range.length, page_sizes))
            }
        })
    }
}

/// Pages of the application.
struct Pages {
    mapping: UserMapping,
    _lease: Lease,
    /// `None`: not translated.
    table: Option<TranslationRange>,
    translation: Translation,
    log_page_size: u8,
    writable: bool,
}

impl Pages {
    fn new(
        device: &Arc<Device>,
        range: &MemoryRange,
        access: MemoryAccess,
        translation: Translation,
    ) -> Result<Self, Error> {
        let sizes = Sizes::choose(device, range, translation)?;
        let dma_access = access.of_device();
        let page_sizes = PageSizes {
            memory: 1 << sizes.log_mapped,
            iova: 1 << sizes.log_translated.unwrap_or(sizes.log_mapped),
        };
        let lease = device.lease_mapping()?;
        let space = device.space();
        let file = translation.file();
        let (address, length) = (range.address, range.length);
        let mapping = UserMapping::new(space, address, length, page_sizes, dma_access, file)?;
        let table = sizes.log_translated.map(|log| {
            let pages = (mapping.length() as u64).div_ceil(1 << log);
            TranslationRange::new(device, mapping.iova(), pages, log)
        });
        Ok(Self {
            table: table.transpose()?,
            mapping,
            _lease: lease,
            translation,
            log_page_size: sizes.log_translated.unwrap_or(LOG_PAGE_SIZE),
            writable: access.writes(),
        })
    }
}

impl MemoryRegion {
    /// Registers `length` bytes at `address`. WQEs and peers address the first byte as
    /// `virtual_address`. For a region of zero bytes the memory need not exist; its keys are valid
    /// for transfers of zero bytes.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for a range that wraps around, or contradicting rights;
    /// [`Error::Bus`] when the memory does not exist; [`Error::NoResources`].
    pub fn register(
        pd: &Arc<ProtectionDomain>,
        address: usize,
        length: usize,
        virtual_address: u64,
        access: MemoryAccess,
    ) -> Result<Arc<Self>, Error> {
        let range = MemoryRange {
            address,
            length,
            virtual_address,
        };
        Self::register_translated(pd, range, access, Translation::Kernel)
    }

    /// Registers memory with a given way of address translation.
    ///
    /// # Errors
    ///
    /// As [`MemoryRegion::register`]; [`Error::InvalidArgument`] for a page size that the device
    /// does not have.
    pub fn register_translated(
        pd: &Arc<ProtectionDomain>,
        range: MemoryRange,
        access: MemoryAccess,
        translation: Translation,
    ) -> Result<Arc<Self>, Error> {
        let device = pd.device();
        check_range(device, &range, translation)?;
        check_access(access)?;
        Self::create(
            device,
            Region {
                owner: Owner::new(pd)?,
                backing: Backing::new(device, &range, access, translation)?,
                range,
                access,
            },
        )
    }

    /// Registers memory that is a mapping of `file`, from the range's first byte on at the file's
    /// offset. The mapping belongs to the caller, who keeps it until the region is deregistered;
    /// the descriptor has to be open during this call only.
    ///
    /// # Errors
    ///
    /// As [`MemoryRegion::register`].
    pub fn register_file(
        pd: &Arc<ProtectionDomain>,
        range: MemoryRange,
        file: DmaFile,
        access: MemoryAccess,
    ) -> Result<Arc<Self>, Error> {
        Self::register_translated(pd, range, access, Translation::File(file))
    }

    /// Registers `length` bytes of device memory from byte `offset` on; zero bytes are allowed.
    /// WQEs and peers address the first byte as `virtual_address`.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for a range that does not lie in the device memory,
    /// device memory of another device, or contradicting rights; [`Error::NoResources`].
    pub fn register_device_memory(
        pd: &Arc<ProtectionDomain>,
        memory: &Arc<DeviceMemory>,
        offset: u64,
        length: usize,
        virtual_address: u64,
        access: MemoryAccess,
    ) -> Result<Arc<Self>, Error> {
        let device = pd.device();
        if !Arc::ptr_eq(memory.device(), device) {
            let what = "device memory of another device";
            return Err(Error::InvalidArgument { what });
        }
        let range = MemoryRange {
            address: 0,
            length,
            virtual_address,
        };
        if virtual_address.checked_add(length as u64).is_none() {
            let what = "the memory region wraps around";
            return Err(Error::InvalidArgument { what });
        }
        check_access(access)?;
        let backing = Backing::Device {
            place: memory.place(offset, length as u64)?,
            _memory: Arc::clone(memory),
            _lease: memory.lease()?,
        };
        Self::create(
            device,
            Region {
                owner: Owner::new(pd)?,
                backing,
                range,
                access,
            },
        )
    }

    /// Registers a region without memory, for any address: writes of the device are dropped, reads
    /// return zeros. Peers cannot access it.
    ///
    /// # Errors
    ///
    /// [`Error::NoResources`], and errors of the device.
    pub fn register_null(pd: &Arc<ProtectionDomain>) -> Result<Arc<Self>, Error> {
        let device = pd.device();
        let range = MemoryRange::ALL;
        let access = MemoryAccess {
            local_write: true,
            ..MemoryAccess::default()
        };
        Self::create(
            device,
            Region {
                owner: Owner::new(pd)?,
                backing: Backing::Null,
                range,
                access,
            },
        )
    }

    fn create(device: &Arc<Device>, region: Region) -> Result<Arc<Self>, Error> {
        let key = device.create_mr(&region.entry(device.next_key_variant()))?;
        region.note_pages(device, key);
        Ok(Arc::new(Self {
            device: Arc::clone(device),
            key: AtomicU32::new(key),
            state: Mutex::new(Some(region)),
        }))
    }

    /// Returns the local key.
    pub fn lkey(&self) -> LKey {
        LKey(self.key.load(Ordering::Acquire))
    }

    /// Returns the remote key.
    pub fn rkey(&self) -> RKey {
        RKey(self.key.load(Ordering::Acquire))
    }

    /// Returns the memory; `None` when deregistered. Regions of device memory and null regions have
    /// the address zero.
    pub fn range(&self) -> Option<MemoryRange> {
        self.state.lock().as_ref().map(|region| region.range)
    }

    /// Returns the first address in this process; zero when the region has none.
    pub fn address(&self) -> usize {
        self.range().map_or(0, |range| range.address)
    }

    /// Returns the length in bytes.
    pub fn length(&self) -> usize {
        self.range().map_or(0, |range| range.length)
    }

    /// Returns what a prefetch needs; `None` when deregistered, or not on demand.
    pub fn on_demand(&self) -> Option<OnDemandMemory> {
        let state = self.state.lock();
        let region = state.as_ref()?;
        let is_on_demand = region.backing.translation() == Translation::OnDemand;
        is_on_demand.then_some(OnDemandMemory {
            pd: region.owner.pd,
            range: region.range,
            writable: region.access.writes(),
        })
    }

    /// Changes protection domain, memory and rights, or some of them, with one command. The keys
    /// stay the same, because programs have sent them to their peers.
    ///
    /// # Errors
    ///
    /// As [`MemoryRegion::register`]; [`Error::NotSupported`] for other memory of a null region or
    /// one of device memory, and for a region of a file; [`Error::Command`] while windows are bound
    /// to the region, [`Error::Destroyed`]. The region is unchanged then.
    pub fn reregister(&self, change: &Reregistration) -> Result<(), Error> {
        let mut state = self.state.lock();
        let region = state.as_mut().ok_or(Error::Destroyed)?;
        let access = change.access.unwrap_or(region.access);
        let range = change.range.unwrap_or(region.range);
        check_access(access)?;
        let owner = match &change.pd {
            Some(pd) if !Arc::ptr_eq(pd.device(), &self.device) => {
                let what = "a PD of another device";
                return Err(Error::InvalidArgument { what });
            }
            Some(pd) => Some(Owner::new(pd)?),
            None => None,
        };
        let present = region.backing.translation();
        if present.file().is_some() {
            let what = "reregistration of a mapped file";
            return Err(Error::NotSupported { what });
        }
        let translation = change.translation.unwrap_or(present);
        let is_moved = change.range.is_some() || translation != present;
        let backing = match &region.backing {
            Backing::Application(_) | Backing::OnDemand(_) | Backing::Empty if is_moved => {
                check_range(&self.device, &range, translation)?;
                Some(Backing::new(&self.device, &range, access, translation)?)
            }
            Backing::Application(pages) if access.writes() && !pages.writable => {
                Some(Backing::new(&self.device, &range, access, translation)?)
            }
            Backing::Application(_) | Backing::OnDemand(_) | Backing::Empty => None,
            Backing::Device { .. } | Backing::Null if change.range.is_some() => {
                let what = "other memory for a region without memory of the application";
                return Err(Error::NotSupported { what });
            }
            Backing::Device { .. } | Backing::Null => None,
        };
        let key = self.key.load(Ordering::Relaxed);
        let mut entry = region.entry(key.to_le_bytes()[0]);
        entry.pd = owner.as_ref().map_or(entry.pd, |owner| owner.pd);
        entry.access = access.into();
        if let Some(backing) = &backing {
            backing.place(&mut entry, &range);
        }
        let key = self.device.modify_mr(key, &entry)?;
        self.key.store(key, Ordering::Release);
        region.access = access;
        region.range = range;
        if let Some(owner) = owner {
            region.owner = owner;
        }
        if let Some(backing) = backing {
            region.backing = backing;
            region.note_pages(&self.device, key);
        }
        Ok(())
    }

    /// Brings in pages of an on-demand region: `length` bytes at `address`. Without page faults
    /// there is nothing to do for the device. Returns false if some of the memory does not exist,
    /// or does not permit the region's accesses; other regions have all their pages.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for memory outside of the region, [`Error::Destroyed`], errors of
    /// the device.
    pub fn prefetch(&self, address: usize, length: usize) -> Result<bool, Error> {
        let state = self.state.lock();
        let region = state.as_ref().ok_or(Error::Destroyed)?;
        if !region.range.contains(address, length) {
            let what = "memory outside of the region";
            return Err(Error::InvalidArgument { what });
        }
        let Some(pages) = region.backing.demand_pages().filter(|_| length > 0) else {
            return Ok(true);
        };
        let is_there = pages.prefetch(address, length);
        self.device.sync_mr(self.key.load(Ordering::Relaxed))?;
        // Other threads use the region meanwhile.
        drop(state);
        self.device.bus().wait_for_prefetch();
        Ok(is_there)
    }

    /// Deregisters the region. The device no longer accesses the memory.
    ///
    /// # Errors
    ///
    /// [`Error::Command`] (`EBUSY`) while windows are bound to it, other errors of the device,
    /// [`Error::Destroyed`] the second time.
    pub fn deregister(&self) -> Result<(), Error> {
        let mut state = self.state.lock();
        if state.is_none() {
            return Err(Error::Destroyed);
        }
        let key = self.key.load(Ordering::Relaxed);
        self.device.destroy_mr(key)?;
        self.device.dispatch().page_faults().remove(key);
        *state = None;
        Ok(())
    }
}

impl Drop for MemoryRegion {
    fn drop(&mut self) {
        match self.deregister() {
            Ok(()) | Err(Error::Destroyed) => {}
            Err(error) => {
                let key = self.lkey().0;
                tracing::warn!(key, %error, "MR not deregistered");
            }
        }
    }
}

impl Region {
    /// Lets page faults of the region with this key find its pages.
    fn note_pages(&self, device: &Device, key: u32) {
        match self.backing.demand_pages() {
            Some(pages) => {
                let pages: Weak<DemandPages> = Arc::downgrade(pages);
                device.dispatch().page_faults().add(key, pages);
            }
            None => device.dispatch().page_faults().remove(key),
        }
    }

    /// Returns the region's MPT entry, with a key of this variant.
    fn entry(&self, variant: u8) -> MemoryEntry {
        let mut entry = MemoryEntry {
            key: variant.into(),
            pd: self.owner.pd,
            access: self.access.into(),
            start: self.range.virtual_address,
            length: self.range.length as u64,
            ..MemoryEntry::default()
        };
        self.backing.place(&mut entry, &self.range);
        entry
    }
}

/// Writes the location of application pages to an entry.
fn place(entry: &mut MemoryEntry, range: &MemoryRange, pages: &Pages) {
    entry.word = word(|word| word.set_log_page_size(pages.log_page_size));
    entry.start = range.virtual_address;
    entry.length = range.length as u64;
    let offset = (range.address - pages.mapping.address()) as u64;
    match &pages.table {
        Some(table) => {
            entry.translation = table.start();
            entry.first_page_offset = offset;
        }
        None => {
            entry.word.set_direct(true);
            entry.translation = pages.mapping.iova() + offset;
            entry.first_page_offset = 0;
        }
    }
}

fn check_range(
    device: &Device,
    range: &MemoryRange,
    translation: Translation,
) -> Result<(), Error> {
    let end = range.address.checked_add(range.length);
    let virtual_end = range.virtual_address.checked_add(range.length as u64);
    if end.is_none() || virtual_end.is_none() {
        let what = "the memory region wraps around";
        return Err(Error::InvalidArgument { what });
    }
    // An implicit region has no pages in a table.
    let is_implicit = translation == Translation::OnDemand && *range == MemoryRange::ALL;
    if range.length as u64 > device.limits().max_mr_length && !is_implicit {
        let what = "the memory region is too long";
        return Err(Error::InvalidArgument { what });
    }
    Ok(())
}

fn check_access(access: MemoryAccess) -> Result<(), Error> {
    // IBTA vol 1, 10.6.3.1: a region with remote write or atomic rights must have the local write
    // right.
    if (access.remote_write || access.remote_atomic) && !access.local_write {
        let what = "remote write or atomic without local write";
        return Err(Error::InvalidArgument { what });
    }
    Ok(())
}
