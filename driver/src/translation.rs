//! The memory translation table.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ferroce_spec::context::TranslationEntry;

use crate::device::Device;
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
}

/// Entries of the translation table; free again when dropped.
pub(crate) struct TranslationRange {
    device: Arc<Device>,
    start: u64,
    length: u64,
}

impl TranslationRange {
    /// Allocates entries for `pages` pages of `1 << log_page_size` bytes from `iova` on, and fills
    /// them in.
    pub(crate) fn new(
        device: &Arc<Device>,
        iova: u64,
        pages: u64,
        log_page_size: u8,
    ) -> Result<Self, Error> {
        let table = device.translation_table();
        let start = table.allocator.allocate(pages, MTT_ALIGNMENT, 0);
        let start = start.ok_or(Error::NoResources {
            what: "memory translation table entry",
        })?;
        let range = Self {
            device: Arc::clone(device),
            start,
            length: pages,
        };
        let words = &table.buffer.words()[start as usize..][..pages as usize];
        for (page, word) in (0u64..).zip(words) {
            let entry = TranslationEntry::new(iova + (page << log_page_size));
            word.store(entry.bits(), Ordering::Relaxed);
        }
        Ok(range)
    }

    /// Returns the index of the first entry.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }
}

impl Drop for TranslationRange {
    fn drop(&mut self) {
        let table = self.device.translation_table();
        table.allocator.release(self.start, self.length);
    }
}
