//! On-demand regions: their memory is what the program has mapped at each access.
//!
//! On most buses the program's page tables serve each access, and the device knows no pages. On a
//! bus with page faults ([`Bus::page_faults`](crate::bus::Bus::page_faults)) the device has an
//! entry for each page, which is present after the first access to it.

use std::sync::Arc;

use ferroce_spec::context::{MemoryEntry, TranslationEntry};

use crate::bus::{DmaAccess, PAGE_SIZE, PageFaulting};
use crate::control::page_fault::Pages;
use crate::dma::AddressSpace;
use crate::error::Error;
use crate::objects::device::Device;
use crate::objects::memory::{MemoryRange, word};
use crate::objects::translation_range::TranslationRange;

/// An on-demand region, for prefetching.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OnDemandMemory {
    /// Number of its protection domain.
    pub pd: u32,
    /// Its memory.
    pub range: MemoryRange,
    /// True if the device may write it.
    pub writable: bool,
}

/// The memory of an on-demand region.
pub(crate) struct OnDemand {
    space: AddressSpace,
    /// `None`: the program's page tables serve each access.
    pages: Option<Arc<DemandPages>>,
}

impl OnDemand {
    /// Makes memory accessible to the device; it need not exist.
    pub(crate) fn new(
        device: &Arc<Device>,
        range: &MemoryRange,
        access: DmaAccess,
    ) -> Result<Self, Error> {
        let space = AddressSpace::new(device.space())?;
        let faulting = device.bus().page_faults();
        let faulting = faulting.filter(|_| range.length > 0);
        let pages = faulting.map(|faulting| {
            if *range == MemoryRange::ALL {
                let what = "an implicit on-demand region on this bus";
                return Err(Error::NotSupported { what });
            }
            DemandPages::new(device, &space, range, access, faulting).map(Arc::new)
        });
        Ok(Self {
            pages: pages.transpose()?,
            space,
        })
    }

    /// Returns the pages that the device knows, on a bus with page faults.
    pub(crate) fn pages(&self) -> Option<&Arc<DemandPages>> {
        self.pages.as_ref()
    }

    /// Writes the location of the memory to an entry.
    pub(crate) fn place(&self, entry: &mut MemoryEntry, range: &MemoryRange) {
        entry.start = range.virtual_address;
        match &self.pages {
            Some(pages) => {
                entry.word = word(|word| word.set_on_demand(true));
                entry.length = range.length as u64;
                entry.translation = pages.table.start();
                entry.first_page_offset = (range.address - pages.address) as u64;
            }
            None => {
                let (iova, length) = self.space.place(range.address, range.length);
                entry.word = word(|word| word.set_direct(true));
                entry.length = length;
                entry.translation = iova;
                entry.first_page_offset = 0;
            }
        }
    }
}

/// The pages of an on-demand region as the device sees them: at first, none is present.
pub(crate) struct DemandPages {
    device: Arc<Device>,
    table: TranslationRange,
    /// First page: its address, and its IOVA.
    address: usize,
    iova: u64,
    access: DmaAccess,
    faulting: PageFaulting,
}

impl DemandPages {
    fn new(
        device: &Arc<Device>,
        space: &AddressSpace,
        range: &MemoryRange,
        access: DmaAccess,
        faulting: PageFaulting,
    ) -> Result<Self, Error> {
        let address = range.address & !(PAGE_SIZE - 1);
        let length = range.address - address + range.length;
        let (iova, placed) = space.place(address, length);
        if placed < length as u64 {
            let what = "the memory region ends after the addresses of a program";
            return Err(Error::InvalidArgument { what });
        }
        Ok(Self {
            device: Arc::clone(device),
            table: TranslationRange::absent(device, length.div_ceil(PAGE_SIZE) as u64)?,
            address,
            iova,
            access,
            faulting,
        })
    }

    /// Brings in the pages of `length` bytes at `address`, which are inside of the region. Returns
    /// false if some of the memory does not exist.
    pub(crate) fn prefetch(&self, address: usize, length: usize) -> bool {
        let first = (address - self.address) / PAGE_SIZE;
        let end = (address - self.address + length).div_ceil(PAGE_SIZE);
        self.bring_in(first as u64, (end - first) as u64)
    }

    fn bring_in(&self, first: u64, count: u64) -> bool {
        let offset = first as usize * PAGE_SIZE;
        let (address, length) = (self.address + offset, count as usize * PAGE_SIZE);
        let bus = self.device.bus();
        if !bus.bring_in(address, length, self.access) {
            return false;
        }
        for page in first..first + count {
            let iova = self.iova + page * PAGE_SIZE as u64;
            self.table.set(page, TranslationEntry::new(iova));
        }
        true
    }
}

impl Pages for DemandPages {
    /// Brings in the page, and those after it that the bus says.
    fn serve(&self, page: u64) -> bool {
        let rest = self.table.length().saturating_sub(page);
        let after = self.faulting.prefetch_bytes / PAGE_SIZE as u64;
        let count = rest.min(1 + after);
        count > 0 && (self.bring_in(page, count) || count > 1 && self.bring_in(page, 1))
    }
}
