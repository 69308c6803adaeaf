//! The IOMMU of a function in this process: IOVA to the application's own memory.
//!
//! As behind a real IOMMU the device reaches only mapped memory, with the given rights. Unlike
//! there, the kernel does not pin pages. Pages that the application unmaps are moved before
//! (`mapping_calls` of `embed`); if that has failed, or the unmapping was not seen, a DMA access is
//! refused (`guarded`).
//!
//! A function that serves another process maps memory of three kinds: memory that both processes
//! share, which belongs to this process, too; memory of the other process that is mapped here
//! ([`MemoryMap::map_of_owner`]); and [`RemoteMemory`].
#![expect(
    unsafe_code,
    reason = "DMA copies from and to addresses that the driver mapped"
)]

use std::collections::BTreeMap;
use std::ops::{Bound, Range, RangeInclusive};
use std::sync::Arc;

use ferroce_model::ports::host::{DmaAtomic, DmaError};
pub use lost::OwnMemory;
pub use moved::NewPlace;
pub use remote::RemoteMemory;
use remote::RemoteRegion;
use scattered::Access;
use zerocopy::IntoBytes;

use crate::prefetch::{LINE_BYTES, line_to_read, line_to_write};

mod address_space;
mod copy;
pub mod guarded;
mod lost;
mod moved;
mod remote;
mod scattered;

/// Cache lines of regions, indexed by the page of their last use.
const CACHE_LINES: usize = 256;
const CACHE_PAGE_SHIFT: u32 = 12;
/// Bytes that are prefetched at a time: a packet. For longer copies the processor prefetches
/// itself.
const PREFETCHED: RangeInclusive<usize> = 256..=4096;
/// The physical address of a mapping as large as this is a multiple of it.
const HUGE_PAGE: u64 = 2 << 20;

/// The device's rights to a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rights {
    /// DMA reads only.
    Read,
    /// DMA writes only.
    Write,
    /// Both.
    ReadWrite,
}

impl Rights {
    /// Returns true if the device may read.
    #[must_use]
    pub fn allow_read(self) -> bool {
        self != Self::Write
    }

    /// Returns true if the device may write.
    #[must_use]
    pub fn allow_write(self) -> bool {
        self != Self::Read
    }
}

/// A kind of change of the mappings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapChange {
    /// Mappings are added.
    Addition,
    /// Mappings are removed.
    Removal,
}

/// Reason why a mapping was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    /// Empty, at address 0, or around the end of an address space.
    #[error("the range is empty or not inside the address space")]
    BadRange,
    /// Some IOVA of it is mapped already.
    #[error("a part of the IOVA range is mapped already")]
    Overlap,
    /// No mapping has exactly this range.
    #[error("no mapping has this range")]
    NotMapped,
}

/// Reason why a range was not unmapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnmapError {
    /// Nothing is mapped there.
    #[error("nothing is mapped in this range")]
    NotMapped,
    /// It begins or ends inside a mapping.
    #[error("the range would cut a mapping in two")]
    Cut,
}

/// Location of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Address in the process that owns the memory, another one in every run.
    pub address: usize,
    /// Address in a machine whose memory is filled mapping by mapping: the same in every run.
    pub physical: u64,
    /// True for memory of another process, mapped here or not; `address` is then that process's
    /// address.
    pub is_remote: bool,
}

/// A mapped range: IOVAs `start..end`, memory from `address` on.
#[derive(Debug, Clone, Copy)]
struct Region {
    start: u64,
    end: u64,
    address: usize,
    /// Address in its owner; the same if it is memory of this process.
    owner_address: usize,
    physical: u64,
    readable: bool,
    writable: bool,
    is_remote: bool,
    /// True if nothing is pinned: the program's page tables decide at each access what is there.
    is_on_demand: bool,
    /// True if its location is that of its pieces.
    is_moved: bool,
    /// True if the application has removed rights from some of its memory, which a card would not
    /// notice.
    is_forced: bool,
    /// True if the loss of its memory was reported.
    has_reported_loss: bool,
}

