//! A set-associative cache of table entries in host memory.
//!
//! The QPC, CQC, MPT and MTT caches are built from it. Replacement is round robin within a set,
//! which takes an FPGA one small counter. Entries that the device changes are written back on
//! eviction.

use std::marker::PhantomData;

use ferroce_spec::counter::Counter;
use ferroce_units::{Duration, Instant};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::config::CacheShape;
use crate::dma::Dma;
use crate::ports::host::{DmaError, Host};
use crate::time::registers::Registers;

/// Tag of a line without an entry.
const EMPTY: u32 = u32::MAX;

/// The part of a line that a look-up reads. The keys of a set fill one or two cache lines of the
/// processor, whatever the size of the entries.
#[derive(Debug, Clone, Copy)]
struct Key {
    tag: u32,
    dirty: bool,
    /// When the entry arrives from host memory: until then a hit waits for the earlier miss.
    ready: Instant,
}

impl Key {
    const NONE: Self = Self {
        tag: EMPTY,
        dirty: false,
        ready: Instant::ZERO,
    };
}

/// An entry as the cache holds it.
pub trait Entry: Copy + Default {
    /// The entry as it is stored in host memory.
    type Stored: IntoBytes + Immutable;

    /// Converts `stored`, which is being written, to the cached form.
    fn of(stored: Self::Stored) -> Self;

