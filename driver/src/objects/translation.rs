//! The memory translation table.

use std::sync::atomic::Ordering;

use ferroce_spec::context::TranslationEntry;

use crate::dma::DmaBuffer;
use crate::error::Error;
use crate::range::RangeAllocator;

/// MTT ranges begin at a multiple of this: a cache line of the device.
const MTT_ALIGNMENT: u64 = 8;

/// The memory translation table and its allocator.
pub(crate) struct TranslationTable {
    buffer: DmaBuffer,
    allocator: RangeAllocator,
}

impl TranslationTable {
    /// Creates a table of `1 << log_entries` entries.
    pub(crate) fn new(buffer: DmaBuffer, log_entries: u8) -> Self {
        Self {
            buffer,
            allocator: RangeAllocator::new(0..1 << log_entries),
        }
    }

    pub(crate) fn iova(&self) -> u64 {
        self.buffer.iova()
    }

    /// Allocates entries for `pages` pages of `1 << log_page_size` bytes from `iova` on, fills them
    /// in, and returns the index of the first one.
    pub(crate) fn allocate(&self, iova: u64, pages: u64, log_page_size: u8) -> Result<u64, Error> {
        self.allocate_filled(pages, |page| {
            TranslationEntry::new(iova + (page << log_page_size))
        })
    }

    /// Allocates entries for `pages` pages that are not present; returns the index of the first.
    pub(crate) fn allocate_absent(&self, pages: u64) -> Result<u64, Error> {
        self.allocate_filled(pages, |_| TranslationEntry::default())
    }

    fn allocate_filled(
        &self,
        pages: u64,
        entry_of: impl Fn(u64) -> TranslationEntry,
    ) -> Result<u64, Error> {
        let start = self.allocator.allocate(pages, MTT_ALIGNMENT, 0);
        let start = start.ok_or(Error::NoResources {
            what: "memory translation table entry",
        })?;
        let words = &self.buffer.words()[start as usize..][..pages as usize];
        for (page, word) in (0u64..).zip(words) {
            word.store(entry_of(page).bits(), Ordering::Relaxed);
        }
        Ok(start)
    }

    /// Replaces an allocated entry.
    pub(crate) fn set(&self, index: u64, entry: TranslationEntry) {
        self.buffer.words()[index as usize].store(entry.bits(), Ordering::Release);
    }

    /// Frees `length` entries from `start` on.
    pub(crate) fn release(&self, start: u64, length: u64) {
        self.allocator.release(start, length);
    }
}