impl Region {
    const NONE: Self = Self {
        start: 0,
        end: 0,
        address: 0,
        owner_address: 0,
        physical: 0,
        readable: false,
        writable: false,
        is_remote: false,
        is_on_demand: false,
        is_moved: false,
        is_forced: false,
        has_reported_loss: false,
    };

    /// Returns its addresses in this process.
    fn addresses(&self) -> Range<usize> {
        self.address..self.address + (self.end - self.start) as usize
    }

    /// Returns the offset of `iova` in the region, if all of `length` bytes are inside.
    #[inline]
    fn offset(&self, iova: u64, length: usize) -> Option<usize> {
        let offset = iova.wrapping_sub(self.start);
        let size = self.end - self.start;
        (offset < size && length as u64 <= size - offset).then_some(offset as usize)
    }

    /// Returns the address in this process for `iova`, if all of `length` bytes are inside.
    #[inline]
    fn resolve(&self, iova: u64, length: usize) -> Option<usize> {
        let offset = self.offset(iova, length)?;
        Some(self.address + offset)
    }

    /// Returns the location of `iova`, if all of `length` bytes are inside.
    #[inline]
    fn place(&self, iova: u64, length: usize) -> Option<Place> {
        let offset = self.offset(iova, length)?;
        Some(Place {
            address: self.owner_address + offset,
            physical: self.physical + offset as u64,
            is_remote: self.is_remote,
        })
    }
}

/// The map, and the DMA accesses through it.
#[derive(Debug)]
pub struct MemoryMap {
    regions: BTreeMap<u64, Region>,
    remote: BTreeMap<u64, RemoteRegion>,
    moved: moved::Moved,
    cache: Box<[Region; CACHE_LINES]>,
    /// The way to memory from which the program has removed its rights.
    own: Option<Arc<dyn OwnMemory>>,
    /// Physical address of the next mapping.
    next_physical: u64,
    /// Where new mappings lie: bits of their physical addresses.
    target: u64,
}

impl Default for MemoryMap {
    fn default() -> Self {
        guarded::prepare();
        Self {
            regions: BTreeMap::new(),
            remote: BTreeMap::new(),
            moved: moved::Moved::default(),
            cache: Box::new([Region::NONE; CACHE_LINES]),
            own: None,
            next_physical: 0,
            target: 0,
        }
    }
}

impl MemoryMap {
    /// Creates an empty map of a process that may remove rights from memory that it has mapped.
    #[must_use]
    pub fn of_process(own: Arc<dyn OwnMemory>) -> Self {
        Self {
            own: Some(own),
            ..Self::default()
        }
    }

    /// Gives the device access to memory of this process.
    ///
    /// The caller guarantees what a driver guarantees to a real IOMMU: the memory stays mapped,
    /// with the protection that `rights` need, until [`Self::unmap`] returns.
    ///
    /// # Errors
    /// [`MapError::BadRange`], [`MapError::Overlap`].
    pub fn map(
        &mut self,
        iova: u64,
        address: usize,
        length: u64,
        rights: Rights,
    ) -> Result<(), MapError> {
        self.insert(iova, address, length, rights, None)
    }

    /// Does the same as [`Self::map`] for memory of another process, which has it at
    /// `owner_address`.
    ///
    /// # Errors
    /// [`MapError::BadRange`], [`MapError::Overlap`].
    pub fn map_of_owner(
        &mut self,
        iova: u64,
        address: usize,
        owner_address: usize,
        length: u64,
        rights: Rights,
    ) -> Result<(), MapError> {
        self.insert(iova, address, length, rights, Some(owner_address))
    }

