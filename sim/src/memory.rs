//! The IOMMU of a function in this process: IOVA to the application's own memory.
//!
//! As behind a real IOMMU the device reaches only what was mapped, with the rights that were
//! given. Unlike there, pages are not pinned: memory that the application unmaps while it is
//! still registered is gone, and a DMA access to it ends as the application's own access would.
#![expect(
    unsafe_code,
    reason = "DMA copies from and to addresses that the driver mapped"
)]

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

use ferroce_model::host::{DmaAtomic, DmaError};

/// Regions remembered by the page in which they were last used.
const CACHE_LINES: usize = 256;
const CACHE_PAGE_SHIFT: u32 = 12;
/// What lies behind a mapping as large as this begins at a multiple of it.
const HUGE_PAGE: u64 = 2 << 20;

/// What the device may do with a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    /// DMA reads only.
    Read,
    /// DMA writes only.
    Write,
    /// Both.
    ReadWrite,
}

impl Rights {
    fn allow_read(self) -> bool {
        self != Self::Write
    }

    fn allow_write(self) -> bool {
        self != Self::Read
    }
}

/// Why a mapping was refused.
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

/// Where an access goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Address in this process, another one in every run.
    pub address: usize,
    /// Address in a machine whose memory is filled mapping by mapping: the same in every run.
    pub physical: u64,
}

/// A mapped range: IOVAs `start..end`, memory from `address` on.
#[derive(Debug, Clone, Copy)]
struct Region {
    start: u64,
    end: u64,
    address: usize,
    physical: u64,
    readable: bool,
    writable: bool,
}

impl Region {
    const NONE: Self = Self {
        start: 0,
        end: 0,
        address: 0,
        physical: 0,
        readable: false,
        writable: false,
    };

    /// The memory behind `iova`, if all of `length` bytes are inside.
    #[inline]
    fn resolve(&self, iova: u64, length: usize) -> Option<Place> {
        let offset = iova.wrapping_sub(self.start);
        let size = self.end - self.start;
        (offset < size && length as u64 <= size - offset).then(|| Place {
            address: self.address + offset as usize,
            physical: self.physical + offset,
        })
    }
}

/// The map, and the DMA accesses through it.
#[derive(Debug)]
pub struct MemoryMap {
    regions: BTreeMap<u64, Region>,
    cache: Box<[Region; CACHE_LINES]>,
    /// Where the next mapping begins in physical memory.
    next_physical: u64,
}

impl Default for MemoryMap {
    fn default() -> Self {
        Self {
            regions: BTreeMap::new(),
            cache: Box::new([Region::NONE; CACHE_LINES]),
            next_physical: 0,
        }
    }
}