    /// Reads the entry at `iova`.
    fn read<H: Host>(iova: u64, dma: &mut Dma<'_, H>) -> Result<Self, DmaError>;

    /// Writes the entry at `iova` when it leaves the cache.
    fn write_back<H: Host>(&self, iova: u64, dma: &mut Dma<'_, H>) -> Result<(), DmaError>;
}

impl<T: FromBytes + IntoBytes + Immutable + Default + Copy> Entry for T {
    type Stored = T;

    fn of(stored: T) -> Self {
        stored
    }

    #[inline]
    fn read<H: Host>(iova: u64, dma: &mut Dma<'_, H>) -> Result<Self, DmaError> {
        dma.read_value(iova)
    }

    #[inline]
    fn write_back<H: Host>(&self, iova: u64, dma: &mut Dma<'_, H>) -> Result<(), DmaError> {
        dma.write_value(iova, self)
    }
}

/// An entry of type `T` whose contents the model keeps elsewhere on the chip. The cache only
/// decides what a use costs: a miss reads the entry and writes another one back, but host memory
/// does not change.
#[derive(Debug)]
pub struct OnChip<T>(PhantomData<T>);

impl<T> Clone for OnChip<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for OnChip<T> {}

impl<T> Default for OnChip<T> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T: FromBytes + IntoBytes + Immutable + Default> Entry for OnChip<T> {
    type Stored = T;

    fn of(_stored: T) -> Self {
        Self::default()
    }

    #[inline]
    fn read<H: Host>(iova: u64, dma: &mut Dma<'_, H>) -> Result<Self, DmaError> {
        dma.read_unused(iova, T::default().as_mut_bytes())?;
        Ok(Self::default())
    }

    #[inline]
    fn write_back<H: Host>(&self, iova: u64, dma: &mut Dma<'_, H>) -> Result<(), DmaError> {
        dma.write_unchanged(iova, T::default().as_mut_bytes())
    }
}

/// A cache of entries of type `T`, which are stored consecutively in host memory.
#[derive(Debug)]
pub struct Cache<T> {
    shape: CacheShape,
    keys: Vec<Key>,
    values: Vec<T>,
    victims: Vec<u8>,
    base: u64,
    hits: Counter,
    misses: Counter,
    /// Miss status holding registers.
    registers: Registers,
}

impl<T: Entry> Cache<T> {
    /// Returns an empty cache that counts in `hits` and `misses`.
    pub fn new(shape: CacheShape, hits: Counter, misses: Counter) -> Self {
        Self {
            shape,
            keys: vec![Key::NONE; shape.entries()],
            values: vec![T::default(); shape.entries()],
            victims: vec![0; 1 << shape.log_sets],
            base: 0,
            hits,
            misses,
            registers: Registers::new(usize::from(shape.mshrs)),
        }
    }

    /// Drops all entries; the table now starts at `base`.
    pub fn reset(&mut self, base: u64) {
        self.invalidate_all();
        self.base = base;
    }

    /// Returns the number of entries that it can hold.
    pub fn capacity(&self) -> usize {
        self.keys.len()
    }

    /// Returns the number of miss status holding registers, and the total time for which they were
    /// in use.
    pub fn miss_registers(&self) -> (usize, Duration) {
        self.registers.usage()
    }

    /// Returns the entry at `index`, read from host memory if it is not cached.
    #[inline]
    pub fn get<H: Host>(&mut self, index: u32, dma: &mut Dma<'_, H>) -> Result<&mut T, DmaError> {
        let slot = self.look_up(index, dma)?;
        Ok(&mut self.values[slot])
    }

    /// Returns the position of the entry at `index`, after a fill if it is not cached.
    #[inline]
    fn look_up<H: Host>(&mut self, index: u32, dma: &mut Dma<'_, H>) -> Result<usize, DmaError> {
        match self.find(index) {
            Some(slot) => {
                dma.counters.add(self.hits, 1);
                dma.at = dma.at.max(self.keys[slot].ready);
                Ok(slot)
            }
            None => {
                dma.counters.add(self.misses, 1);
                self.fill(index, dma)
            }
        }
    }

    /// Reads the entry at `index` in host memory, whether it is cached or not, and drops it: a read
    /// that pushes the posted writes before it.
    #[cold]
    pub fn read_again<H: Host>(&self, index: u32, dma: &mut Dma<'_, H>) -> Result<(), DmaError> {
        T::read(self.address(index), dma).map(drop)
    }

    /// Returns the entry at `index` if it is cached. This does not count as a use.
    pub fn peek(&self, index: u32) -> Option<&T> {
        self.find(index).map(|slot| &self.values[slot])
    }

    /// Returns the time until which the entry at `index` cannot be requested because it is not
    /// cached and all registers are in use. `None`: it can be requested by `until`.
    #[inline]
    pub fn blocked_until(&self, index: u32, until: Instant) -> Option<Instant> {
        let free_at = self.registers.free_at();
        (free_at > until && self.find(index).is_none()).then_some(free_at)
    }

    /// Returns the entry as [`Cache::get`] does and marks it as changed: it is written back on
    /// eviction.
    #[inline]
    pub fn get_mut<H: Host>(
        &mut self,
        index: u32,
        dma: &mut Dma<'_, H>,
    ) -> Result<&mut T, DmaError> {
        let slot = self.look_up(index, dma)?;
        self.keys[slot].dirty = true;
        Ok(&mut self.values[slot])
    }

    /// Writes a new entry to the cache and to host memory.
    pub fn store<H: Host>(
        &mut self,
        index: u32,
        stored: T::Stored,
        dma: &mut Dma<'_, H>,
    ) -> Result<(), DmaError> {
        dma.write_value(self.address(index), &stored)?;
        let value = T::of(stored);
        let slot = match self.find(index) {
            Some(slot) => slot,
            None => self.place(index, value, dma.at, dma)?,
        };
        self.set(slot, index, value, dma.at);
        Ok(())
    }

    /// Drops the entry at `index` without writing it back.
    pub fn invalidate(&mut self, index: u32) {
        if let Some(slot) = self.find(index) {
            self.keys[slot].tag = EMPTY;
        }
    }

    /// Drops all entries without writing them back, and restarts replacement.
    pub fn invalidate_all(&mut self) {
        self.victims.fill(0);
        self.keys.iter_mut().for_each(|key| key.tag = EMPTY);
    }

    fn address(&self, index: u32) -> u64 {
        self.base
            .wrapping_add(u64::from(index) * size_of::<T::Stored>() as u64)
    }

    #[inline]
    fn set_start(&self, index: u32) -> usize {
        let set = index as usize & ((1 << self.shape.log_sets) - 1);
        set * self.shape.ways as usize
    }

    #[inline]
    fn find(&self, index: u32) -> Option<usize> {
        let start = self.set_start(index);
        let set = &self.keys[start..start + self.shape.ways as usize];
        set.iter()
            .position(|key| key.tag == index)
            .map(|way| start + way)
    }

    /// Reads the entry at `index` from host memory as soon as a miss register is free.
    #[cold]
    fn fill<H: Host>(&mut self, index: u32, dma: &mut Dma<'_, H>) -> Result<usize, DmaError> {
        let lease = self.registers.take(dma.begun, dma.at);
        if lease.at > dma.at {
            dma.stands_until = lease.at;
        }
        dma.at = lease.at;
        let value = T::read(self.address(index), dma)?;
        let ready = self.registers.give_back(lease, dma.at);
        self.place(index, value, ready, dma)
    }

    /// Evicts an entry from the set of `index` if necessary and stores `value` there, usable from
    /// `ready` on.
    fn place<H: Host>(
        &mut self,
        index: u32,
        value: T,
        ready: Instant,
        dma: &mut Dma<'_, H>,
    ) -> Result<usize, DmaError> {
        let start = self.set_start(index);
        let set = &self.keys[start..start + self.shape.ways as usize];
        let way = match set.iter().position(|key| key.tag == EMPTY) {
            Some(way) => way,
            None => {
                let victim = &mut self.victims[start / self.shape.ways as usize];
                *victim = (*victim + 1) % self.shape.ways;
                usize::from(*victim)
            }
        };
        let slot = start + way;
        let key = self.keys[slot];
        if key.tag != EMPTY && key.dirty {
            self.values[slot].write_back(self.address(key.tag), dma)?;
        }
        self.set(slot, index, value, ready);
        Ok(slot)
    }

    fn set(&mut self, slot: usize, index: u32, value: T, ready: Instant) {
        self.keys[slot] = Key {
            tag: index,
            dirty: false,
            ready,
        };
        self.values[slot] = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::Counters;
    use crate::ports::host::UntimedHost;

    /// Host memory that counts accesses.
    #[derive(Default)]
    struct Memory {
        bytes: [u8; 32],
        reads: u32,
        writes: u32,
    }

    impl UntimedHost for Memory {
        fn read(&mut self, iova: u64, destination: &mut [u8]) -> Result<(), DmaError> {
            self.reads += 1;
            UntimedHost::peek(self, iova, destination)
        }

        fn peek(&mut self, iova: u64, destination: &mut [u8]) -> Result<(), DmaError> {
            destination.copy_from_slice(&self.bytes[iova as usize..][..destination.len()]);
            Ok(())
        }

        fn write(&mut self, iova: u64, source: &[u8]) -> Result<(), DmaError> {
            self.writes += 1;
            self.bytes[iova as usize..][..source.len()].copy_from_slice(source);
            Ok(())
        }

        fn write_descriptor(&mut self, _iova: u64, _words: &[u64]) -> Result<(), DmaError> {
            unreachable!("entries are no descriptors")
        }

        fn interrupt(&mut self, _vector: u16) {}
    }

    /// Stores three entries in a cache for two and changes them in rotation; returns the memory and
    /// the counters.
    fn thrash<T: Entry<Stored = u64>>() -> (Memory, Counters) {
        let shape = CacheShape {
            log_sets: 0,
            ways: 2,
            mshrs: 1,
        };
        let mut cache = Cache::<T>::new(shape, Counter::qpc_hits, Counter::qpc_misses);
        cache.reset(8);
        let (mut memory, mut counters) = (Memory::default(), Counters::default());
        let mut dma = Dma::new(&mut memory, &mut counters, Instant::ZERO);
        for index in 0..3 {
            let stored = 0x1111 * u64::from(index);
            cache.store(index, stored, &mut dma).expect("memory");
        }
        for index in [0, 1, 2, 0, 1, 2, 2] {
            cache.get_mut(index, &mut dma).expect("memory");
        }
        (memory, counters)
    }

    /// Goal: an entry whose contents are elsewhere on the chip costs the same as another one, and
    /// its memory does not change. Method: entries of both kinds that evict each other.
    #[test]
    fn entries_on_the_chip_cost_the_same_and_change_nothing() {
        let (plain_memory, plain) = thrash::<u64>();
        let (memory, counters) = thrash::<OnChip<u64>>();
        assert!(plain_memory.writes > 3, "some were written back");
        assert_eq!(memory.bytes, plain_memory.bytes);
        let accesses = |memory: &Memory| (memory.reads, memory.writes);
        assert_eq!(accesses(&memory), accesses(&plain_memory));
        assert_eq!(counters.values(), plain.values());
    }
}