    /// Adds a mapping. `owner_address`: the address of the memory in the process that owns it;
    /// `None`: this process owns it.
    fn insert(
        &mut self,
        iova: u64,
        address: usize,
        length: u64,
        rights: Rights,
        owner_address: Option<usize>,
    ) -> Result<(), MapError> {
        let is_remote = owner_address.is_some();
        let owner_address = owner_address.unwrap_or(address);
        let end = iova.checked_add(length).ok_or(MapError::BadRange)?;
        let size = usize::try_from(length).map_err(|_| MapError::BadRange)?;
        let is_range = |start: usize| {
            let end = start.checked_add(size);
            start != 0 && end.is_some_and(|end| isize::try_from(end).is_ok())
        };
        if length == 0 || !is_range(address) || !is_range(owner_address) {
            return Err(MapError::BadRange);
        }
        if self.is_mapped(iova, end) {
            return Err(MapError::Overlap);
        }
        let readable = rights.allow_read();
        let writable = rights.allow_write();
        let region = Region {
            start: iova,
            end,
            address,
            owner_address,
            physical: self.next_physical(length),
            readable,
            writable,
            is_remote,
            ..Region::NONE
        };
        self.regions.insert(iova, region);
        Ok(())
    }

    /// Returns the physical address of a new mapping.
    fn next_physical(&mut self, length: u64) -> u64 {
        let alignment = match length {
            ..HUGE_PAGE => 1 << CACHE_PAGE_SHIFT,
            _ => HUGE_PAGE,
        };
        // The address of a removed mapping is not used again: 64 bits are enough for that.
        let next = self.next_physical.saturating_add(length);
        let next = next.checked_next_multiple_of(alignment).unwrap_or(next);
        self.target | std::mem::replace(&mut self.next_physical, next)
    }

    /// Lets mappings from now on lie in a target of the machine: `bits` of their physical
    /// addresses.
    pub fn set_target(&mut self, bits: u64) {
        self.target = bits;
    }

    /// Gives the device access to memory that this process cannot map: `memory` from `offset` on.
    ///
    /// Each access costs what `memory` takes for it, and atomic operations are atomic only towards
    /// this device.
    ///
    /// # Errors
    /// [`MapError::BadRange`], [`MapError::Overlap`].
    pub fn map_remote(
        &mut self,
        iova: u64,
        length: u64,
        rights: Rights,
        memory: Arc<dyn RemoteMemory>,
        offset: u64,
    ) -> Result<(), MapError> {
        let end = iova.checked_add(length).ok_or(MapError::BadRange)?;
        offset.checked_add(length).ok_or(MapError::BadRange)?;
        if length == 0 {
            return Err(MapError::BadRange);
        }
        if self.is_mapped(iova, end) {
            return Err(MapError::Overlap);
        }
        let region = RemoteRegion {
            start: iova,
            end,
            offset,
            physical: self.next_physical(length),
            memory,
            readable: rights.allow_read(),
            writable: rights.allow_write(),
        };
        self.remote.insert(iova, region);
        Ok(())
    }

    /// Returns true if any IOVA of `start..end` is mapped.
    fn is_mapped(&self, start: u64, end: u64) -> bool {
        let local = self.regions.range(..end).next_back();
        let remote = self.remote.range(..end).next_back();
        local.is_some_and(|(_, region)| region.end > start)
            || remote.is_some_and(|(_, region)| region.end > start)
    }

    /// Removes all mappings in a range, of either kind.
    ///
    /// # Errors
    /// [`UnmapError`]; nothing is changed then.
    pub fn unmap_range(&mut self, iova: u64, length: u64) -> Result<(), UnmapError> {
        let end = iova.checked_add(length).ok_or(UnmapError::NotMapped)?;
        let local = self.regions.range(..end).map(|(start, r)| (*start, r.end));
        let remote = self.remote.range(..end).map(|(start, r)| (*start, r.end));
        // Mappings do not overlap: from the end backwards, until one ends before the range.
        let in_range = |(_, region_end): &(u64, u64)| *region_end > iova;
        let local: Vec<_> = local.rev().take_while(in_range).collect();
        let remote: Vec<_> = remote.rev().take_while(in_range).collect();
        let mut all = local.iter().chain(&remote).peekable();
        all.peek().ok_or(UnmapError::NotMapped)?;
        if all.any(|(start, region_end)| *start < iova || *region_end > end) {
            return Err(UnmapError::Cut);
        }
        for (start, _) in local {
            self.regions.remove(&start);
        }
        for (start, _) in remote {
            self.remote.remove(&start);
        }
        self.moved.forget(&(iova..end));
        for line in self.cache.iter_mut() {
            if line.start < end && line.end > iova {
                *line = Region::NONE;
            }
        }
        Ok(())
    }

