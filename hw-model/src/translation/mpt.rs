//! Memory protection: key to region, with bounds, protection domain and rights.

use std::collections::BTreeSet;

use ferroce_spec::context::{AccessRights, KEY_VARIANT_BITS, MemoryEntry};
use ferroce_spec::counter::Counter;
use ferroce_units::Duration;

use crate::cache::Cache;
use crate::config::CacheShape;
use crate::dma::Dma;
use crate::numbering::{CreateError, Numbering};
use crate::ports::host::{DmaError, Host};
use crate::translation::protection::ProtectionFault;

/// Mask of the variant in a key.
const KEY_VARIANT_MASK: u32 = (1 << KEY_VARIANT_BITS) - 1;

/// Returns the table index of `key`.
#[inline]
pub const fn index_of(key: u32) -> u32 {
    key >> KEY_VARIANT_BITS
}

/// Returns the key of `index` with the variant of `key`.
pub const fn with_variant(index: u32, key: u32) -> u32 {
    index << KEY_VARIANT_BITS | key & KEY_VARIANT_MASK
}

/// An access to a memory region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// Protection domain of the queue pair.
    pub pd: u32,
    /// Local or remote key.
    pub key: u32,
    /// First byte.
    pub address: u64,
    /// Bytes.
    pub length: u64,
    /// Rights that the region must grant; none for a local read.
    pub rights: AccessRights,
    /// Remote access: the queue pair whose packet requests it. A window may permit only one queue
    /// pair.
    pub qpn: u32,
}

impl Access {
    /// Returns true if a peer requests it. Local accesses must not use a window.
    #[inline]
    fn is_remote(&self) -> bool {
        let rights = self.rights;
        rights.remote_write()
            || rights.remote_read()
            || rights.remote_atomic()
            || rights.flush_global()
            || rights.flush_persistent()
    }
}

/// The memory protection table: a cache in front of the table in host memory.
#[derive(Debug)]
pub struct Mpt {
    cache: Cache<MemoryEntry>,
    entries: u32,
    free: Vec<u32>,
    /// Number of entries that were ever allocated, including entry 0.
    next_unused: u32,
    number_seed: Option<u64>,
    order: Numbering,
    /// Fault injection: entries that no access may use, although software has not removed them.
    revoked: BTreeSet<u32>,
}

impl Mpt {
    /// Returns the number of miss registers, and the total time for which they were in use.
    pub fn miss_registers(&self) -> (usize, Duration) {
        self.cache.miss_registers()
    }

    /// Returns a table without entries.
    pub fn new(shape: CacheShape) -> Self {
        let cache = Cache::new(shape, Counter::mpt_hits, Counter::mpt_misses);
        Self {
            cache,
            entries: 0,
            free: Vec::new(),
            next_unused: 0,
            number_seed: None,
            order: Numbering::new(None, 0),
            revoked: BTreeSet::new(),
        }
    }

    /// Sets the seed of the order in which keys are allocated.
    #[must_use]
    pub fn with_numbers(self, number_seed: Option<u64>) -> Self {
        Self {
            number_seed,
            ..self
        }
    }

    /// Sets the address of the table to `base` and its size to `1 << log_entries` entries. Entry 0
    /// is never used, so that no key is zero.
    pub fn reset(&mut self, base: u64, log_entries: u8) {
        self.cache.reset(base);
        self.entries = if base == 0 { 0 } else { 1 << log_entries };
        self.free.clear();
        self.next_unused = 0;
        self.revoked.clear();
        self.order = Numbering::new(self.number_seed, log_entries);
    }

    /// Fault injection: refuses all accesses through the present entries. Commands still find them,
    /// so that software can remove them as usual.
    pub fn revoke_all(&mut self) {
        let allocated = (0..self.next_unused).map(|n| self.order.entry(n));
        self.revoked = allocated.collect();
        for index in &self.free {
            self.revoked.remove(index);
        }
    }

    /// Returns the index of the next entry. `None`: the table is full.
    fn next_index(&mut self) -> Option<u32> {
        let given = u64::from(self.next_unused);
        if let Some(place) = self.order.again(self.free.len(), given) {
            return Some(self.free.swap_remove(place));
        }
        while self.next_unused < self.entries {
            self.next_unused += 1;
            let index = self.order.entry(self.next_unused - 1);
            if index != 0 {
                return Some(index);
            }
        }
        None
    }

    /// Takes the index that software has chosen.
    fn chosen_index(&mut self, chosen: u32) -> Result<u32, CreateError> {
        if chosen == 0 || chosen >= self.entries {
            return Err(CreateError::NoNumber);
        }
        // Software may skip entries that were never allocated.
        while self.next_unused <= chosen {
            let index = self.order.entry(self.next_unused);
            self.next_unused += 1;
            if index != 0 {
                self.free.push(index);
            }
        }
        let place = self.free.iter().rposition(|index| *index == chosen);
        Ok(self.free.swap_remove(place.ok_or(CreateError::Taken)?))
    }

