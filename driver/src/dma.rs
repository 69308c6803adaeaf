//! Memory that the device accesses by DMA.
//!
//! [`DmaBuffer`] is memory of the driver: rings, tables, mailboxes. It is accessed only as a slice
//! of atomic words, because the device changes it at any time. [`UserMapping`] is memory of the
//! application, which the driver itself never accesses.

use std::any::Any;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::bus::{BufferPages, Bus, BusError, DmaAccess, DmaFile, DmaMapping};
use crate::bus::{HUGE_PAGE_SIZE, PAGE_SIZE};
use crate::errno;
use crate::error::Error;
use crate::range::RangeAllocator;

/// The function's I/O virtual address space: its allocator, and the bus that maps it.
pub struct DmaSpace {
    bus: Arc<dyn Bus>,
    allocator: RangeAllocator,
    /// Users of the visible address space.
    address_space_users: Mutex<usize>,
    /// Last field: dropped when no memory of the space is mapped any more.
    _keeper: Option<Keeper>,
}

/// A value that must live while memory is mapped for the device; its drop reports the end.
pub type Keeper = Arc<dyn Any + Send + Sync>;

impl DmaSpace {
    /// Creates the space of the whole IOVA range of `bus`. One bus has one space: two would
    /// allocate the same IOVAs.
    pub fn new(bus: Arc<dyn Bus>) -> Arc<Self> {
        Self::kept(bus, None)
    }

    /// Like [`DmaSpace::new`], with a keeper that is dropped after the last mapping.
    pub fn kept(bus: Arc<dyn Bus>, keeper: Option<Keeper>) -> Arc<Self> {
        let range = bus.iova_range();
        // Page 0 is never used, so that an IOVA that was never set is not mapped.
        let start = range.start.max(1).next_multiple_of(PAGE_SIZE as u64);
        let end = range.end / PAGE_SIZE as u64 * PAGE_SIZE as u64;
        let allocator = RangeAllocator::new(start..end);
        Arc::new(Self {
            bus,
            allocator,
            address_space_users: Mutex::new(0),
            _keeper: keeper,
        })
    }

    /// Maps page-aligned memory at an IOVA of the allocator's choice, which is a multiple of
    /// `alignment` or congruent to its address modulo it.
    fn map(&self, mapping: DmaMapping, alignment: u64) -> Result<u64, Error> {
        let length = mapping.length as u64;
        let residue = if self.bus.has_congruent_iovas() {
            mapping.address as u64
        } else {
            0
        };
        let iova = self
            .allocator
            .allocate(length, alignment, residue)
            .ok_or(Error::NoResources { what: "IOVA space" })?;
        match self.bus.map(&DmaMapping { iova, ..mapping }) {
            Ok(()) => Ok(iova),
            Err(error) => {
                self.allocator.release(iova, length);
                Err(Error::Bus(error))
            }
        }
    }

    /// Removes a mapping. When the bus fails, the IOVA range stays reserved forever: the device may
    /// still access it.
    fn unmap(&self, iova: u64, length: usize) -> Result<(), BusError> {
        let result = self.bus.unmap(iova, length);
        match result {
            Ok(()) => self.allocator.release(iova, length as u64),
            Err(error) => tracing::warn!(iova, length, %error, "cannot unmap DMA memory"),
        }
        result
    }
}

fn alignment_for(length: usize) -> u64 {
    if length as u64 >= HUGE_PAGE_SIZE {
        HUGE_PAGE_SIZE
    } else {
        PAGE_SIZE as u64
    }
}

/// Zeroed, page-aligned memory of the driver, mapped for DMA in both directions.
pub struct DmaBuffer {
    /// First byte of `pages`.
    address: NonNull<AtomicU64>,
    length: usize,
    iova: u64,
    /// Never dropped while the device may write it.
    pages: ManuallyDrop<BufferPages>,
    space: Arc<DmaSpace>,
}