    /// Removes all mappings.
    pub fn unmap_all(&mut self) {
        self.regions.clear();
        self.remote.clear();
        self.moved.clear();
        self.cache.fill(Region::NONE);
    }

    /// Removes a mapping; the range must be one that was mapped.
    ///
    /// # Errors
    /// [`MapError::NotMapped`].
    pub fn unmap(&mut self, iova: u64, length: u64) -> Result<(), MapError> {
        let found = self.regions.get(&iova);
        if found.is_none_or(|region| region.end - region.start != length) {
            return Err(MapError::NotMapped);
        }
        self.regions.remove(&iova);
        if self.has_moved() {
            self.moved.forget(&(iova..iova + length));
        }
        for line in self.cache.iter_mut().filter(|line| line.start == iova) {
            *line = Region::NONE;
        }
        Ok(())
    }

    /// Returns the address at which the memory was mapped from `iova` on.
    pub fn address(&self, iova: u64) -> Option<usize> {
        self.regions.get(&iova).map(|region| region.owner_address)
    }

    /// Returns the address in this process of `length` bytes at `iova`, if they may be read.
    ///
    /// # Errors
    /// [`DmaError`] if not all of it is mapped here for reading.
    #[inline]
    fn readable(&mut self, iova: u64, length: usize) -> Result<usize, DmaError> {
        let line = &self.cache[cache_index(iova)];
        match line.resolve(iova, length) {
            Some(address) if line.readable => Ok(address),
            _ => self.look_up(iova, length, Access::Read, Region::resolve),
        }
    }

    /// Returns the address in this process of `length` bytes at `iova`, if they may be written.
    ///
    /// # Errors
    /// [`DmaError`] if not all of it is mapped here for writing.
    #[inline]
    fn writable(&mut self, iova: u64, length: usize) -> Result<usize, DmaError> {
        let line = &self.cache[cache_index(iova)];
        match line.resolve(iova, length) {
            Some(address) if line.writable => Ok(address),
            _ => self.look_up(iova, length, Access::Write, Region::resolve),
        }
    }

    /// Returns the location of `length` bytes at `iova`, of any kind of memory, if they may be
    /// read. An access over the end of a mapping has the location of its start.
    ///
    /// # Errors
    /// [`DmaError`] if not all of it is mapped for reading.
    #[inline]
    pub fn place_to_read(&mut self, iova: u64, length: usize) -> Result<Place, DmaError> {
        let line = &self.cache[cache_index(iova)];
        match line.place(iova, length) {
            Some(place) if line.readable => Ok(place),
            _ => self.find_place(iova, length, Access::Read),
        }
    }

    /// Does the same as [`Self::place_to_read`] for a write.
    ///
    /// # Errors
    /// [`DmaError`] if not all of it is mapped for writing.
    #[inline]
    pub fn place_to_write(&mut self, iova: u64, length: usize) -> Result<Place, DmaError> {
        let line = &self.cache[cache_index(iova)];
        match line.place(iova, length) {
            Some(place) if line.writable => Ok(place),
            _ => self.find_place(iova, length, Access::Write),
        }
    }

    #[cold]
    fn find_place(&mut self, iova: u64, length: usize, access: Access) -> Result<Place, DmaError> {
        let place = self.look_up(iova, length, access, Region::place);
        place.or_else(|error| self.place_of(iova, length, access).ok_or(error))
    }

    #[cold]
    fn look_up<T>(
        &mut self,
        iova: u64,
        length: usize,
        access: Access,
        resolve: impl FnOnce(&Region, u64, usize) -> Option<T>,
    ) -> Result<T, DmaError> {
        let below = (Bound::Unbounded, Bound::Included(iova));
        let region = self
            .regions
            .range(below)
            .next_back()
            .map(|(_, region)| *region);
        let region = region.filter(|region| match access {
            Access::Read => region.readable && !region.is_moved,
            Access::Write => region.writable && !region.is_moved,
        });
        let region = region.ok_or(DmaError::refused(iova, length))?;
        let found = resolve(&region, iova, length).ok_or(DmaError::refused(iova, length))?;
        self.cache[cache_index(iova)] = region;
        Ok(found)
    }