    /// Creates an entry at the index that software has chosen, or at the next one; returns its key.
    pub fn create<H: Host>(
        &mut self,
        mut entry: MemoryEntry,
        chosen: Option<u32>,
        dma: &mut Dma<'_, H>,
    ) -> Result<u32, CreateError> {
        let index = match chosen {
            Some(chosen) => self.chosen_index(chosen)?,
            None => self.next_index().ok_or(CreateError::NoNumber)?,
        };
        entry.key = with_variant(index, entry.key);
        entry.word.set_valid(true);
        if let Err(error) = self.cache.store(index, entry, dma) {
            self.free.push(index);
            return Err(error.into());
        }
        self.revoked.remove(&index);
        Ok(entry.key)
    }

    /// Replaces a valid entry.
    pub fn replace<H: Host>(
        &mut self,
        mut entry: MemoryEntry,
        dma: &mut Dma<'_, H>,
    ) -> Result<(), DmaError> {
        entry.word.set_valid(true);
        self.revoked.remove(&index_of(entry.key));
        self.cache.store(index_of(entry.key), entry, dma)
    }

    /// Removes the valid entry at `index`.
    pub fn remove<H: Host>(&mut self, index: u32, dma: &mut Dma<'_, H>) -> Result<(), DmaError> {
        self.cache.store(index, MemoryEntry::default(), dma)?;
        self.cache.invalidate(index);
        self.free.push(index);
        Ok(())
    }

    /// Returns the valid entry at the index of `key`, whatever its variant.
    #[inline]
    pub fn entry<H: Host>(
        &mut self,
        key: u32,
        dma: &mut Dma<'_, H>,
    ) -> Result<&mut MemoryEntry, ProtectionFault> {
        let index = index_of(key);
        if index >= self.entries {
            return Err(ProtectionFault::InvalidKey { key });
        }
        let entry = self.cache.get_mut(index, dma)?;
        if !entry.word.valid() {
            return Err(ProtectionFault::InvalidKey { key });
        }
        Ok(entry)
    }

    /// Returns the valid entry of `key`.
    #[inline]
    pub fn lookup<H: Host>(
        &mut self,
        key: u32,
        dma: &mut Dma<'_, H>,
    ) -> Result<&MemoryEntry, ProtectionFault> {
        let index = index_of(key);
        if index >= self.entries {
            return Err(ProtectionFault::InvalidKey { key });
        }
        let entry = self.cache.get(index, dma)?;
        if !entry.word.valid() || entry.key != key {
            return Err(ProtectionFault::InvalidKey { key });
        }
        Ok(entry)
    }

    /// Reads the entry of `key` in host memory, to push the posted writes before it.
    #[cold]
    pub fn push_writes<H: Host>(
        &self,
        key: u32,
        dma: &mut Dma<'_, H>,
    ) -> Result<(), ProtectionFault> {
        Ok(self.cache.read_again(index_of(key), dma)?)
    }

    /// Returns first byte and length of the region that `key` names, if its entry is cached. It is
    /// for messages: nothing is counted.
    #[cold]
    pub fn known_bounds(&self, key: u32) -> Option<(u64, u64)> {
        let entry = self.cache.peek(index_of(key))?;
        Some((entry.start, entry.length))
    }

    /// Checks an access in the order key, protection domain, rights, bounds, and returns the
    /// region. Rights come before bounds as in IBTA vol 1, 10.6.3.
    ///
    /// The entry is not copied: a copy would be stored and loaded with different widths, and such a
    /// load waits until all earlier stores have left the processor.
    #[inline]
    pub fn check<H: Host>(
        &mut self,
        access: &Access,
        dma: &mut Dma<'_, H>,
    ) -> Result<&MemoryEntry, ProtectionFault> {
        if self.revoked.contains(&index_of(access.key)) {
            return Err(ProtectionFault::InvalidKey { key: access.key });
        }
        let entry = self.lookup(access.key, dma)?;
        if entry.pd != access.pd {
            return Err(ProtectionFault::ProtectionDomain { key: access.key });
        }
        if entry.word.window() {
            check_window(entry, access)?;
        }
        let wanted = access.rights.bits();
        if entry.access.bits() & wanted != wanted {
            return Err(ProtectionFault::Rights { key: access.key });
        }
        // In an entry that software has overwritten, start and length may exceed the last address;
        // no access does.
        let offset = access.address.wrapping_sub(entry.start);
        if access.address < entry.start
            || offset > entry.length
            || access.length > entry.length - offset
            || access.address.checked_add(access.length).is_none()
        {
            let (address, length) = (access.address, access.length);
            return Err(ProtectionFault::Bounds { address, length });
        }
        Ok(entry)
    }
}

/// Checks the additional rules for an access through a window (IBTA vol 1, 10.6.7.2): the window is
/// bound, only peers use its key, and a window of type 2B is accessed through one queue pair.
fn check_window(window: &MemoryEntry, access: &Access) -> Result<(), ProtectionFault> {
    let key = access.key;
    if !window.word.bound() || !access.is_remote() {
        return Err(ProtectionFault::InvalidKey { key });
    }
    if window.word.window_type_2() && window.qpn != access.qpn {
        return Err(ProtectionFault::QueuePair { key });
    }
    Ok(())
}
