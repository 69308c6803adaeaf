//! Memory access for fake devices in tests.
//!
//! A fake device is a [`Bus`](super::Bus) of safe code. This part of it needs pointers: it reads
//! and writes the memory that the driver has mapped, by IOVA.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::{BusError, DmaAccess, DmaMapping, PAGE_SIZE};

/// The memory that is mapped for a fake device.
#[derive(Debug, Default)]
pub struct FakeMemory {
    /// Mappings by IOVA. Held during an access, so that unmapping waits for it.
    mappings: Mutex<BTreeMap<u64, DmaMapping>>,
}

impl FakeMemory {
    /// Implements [`Bus::map`](super::Bus::map).
    ///
    /// # Errors
    ///
    /// [`BusError::InvalidMapping`], [`BusError::AlreadyMapped`].
    pub fn map(&self, mapping: &DmaMapping) -> Result<(), BusError> {
        let aligned = |value: u64| value % PAGE_SIZE as u64 == 0;
        let length = mapping.length as u64;
        let end = mapping.iova.checked_add(length);
        let Some(end) = end.filter(|_| length > 0) else {
            return Err(BusError::InvalidMapping);
        };
        if !aligned(mapping.iova) || !aligned(length) || !aligned(mapping.address as u64) {
            return Err(BusError::InvalidMapping);
        }
        let mut mappings = self.mappings.lock();
        let before = mappings.range(..end).next_back();
        if before.is_some_and(|(iova, other)| iova + other.length as u64 > mapping.iova) {
            return Err(BusError::AlreadyMapped);
        }
        mappings.insert(mapping.iova, *mapping);
        Ok(())
    }

    /// Implements [`Bus::unmap`](super::Bus::unmap).
    ///
    /// # Errors
    ///
    /// [`BusError::NotMapped`].
    pub fn unmap(&self, iova: u64, length: usize) -> Result<(), BusError> {
        let mut mappings = self.mappings.lock();
        match mappings.get(&iova) {
            Some(mapping) if mapping.length == length => {
                mappings.remove(&iova);
                Ok(())
            }
            _ => Err(BusError::NotMapped),
        }
    }

    /// Returns all mappings, by IOVA.
    pub fn mappings(&self) -> Vec<DmaMapping> {
        self.mappings.lock().values().copied().collect()
    }

    /// Returns the number of mappings.
    pub fn len(&self) -> usize {
        self.mappings.lock().len()
    }

    /// Returns true if nothing is mapped.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Loads the word at `iova`, a multiple of 8, with acquire ordering. Returns `None` when it is
    /// not mapped.
    pub fn load(&self, iova: u64) -> Option<u64> {
        self.with_word(iova, DmaAccess::Read, |word| word.load(Ordering::Acquire))
    }

    /// Stores the word at `iova`, a multiple of 8, with release ordering. Returns true if the word
    /// is mapped for writing.
    pub fn store(&self, iova: u64, value: u64) -> bool {
        self.with_word(iova, DmaAccess::ReadWrite, |word| {
            word.store(value, Ordering::Release);
        })
        .is_some()
    }

    /// Loads `N` words; returns `None` unless all of them are mapped.
    pub fn load_words<const N: usize>(&self, iova: u64) -> Option<[u64; N]> {
        let mut words = [0; N];
        for (place, word) in (iova..).step_by(8).zip(&mut words) {
            *word = self.load(place)?;
        }
        Some(words)
    }

    /// Stores words in order, as a device stores a descriptor. Returns true if all of them are
    /// mapped for writing.
    pub fn store_words(&self, iova: u64, words: &[u64]) -> bool {
        (iova..)
            .step_by(8)
            .zip(words)
            .all(|(place, &word)| self.store(place, word))
    }

    fn with_word<R>(
        &self,
        iova: u64,
        access: DmaAccess,
        body: impl FnOnce(&AtomicU64) -> R,
    ) -> Option<R> {
        let mappings = self.mappings.lock();
        let (start, mapping) = mappings.range(..=iova).next_back()?;
        let offset = usize::try_from(iova - start).ok()?;
        let allowed = access == DmaAccess::Read || mapping.access == DmaAccess::ReadWrite;
        if offset % 8 != 0 || offset >= mapping.length || !allowed {
            return None;
        }
        let address = (mapping.address + offset) as *const AtomicU64;
        // SAFETY: the caller of `map` promised that the range stays valid until `unmap` has
        // returned, and `unmap` waits for the lock that is held here. The address is a multiple of
        // 8 inside the mapping, because mappings are aligned to pages. The driver accesses its own
        // buffers through atomics only; application memory belongs to the test, which does not
        // access it while the device does, as with a real device.
        let word = unsafe { &*address };
        Some(body(word))
    }
}