// SAFETY: the buffer is an allocation that only this value refers to, and all access to it goes
// through atomics. So it may move to and be used from any thread.
unsafe impl Send for DmaBuffer {}
// SAFETY: as for `Send`: shared references access the buffer through atomics only.
unsafe impl Sync for DmaBuffer {}

impl DmaBuffer {
    /// Creates a buffer of at least `length` bytes, rounded up to pages.
    ///
    /// # Errors
    ///
    /// [`Error::NoResources`] without memory or IOVA space, [`Error::Bus`] when it cannot be
    /// mapped.
    pub fn new(space: &Arc<DmaSpace>, length: usize) -> Result<Self, Error> {
        let no_memory = Error::NoResources { what: "memory" };
        let length = length
            .max(1)
            .checked_next_multiple_of(PAGE_SIZE)
            .ok_or(no_memory)?;
        let mut pages = space.bus.allocate(length).map_err(|error| {
            tracing::warn!(length, %error, "no memory for a buffer");
            match error {
                BusError::Os(errno::ENOMEM) => no_memory,
                error => error.into(),
            }
        })?;
        if pages.length() < length {
            return Err(no_memory);
        }
        let mapping = DmaMapping {
            iova: 0,
            address: pages.address().as_ptr() as usize,
            length,
            access: DmaAccess::ReadWrite,
            is_buffer: true,
            file: pages.file(),
        };
        let iova = space.map(mapping, alignment_for(length))?;
        pages.close_file();
        Ok(Self {
            address: pages.address(),
            length,
            iova,
            pages: ManuallyDrop::new(pages),
            space: Arc::clone(space),
        })
    }

    /// Returns the IOVA of the first byte.
    pub fn iova(&self) -> u64 {
        self.iova
    }

    /// Returns the buffer as words. The device may change any of them at any time.
    #[inline]
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the pages are aligned and valid for `length` bytes until the drop of `self`. The
        // memory was zeroed, which is a valid AtomicU64. This process accesses it through atomics
        // only; each DMA write of the device is a store of whole words by another agent.
        unsafe { std::slice::from_raw_parts(self.address.as_ptr(), self.length / 8) }
    }

    /// Stores `value` from byte `offset` on, which is a multiple of 8.
    ///
    /// # Panics
    ///
    /// When it does not fit: an error of the driver itself.
    pub fn store<T: IntoBytes + Immutable>(&self, offset: usize, value: &T) {
        let bytes = value.as_bytes();
        let words = &self.words()[offset / 8..][..bytes.len().div_ceil(8)];
        for (word, chunk) in words.iter().zip(bytes.chunks(8)) {
            let mut padded = [0; 8];
            padded[..chunk.len()].copy_from_slice(chunk);
            word.store(u64::from_le_bytes(padded), Ordering::Relaxed);
        }
    }

    /// Loads a value from byte `offset` on, which is a multiple of 8.
    ///
    /// # Panics
    ///
    /// When it does not lie inside: an error of the driver itself.
    pub fn load<T: FromBytes + IntoBytes>(&self, offset: usize) -> T {
        let mut value = T::new_zeroed();
        let bytes = value.as_mut_bytes();
        let words = &self.words()[offset / 8..][..bytes.len().div_ceil(8)];
        for (word, chunk) in words.iter().zip(bytes.chunks_mut(8)) {
            let loaded = word.load(Ordering::Relaxed).to_le_bytes();
            chunk.copy_from_slice(&loaded[..chunk.len()]);
        }
        value
    }
}

impl Drop for DmaBuffer {
    fn drop(&mut self) {
        // Memory that the device may still write is never given back to the system.
        if self.space.unmap(self.iova, self.length).is_ok() {
            // SAFETY: `pages` is dropped here only, and `self` is not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.pages) };
        }
    }
}

/// Page sizes of a mapping, powers of two.
pub(crate) struct PageSizes {
    /// Pages of this size are mapped, whole.
    pub memory: usize,
    /// The first IOVA is a multiple of this size; `memory` or more.
    pub iova: u64,
}