    /// Copies from the application's memory.
    ///
    /// # Errors
    /// [`DmaError`] if not all of it is mapped for reading.
    #[inline]
    pub fn read(&mut self, iova: u64, destination: &mut [u8]) -> Result<(), DmaError> {
        if destination.is_empty() {
            return Ok(());
        }
        let Ok(address) = self.readable(iova, destination.len()) else {
            return self.read_scattered(iova, destination);
        };
        // The next packet may be built from the following bytes.
        let length = destination.len();
        self.prefetch(iova..iova + length as u64, length, line_to_read);
        let address = address as *const u8;
        // SAFETY: the caller of `map` guarantees that the range is readable memory, and the
        // destination is a separate slice. The application may write at the same time, as during a
        // real DMA read; the copy is then a mixture, which nothing here interprets. If the
        // guarantee is broken, the guarded copy returns a fault.
        let copied = unsafe { guarded::copy(destination.as_mut_ptr(), address, length) };
        match copied {
            Ok(()) => Ok(()),
            Err(guarded::Fault) => self.read_again(iova, destination),
        }
    }

    /// Prefetches memory to which `length` bytes will be written soon.
    #[inline]
    pub fn expect_write(&self, iova: u64, length: usize) {
        self.prefetch(iova..iova, length, line_to_write);
    }

    /// Prefetches `length` bytes behind a range, if all of them are in a recently used mapping.
    #[inline]
    fn prefetch(&self, iovas: Range<u64>, length: usize, prefetch: impl Fn(usize)) {
        if !PREFETCHED.contains(&length) {
            return;
        }
        let line = &self.cache[cache_index(iovas.start)];
        let before = (iovas.end - iovas.start) as usize;
        if let Some(start) = line.resolve(iovas.start, before + length) {
            for at in (before..before + length).step_by(LINE_BYTES) {
                prefetch(start + at);
            }
        }
    }

    /// Copies into the application's memory, the last bytes last: programs poll the last byte of a
    /// buffer to detect an RDMA WRITE.
    ///
    /// # Errors
    /// [`DmaError`] if not all of it is mapped for writing.
    #[inline]
    pub fn write(&mut self, iova: u64, source: &[u8]) -> Result<(), DmaError> {
        if source.is_empty() {
            return Ok(());
        }
        let Ok(address) = self.writable(iova, source.len()) else {
            return self.write_scattered(iova, source);
        };
        // SAFETY: the caller of `map` guarantees that the range is writable memory. The source is a
        // frame or a buffer of the model, never that memory. See `read` about broken guarantees.
        match unsafe { store_all(address as *mut u8, source) } {
            Ok(()) => Ok(()),
            Err(guarded::Fault) => self.write_again(iova, source),
        }
    }

    /// Stores 64-bit words one after the other, the last one with release semantics.
    ///
    /// # Errors
    /// [`DmaError`] if the range is not mapped for writing, or not aligned to 8 bytes.
    #[inline]
    pub fn write_descriptor(&mut self, iova: u64, words: &[u64]) -> Result<(), DmaError> {
        let refused = DmaError::refused(iova, size_of_val(words));
        if words.is_empty() {
            return Ok(());
        }
        let Ok(address) = self.writable(iova, size_of_val(words)) else {
            return self.write_descriptor_scattered(iova, words);
        };
        if address % 8 != 0 {
            return Err(refused);
        }
        // SAFETY: `address` is mapped and writable (see `write`), aligned, and all words are inside
        // the range.
        match unsafe { guarded::store_words(address as *mut u64, words) } {
            Ok(()) => Ok(()),
            Err(guarded::Fault) => self.write_again(iova, words.as_bytes()),
        }
    }

