//! Entries of the memory translation table that belong to one region.

use std::sync::Arc;

use ferroce_spec::context::TranslationEntry;

use crate::error::Error;
use crate::objects::device::Device;

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
        Ok(Self {
            start: table.allocate(iova, pages, log_page_size)?,
            device: Arc::clone(device),
            length: pages,
        })
    }

    /// Allocates entries for `pages` pages that are not present.
    pub(crate) fn absent(device: &Arc<Device>, pages: u64) -> Result<Self, Error> {
        let table = device.translation_table();
        Ok(Self {
            start: table.allocate_absent(pages)?,
            device: Arc::clone(device),
            length: pages,
        })
    }

    /// Returns the number of entries.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Replaces the entry of a page of the region.
    pub(crate) fn set(&self, page: u64, entry: TranslationEntry) {
        assert!(page < self.length, "a page of the region");
        let table = self.device.translation_table();
        table.set(self.start + page, entry);
    }

    /// Returns the index of the first entry.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }
}

impl Drop for TranslationRange {
    fn drop(&mut self) {
        let table = self.device.translation_table();
        table.release(self.start, self.length);
    }
}