/// Memory of the application, mapped for DMA. The driver never accesses it. The application
/// guarantees that the memory stays mapped in the process while this value lives, as for every DMA.
pub(crate) struct UserMapping {
    /// Address of the first page in this process.
    address: usize,
    iova: u64,
    length: usize,
    space: Arc<DmaSpace>,
}

impl UserMapping {
    /// Maps the pages that hold `address .. address + length`. `file` is mapped at `address`, if
    /// that is memory of a file that another process may map; then pages have 4 KiB.
    ///
    /// # Errors
    ///
    /// As [`DmaBuffer::new`]; [`Error::InvalidArgument`] when the range is empty or wraps around.
    pub(crate) fn new(
        space: &Arc<DmaSpace>,
        address: usize,
        length: usize,
        page_sizes: PageSizes,
        access: DmaAccess,
        file: Option<DmaFile>,
    ) -> Result<Self, Error> {
        let what = "the address range is empty or wraps around";
        let invalid = Error::InvalidArgument { what };
        if length == 0 {
            return Err(invalid);
        }
        let page_size = page_sizes.memory;
        let start = address & !(page_size - 1);
        let end = address
            .checked_add(length)
            .and_then(|end| end.checked_next_multiple_of(page_size))
            .ok_or(invalid)?;
        let mapped_length = end - start;
        let alignment = alignment_for(mapped_length).max(page_sizes.iova);
        let mapping = DmaMapping {
            iova: 0,
            address: start,
            length: mapped_length,
            access,
            is_buffer: false,
            file: file.map(|file| DmaFile {
                offset: file.offset.wrapping_sub((address - start) as u64),
                ..file
            }),
        };
        let iova = space.map(mapping, alignment)?;
        Ok(Self {
            address: start,
            iova,
            length: mapped_length,
            space: Arc::clone(space),
        })
    }

    /// Returns the address of the first page in this process.
    pub(crate) fn address(&self) -> usize {
        self.address
    }

    /// Returns the IOVA of the first page.
    pub(crate) fn iova(&self) -> u64 {
        self.iova
    }

    /// Returns the number of mapped bytes: whole pages.
    pub(crate) fn length(&self) -> usize {
        self.length
    }
}

impl Drop for UserMapping {
    fn drop(&mut self) {
        // A failure has been logged; the IOVA range then stays reserved.
        self.space.unmap(self.iova, self.length).ok();
    }
}

/// The program's address space, visible to the device while any such value lives: memory of
/// on-demand regions. The driver never accesses it.
pub(crate) struct AddressSpace {
    iovas: Range<u64>,
    space: Arc<DmaSpace>,
}

impl AddressSpace {
    /// Makes the address space visible.
    ///
    /// # Errors
    ///
    /// [`Error::NotSupported`] when the bus cannot, [`Error::Bus`] when it fails.
    pub(crate) fn new(space: &Arc<DmaSpace>) -> Result<Self, Error> {
        let what = "on-demand paging on this bus";
        let iovas = space.bus.address_space();
        let iovas = iovas.ok_or(Error::NotSupported { what })?;
        let mut users = space.address_space_users.lock();
        if *users == 0 {
            space.bus.map_address_space()?;
        }
        *users += 1;
        Ok(Self {
            iovas,
            space: Arc::clone(space),
        })
    }

    /// Returns the IOVA of `address`, and how many of the `length` bytes from there on have IOVAs:
    /// what lies beyond is no address of a program.
    pub(crate) fn place(&self, address: usize, length: usize) -> (u64, u64) {
        let size = self.iovas.end - self.iovas.start;
        let offset = (address as u64).min(size);
        (
            self.iovas.start + offset,
            (length as u64).min(size - offset),
        )
    }
}

impl Drop for AddressSpace {
    fn drop(&mut self) {
        let mut users = self.space.address_space_users.lock();
        *users -= 1;
        if *users == 0 {
            if let Err(error) = self.space.bus.unmap_address_space() {
                tracing::warn!(%error, "cannot hide the address space from the device");
            }
        }
    }
}