impl MemoryMap {
    /// Gives the device access to memory of this process.
    ///
    /// The caller promises what a driver promises to a real IOMMU: the memory stays mapped, with
    /// the protection that `rights` need, until [`Self::unmap`] returns.
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
        let end = iova.checked_add(length).ok_or(MapError::BadRange)?;
        let size = usize::try_from(length).map_err(|_| MapError::BadRange)?;
        let last = address.checked_add(size).ok_or(MapError::BadRange)?;
        if length == 0 || address == 0 || isize::try_from(last).is_err() {
            return Err(MapError::BadRange);
        }
        let before = self.regions.range(..end).next_back();
        if before.is_some_and(|(_, region)| region.end > iova) {
            return Err(MapError::Overlap);
        }
        let readable = rights.allow_read();
        let writable = rights.allow_write();
        let region = Region {
            start: iova,
            end,
            address,
            physical: self.next_physical,
            readable,
            writable,
        };
        let alignment = match length {
            ..HUGE_PAGE => 1 << CACHE_PAGE_SHIFT,
            _ => HUGE_PAGE,
        };
        // A mapping goes, its place does not come again: 64 bits are enough for that.
        let next = self.next_physical.saturating_add(length);
        self.next_physical = next.checked_next_multiple_of(alignment).unwrap_or(next);
        self.regions.insert(iova, region);
        Ok(())
    }

    /// Takes the device's access away; the range must be one that was mapped.
    ///
    /// # Errors
    /// [`MapError::NotMapped`].
    pub fn unmap(&mut self, iova: u64, length: u64) -> Result<(), MapError> {
        let found = self.regions.get(&iova);
        if found.is_none_or(|region| region.end - region.start != length) {
            return Err(MapError::NotMapped);
        }
        self.regions.remove(&iova);
        for line in self.cache.iter_mut().filter(|line| line.start == iova) {
            *line = Region::NONE;
        }
        Ok(())
    }

    /// Where `length` bytes at `iova` are, if they may be read.
    ///
    /// # Errors
    /// [`DmaError`] if not all of it is mapped for reading.
    #[inline]
    pub fn readable(&mut self, iova: u64, length: usize) -> Result<Place, DmaError> {
        let line = &self.cache[cache_index(iova)];
        match line.resolve(iova, length) {
            Some(place) if line.readable => Ok(place),
            _ => self.look_up(iova, length, |region| region.readable),
        }
    }

    /// Where `length` bytes at `iova` are, if they may be written.
    ///
    /// # Errors
    /// [`DmaError`] if not all of it is mapped for writing.
    #[inline]
    pub fn writable(&mut self, iova: u64, length: usize) -> Result<Place, DmaError> {
        let line = &self.cache[cache_index(iova)];
        match line.resolve(iova, length) {
            Some(place) if line.writable => Ok(place),
            _ => self.look_up(iova, length, |region| region.writable),
        }
    }

    #[cold]
    fn look_up(
        &mut self,
        iova: u64,
        length: usize,
        has_right: impl FnOnce(&Region) -> bool,
    ) -> Result<Place, DmaError> {
        let below = (Bound::Unbounded, Bound::Included(iova));
        let region = self
            .regions
            .range(below)
            .next_back()
            .map(|(_, region)| *region);
        let region = region.filter(has_right).ok_or(DmaError { iova, length })?;
        let place = region
            .resolve(iova, length)
            .ok_or(DmaError { iova, length })?;
        self.cache[cache_index(iova)] = region;
        Ok(place)
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
        let address = self.readable(iova, destination.len())?.address as *const u8;
        // SAFETY: `map`'s caller promised that the range is readable memory, and the destination
        // is ours. The application may write at the same time, as it may during a real DMA read;
        // what is then copied is a mixture, which nothing here interprets.
        unsafe {
            std::ptr::copy_nonoverlapping(address, destination.as_mut_ptr(), destination.len());
        }
        Ok(())
    }

    /// Copies into the application's memory, the last bytes last: programs watch the last byte
    /// of a buffer to see an RDMA WRITE arrive.
    ///
    /// # Errors
    /// [`DmaError`] if not all of it is mapped for writing.
    #[inline]
    pub fn write(&mut self, iova: u64, source: &[u8]) -> Result<(), DmaError> {
        if source.is_empty() {
            return Ok(());
        }
        let address = self.writable(iova, source.len())?.address as *mut u8;
        let (head, tail) = source.split_at(tail_start(address as usize, source.len()));
        // SAFETY: `map`'s caller promised that the range is writable memory; the two parts lie
        // inside it. The source is a frame or a buffer of the model, never that memory.
        unsafe {
            std::ptr::copy_nonoverlapping(head.as_ptr(), address, head.len());
            store_last(address.add(head.len()), tail);
        }
        Ok(())
    }

    /// Stores 64-bit words one after the other, the last one with release semantics.
    ///
    /// # Errors
    /// [`DmaError`] if the range is not mapped for writing, or not aligned to 8 bytes.
    #[inline]
    pub fn write_descriptor(&mut self, iova: u64, words: &[u64]) -> Result<(), DmaError> {
        let refused = DmaError {
            iova,
            length: size_of_val(words),
        };
        let Some((last, first)) = words.split_last() else {
            return Ok(());
        };
        let address = self.writable(iova, size_of_val(words))?.address;
        if address % 8 != 0 {
            return Err(refused);
        }
        let base = address as *mut u64;
        for (index, word) in first.iter().enumerate() {
            // SAFETY: mapped, writable (see `write`), aligned, and inside the range.
            unsafe { AtomicU64::from_ptr(base.add(index)) }.store(*word, Ordering::Relaxed);
        }
        // SAFETY: as above.
        unsafe { AtomicU64::from_ptr(base.add(first.len())) }.store(*last, Ordering::Release);
        Ok(())
    }

    /// Changes eight bytes of the application's memory by an instruction of this processor, so
    /// that it is atomic with what the application's threads and other devices do to them.
    ///
    /// # Errors
    /// [`DmaError`] if they are not mapped for reading and writing, or not aligned.
    pub fn atomic(&mut self, iova: u64, operation: DmaAtomic) -> Result<u64, DmaError> {
        const LENGTH: usize = size_of::<u64>();
        let refused = DmaError {
            iova,
            length: LENGTH,
        };
        self.readable(iova, LENGTH)?;
        let address = self.writable(iova, LENGTH)?.address;
        if address % LENGTH != 0 {
            return Err(refused);
        }
        // SAFETY: mapped, readable and writable (see `write`), and aligned.
        let word = unsafe { AtomicU64::from_ptr(address as *mut u64) };
        Ok(match operation {
            DmaAtomic::FetchAdd { add } => word.fetch_add(add, Ordering::SeqCst),
            DmaAtomic::CompareSwap { compare, swap } => word
                .compare_exchange(compare, swap, Ordering::SeqCst, Ordering::SeqCst)
                .unwrap_or_else(|original| original),
        })
    }
}