    /// Changes eight bytes of the application's memory by one instruction, so that it is atomic
    /// with accesses of the application's threads and of other devices. In [`RemoteMemory`] it is a
    /// read and a write.
    ///
    /// # Errors
    /// [`DmaError`] if they are not mapped for reading and writing, or not aligned.
    pub fn atomic(&mut self, iova: u64, operation: DmaAtomic) -> Result<u64, DmaError> {
        const LENGTH: usize = size_of::<u64>();
        let refused = DmaError::refused(iova, LENGTH);
        let readable = self.readable(iova, LENGTH);
        let (Ok(_), Ok(address)) = (readable, self.writable(iova, LENGTH)) else {
            return self.atomic_elsewhere(iova, operation);
        };
        if address % LENGTH != 0 {
            return Err(refused);
        }
        let changed = change(address, operation);
        changed.map_err(|guarded::Fault| self.report_loss(iova, LENGTH, Access::Write))
    }
}

/// Changes eight bytes, mapped for reading and writing and aligned, by one instruction.
fn change(address: usize, operation: DmaAtomic) -> Result<u64, guarded::Fault> {
    let word = address as *mut u64;
    // SAFETY: the caller passes an aligned address that is mapped for reading and writing. See
    // `MemoryMap::read` about broken guarantees.
    unsafe {
        match operation {
            DmaAtomic::FetchAdd { add } => guarded::fetch_add(word, add),
            DmaAtomic::CompareSwap { compare, swap } => guarded::compare_swap(word, compare, swap),
        }
    }
}

/// Copies out of a region, from `iova` on. All of it is inside and may be read.
fn copy_out(region: &Region, iova: u64, destination: &mut [u8]) -> Result<(), guarded::Fault> {
    let length = destination.len();
    let address = region.resolve(iova, length).ok_or(guarded::Fault)?;
    // SAFETY: the contract of `guarded::copy`: the destination is a valid slice, and the region is
    // inside of what `map`'s caller guarantees.
    unsafe { guarded::copy(destination.as_mut_ptr(), address as *const u8, length) }
}

/// Copies into a region, from `iova` on. All of it is inside and may be written.
fn copy_in(region: &Region, iova: u64, source: &[u8]) -> Result<(), guarded::Fault> {
    let address = region.resolve(iova, source.len()).ok_or(guarded::Fault)?;
    // SAFETY: the contract of `store_all`: the source is a valid slice, and the region is inside of
    // what `map`'s caller guarantees.
    unsafe { store_all(address as *mut u8, source) }
}

/// Copies from one range, mapped for reading, to another one, mapped for writing. They do not
/// overlap.
fn copy_across(to: usize, from: usize, length: usize) -> Result<(), guarded::Fault> {
    // SAFETY: the contract of `guarded::copy`: both ranges are inside of what `map`'s callers
    // guarantee. See `MemoryMap::read` about the application and about broken guarantees.
    unsafe { guarded::copy(to as *mut u8, from as *const u8, length) }
}

/// Stores at least one byte, the last ones last and by one store.
///
/// # Safety
/// The contract of [`guarded::copy_and_store`].
#[inline]
unsafe fn store_all(address: *mut u8, source: &[u8]) -> Result<(), guarded::Fault> {
    let head = tail_start(address as usize, source.len());
    let tail = source.len() - head;
    // SAFETY: the caller keeps the contract of `copy_and_store`; `tail_start` chose a length to
    // which the end, and so the start of the tail, is aligned.
    unsafe { guarded::copy_and_store(address, source.as_ptr(), head, tail) }
}

#[inline]
fn cache_index(iova: u64) -> usize {
    (iova >> CACHE_PAGE_SHIFT) as usize % CACHE_LINES
}

/// Returns the start of the part that one aligned store can write: 8, 4, 2 or 1 bytes before the
/// end.
#[inline]
fn tail_start(address: usize, length: usize) -> usize {
    let alignment = 1 << (address + length).trailing_zeros().min(3);
    if alignment <= length {
        return length - alignment;
    }
    // Shorter than its alignment: 1 to 7 bytes whose end is aligned.
    length - (1 << length.ilog2())
}

#[cfg(test)]
mod tests;
