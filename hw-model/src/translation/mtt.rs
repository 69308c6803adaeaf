//! Memory translation: converts a virtual address in a region to an IOVA, page by page.

use std::fmt::Debug;

use ferroce_spec::context::{LOG_PAGE_SIZES, MemoryEntry, TranslationEntry};
use ferroce_spec::counter::Counter;
use ferroce_units::Duration;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::cache::Cache;
use crate::config::CacheShape;
use crate::dma::Dma;
use crate::ports::host::Host;
use crate::translation::protection::ProtectionFault;

/// MTT entries in one cache line: the result of one 64-byte DMA read.
const ENTRIES_PER_LINE: u64 = 8;

/// One line of the MTT cache.
#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, Immutable)]
#[repr(transparent)]
struct MttLine([TranslationEntry; ENTRIES_PER_LINE as usize]);

/// Memory that is contiguous in IOVA space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// IOVA of the first byte.
    pub iova: u64,
    /// Bytes until the end of the page.
    pub length: u64,
}

/// The ports of a memory translation table.
pub trait TranslationTable: Debug {
    /// Returns a table without entries.
    fn new(shape: CacheShape) -> Self;

    /// Places the table at `base` in host memory, with `1 << log_entries` entries; a `base` of 0
    /// means no table.
    fn reset(&mut self, base: u64, log_entries: u8);

    /// Returns true if the table has the `count` entries from `first` on.
    fn contains(&self, first: u64, count: u64) -> bool;

    /// Drops cached copies of the `count` entries from `first` on, limited to the table: the
    /// numbers have been in host memory since they were checked.
    fn invalidate(&mut self, first: u64, count: u64);

    /// Returns the location of `address`, which [`super::mpt::Mpt::check`] has found inside
    /// `entry`.
    ///
    /// # Errors
    /// [`ProtectionFault::Page`] if the table has no page there, or the error of the DMA.
    fn translate<H: Host>(
        &mut self,
        entry: &MemoryEntry,
        address: u64,
        dma: &mut Dma<'_, H>,
    ) -> Result<Run, ProtectionFault>;

    /// Returns the number of miss registers, and the total time for which they were in use.
    fn miss_registers(&self) -> (usize, Duration) {
        (0, Duration::ZERO)
    }
}

/// The memory translation table: a cache in front of the table in host memory.
#[derive(Debug)]
pub struct Mtt {
    cache: Cache<MttLine>,
    entries: u64,
}

impl TranslationTable for Mtt {
    fn new(shape: CacheShape) -> Self {
        Self {
            cache: Cache::new(shape, Counter::mtt_hits, Counter::mtt_misses),
            entries: 0,
        }
    }

    fn reset(&mut self, base: u64, log_entries: u8) {
        self.cache.reset(base);
        self.entries = if base == 0 { 0 } else { 1 << log_entries };
    }

    fn contains(&self, first: u64, count: u64) -> bool {
        first
            .checked_add(count)
            .is_some_and(|end| end <= self.entries)
    }

    fn invalidate(&mut self, first: u64, count: u64) {
        let behind = first.saturating_add(count).min(self.entries);
        if first >= behind {
            return;
        }
        let (start, end) = (first / ENTRIES_PER_LINE, (behind - 1) / ENTRIES_PER_LINE);
        // If the region is larger than the cache, nothing else is worth keeping.
        if end - start >= self.cache.capacity() as u64 {
            self.cache.invalidate_all();
            return;
        }
        (start..=end).for_each(|line| self.cache.invalidate(line as u32));
    }

    #[inline]
    fn translate<H: Host>(
        &mut self,
        entry: &MemoryEntry,
        address: u64,
        dma: &mut Dma<'_, H>,
    ) -> Result<Run, ProtectionFault> {
        let offset = address - entry.start;
        if entry.word.direct() {
            let iova = entry.translation.wrapping_add(offset);
            return Ok(Run {
                iova,
                length: entry.length - offset,
            });
        }
        // CREATE_MR has checked these numbers, but the entry has been in host memory since.
        let log_page_size = entry.word.log_page_size();
        if !LOG_PAGE_SIZES.contains(&log_page_size) {
            return Err(ProtectionFault::Page { address });
        }
        let position = entry.first_page_offset.wrapping_add(offset);
        let index = entry.translation.wrapping_add(position >> log_page_size);
        if index >= self.entries {
            return Err(ProtectionFault::Page { address });
        }
        let page_mask = (1 << log_page_size) - 1;
        let in_page = position & page_mask;
        let line = self.cache.get((index / ENTRIES_PER_LINE) as u32, dma)?;
        let page = line.0[(index % ENTRIES_PER_LINE) as usize];
        if !page.present() {
            return Err(ProtectionFault::Page { address });
        }
        Ok(Run {
            // Pages are aligned to their size: lower bits of the page number are ignored.
            iova: page.iova() & !page_mask | in_page,
            length: (1 << log_page_size) - in_page,
        })
    }

    fn miss_registers(&self) -> (usize, Duration) {
        self.cache.miss_registers()
    }
}