#[inline]
fn cache_index(iova: u64) -> usize {
    (iova >> CACHE_PAGE_SHIFT) as usize % CACHE_LINES
}

/// Where the part begins that one aligned store can write: 8, 4, 2 or 1 bytes before the end.
#[inline]
fn tail_start(address: usize, length: usize) -> usize {
    let alignment = 1 << (address + length).trailing_zeros().min(3);
    if alignment <= length {
        return length - alignment;
    }
    // Shorter than its alignment: 1 to 7 bytes whose end is aligned.
    length - (1 << length.ilog2())
}

/// Stores 1, 2, 4 or 8 bytes after everything stored before.
///
/// # Safety
/// `address` must be valid for writes of `bytes.len()` bytes.
#[inline]
unsafe fn store_last(address: *mut u8, bytes: &[u8]) {
    // SAFETY: valid by this function's contract; `tail_start` chose a length to which the end,
    // and so the start, is aligned. Others may read these bytes meanwhile: hence atomics.
    unsafe {
        match *bytes {
            [a] => AtomicU8::from_ptr(address).store(a, Ordering::Release),
            [a, b] => AtomicU16::from_ptr(address.cast())
                .store(u16::from_ne_bytes([a, b]), Ordering::Release),
            [a, b, c, d] => AtomicU32::from_ptr(address.cast())
                .store(u32::from_ne_bytes([a, b, c, d]), Ordering::Release),
            [a, b, c, d, e, f, g, h] => AtomicU64::from_ptr(address.cast()).store(
                u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
                Ordering::Release,
            ),
            _ => {
                fence(Ordering::Release);
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), address, bytes.len());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IOVA: u64 = 0x10_0000;

    /// 8-byte aligned memory and its address.
    fn memory(words: usize) -> (Vec<AtomicU64>, usize) {
        let memory: Vec<AtomicU64> = (0..words).map(|_| AtomicU64::new(0)).collect();
        let address = memory.as_ptr().expose_provenance();
        (memory, address)
    }

    #[test]
    fn every_length_and_alignment_arrives_whole() {
        let (target, address) = memory(8);
        let mut map = MemoryMap::default();
        map.map(IOVA, address, 64, Rights::ReadWrite).expect("free");
        let pattern: Vec<u8> = (1..=64).collect();
        for offset in 0..16 {
            for length in 0..=48 {
                for word in &target {
                    word.store(0, Ordering::Relaxed);
                }
                map.write(IOVA + offset, &pattern[..length])
                    .expect("mapped");
                let mut all = [0xff; 64];
                map.read(IOVA, &mut all).expect("mapped");
                let start = offset as usize;
                assert_eq!(all[start..start + length], pattern[..length]);
                assert!(
                    all[..start]
                        .iter()
                        .chain(&all[start + length..])
                        .all(|b| *b == 0)
                );
            }
        }
    }

    #[test]
    fn bounds_and_rights_are_kept() {
        let (_target, address) = memory(8);
        let mut map = MemoryMap::default();
        map.map(IOVA, address, 32, Rights::Read).expect("free");
        map.map(IOVA + 32, address + 32, 32, Rights::Write)
            .expect("free");
        let mut byte = [0];
        assert!(map.read(IOVA + 31, &mut byte).is_ok());
        assert!(map.read(IOVA + 32, &mut byte).is_err(), "write only");
        assert!(map.write(IOVA, &byte).is_err(), "read only");
        assert!(map.write(IOVA + 63, &byte).is_ok());
        assert!(map.write(IOVA + 64, &byte).is_err(), "behind the end");
        assert!(map.write(IOVA - 1, &byte).is_err(), "before the start");
        assert!(
            map.read(IOVA + 16, &mut [0; 32]).is_err(),
            "over the end of one region"
        );
        assert!(map.read(u64::MAX, &mut [0; 2]).is_err());
        assert_eq!(
            map.map(IOVA + 60, address, 8, Rights::Read),
            Err(MapError::Overlap)
        );
        assert_eq!(
            map.map(IOVA - 4, address, 5, Rights::Read),
            Err(MapError::Overlap)
        );
        assert_eq!(
            map.map(u64::MAX, address, 8, Rights::Read),
            Err(MapError::BadRange)
        );
        assert_eq!(
            map.map(1 << 40, address, 0, Rights::Read),
            Err(MapError::BadRange)
        );
        assert_eq!(
            map.map(1 << 40, usize::MAX, 2, Rights::Read),
            Err(MapError::BadRange)
        );
    }

    #[test]
    fn nothing_is_reached_after_unmap() {
        let (_target, address) = memory(8);
        let mut map = MemoryMap::default();
        map.map(IOVA, address, 64, Rights::ReadWrite).expect("free");
        map.write(IOVA, &[1; 64]).expect("mapped, and cached now");
        assert_eq!(map.unmap(IOVA, 32), Err(MapError::NotMapped));
        map.unmap(IOVA, 64).expect("mapped");
        assert!(map.write(IOVA, &[1; 64]).is_err());
        assert!(map.write_descriptor(IOVA, &[1]).is_err());
    }

    #[test]
    fn descriptors_are_words() {
        let (target, address) = memory(4);
        let mut map = MemoryMap::default();
        map.map(IOVA, address, 32, Rights::ReadWrite).expect("free");
        map.write_descriptor(IOVA + 8, &[11, 22, 33])
            .expect("mapped");
        let words: Vec<u64> = target
            .iter()
            .map(|word| word.load(Ordering::Acquire))
            .collect();
        assert_eq!(words, [0, 11, 22, 33]);
        assert!(map.write_descriptor(IOVA + 4, &[1]).is_err(), "not aligned");
        assert!(
            map.write_descriptor(IOVA + 24, &[1, 2]).is_err(),
            "over the end"
        );
    }

    #[test]
    fn atomics_need_both_rights_and_alignment() {
        let (target, address) = memory(8);
        let mut map = MemoryMap::default();
        map.map(IOVA, address, 32, Rights::ReadWrite).expect("free");
        map.map(IOVA + 32, address + 32, 16, Rights::Read)
            .expect("free");
        map.map(IOVA + 48, address + 48, 16, Rights::Write)
            .expect("free");
        let add = DmaAtomic::FetchAdd { add: 5 };
        target[1].store(u64::MAX, Ordering::Relaxed);
        assert_eq!(map.atomic(IOVA + 8, add), Ok(u64::MAX), "and wraps");
        assert_eq!(map.atomic(IOVA + 8, add), Ok(4));
        let swap = |compare| DmaAtomic::CompareSwap { compare, swap: 77 };
        assert_eq!(map.atomic(IOVA + 8, swap(8)), Ok(9));
        assert_eq!(target[1].load(Ordering::Relaxed), 9, "it was another");
        assert_eq!(map.atomic(IOVA + 8, swap(9)), Ok(9));
        assert_eq!(target[1].load(Ordering::Relaxed), 77);
        for refused in [4, 28, 32, 48, 64] {
            assert!(map.atomic(IOVA + refused, add).is_err(), "{refused}");
        }
        // Aligned for the device, not for this processor.
        map.map(1 << 40, address + 4, 16, Rights::ReadWrite)
            .expect("free");
        assert!(map.atomic(1 << 40, add).is_err());
    }

    #[test]
    fn atomics_of_the_device_and_of_this_processor_do_not_lose_each_other() {
        const ROUNDS: u64 = 20_000;
        let (target, address) = memory(1);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut map = MemoryMap::default();
                    map.map(IOVA, address, 8, Rights::ReadWrite).expect("free");
                    for _ in 0..ROUNDS {
                        map.atomic(IOVA, DmaAtomic::FetchAdd { add: 1 })
                            .expect("mapped");
                    }
                });
            }
            for _ in 0..ROUNDS {
                target[0].fetch_add(1 << 32, Ordering::Relaxed);
            }
        });
        let total = target[0].load(Ordering::Relaxed);
        assert_eq!(total, 2 * ROUNDS + (ROUNDS << 32));
    }

    #[test]
    fn cached_accesses_take_nanoseconds() {
        const ROUNDS: u32 = 200_000;
        let (_target, address) = memory(4096 / 8);
        let mut map = MemoryMap::default();
        map.map(IOVA, address, 4096, Rights::ReadWrite)
            .expect("free");
        let start = std::time::Instant::now();
        for round in 0..ROUNDS {
            let iova = IOVA + u64::from(round % 500) * 8;
            map.write(iova, &u64::from(round).to_ne_bytes())
                .expect("mapped");
        }
        let each_ns = start.elapsed().as_nanos() / u128::from(ROUNDS);
        println!("8-byte DMA write: {each_ns} ns");
        // Generous: a loaded machine and an unoptimised build must pass.
        assert!(each_ns < 2_000);
    }
}
