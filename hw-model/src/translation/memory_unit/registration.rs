//! Entries of the tables that commands create: regions and windows.

use ferroce_spec::context::MemoryEntry;

use super::MemoryUnit;
use crate::dma::Dma;
use crate::numbering::CreateError;
use crate::ports::host::{DmaError, Host};
use crate::translation::mpt::index_of;
use crate::translation::mtt::TranslationTable;
use crate::translation::protection::ProtectionFault;

impl<M: TranslationTable> MemoryUnit<M> {
    /// Creates a region or a window at the index that software has chosen, or at the next free one;
    /// returns its key.
    pub fn create<H: Host>(
        &mut self,
        entry: MemoryEntry,
        chosen: Option<u32>,
        dma: &mut Dma<'_, H>,
    ) -> Result<u32, CreateError> {
        let key = self.mpt.create(entry, chosen, dma)?;
        self.has_on_demand |= entry.word.on_demand();
        self.forget_pages(&entry);
        Ok(key)
    }

    /// Returns the entry with exactly this key.
    pub fn region<H: Host>(
        &mut self,
        key: u32,
        dma: &mut Dma<'_, H>,
    ) -> Result<MemoryEntry, ProtectionFault> {
        self.mpt.lookup(key, dma).copied()
    }

    /// Returns the entry with the index of this key, whatever its variant.
    pub fn entry<H: Host>(
        &mut self,
        key: u32,
        dma: &mut Dma<'_, H>,
    ) -> Result<MemoryEntry, ProtectionFault> {
        self.mpt.entry(key, dma).copied()
    }

    /// Replaces `present` with `region`, which has the same index.
    pub fn replace<H: Host>(
        &mut self,
        present: &MemoryEntry,
        region: MemoryEntry,
        dma: &mut Dma<'_, H>,
    ) -> Result<(), DmaError> {
        self.mpt.replace(region, dma)?;
        self.has_on_demand |= region.word.on_demand();
        self.forget_pages(present);
        self.forget_pages(&region);
        Ok(())
    }

    /// Removes `present`, a region or a window with the index of `key`.
    pub fn remove<H: Host>(
        &mut self,
        present: &MemoryEntry,
        key: u32,
        dma: &mut Dma<'_, H>,
    ) -> Result<(), ProtectionFault> {
        if present.word.window() {
            self.unbind(present, key, dma)?;
        }
        self.mpt.remove(index_of(key), dma)?;
        self.forget_pages(present);
        Ok(())
    }

    /// Returns true if the pages of a region are in the memory translation table.
    pub fn contains_pages(&self, region: &MemoryEntry) -> bool {
        self.mtt.contains(region.translation, pages(region))
    }

    /// Drops cached translations and refusals of the pages of an existing region.
    pub fn synchronize<H: Host>(
        &mut self,
        key: u32,
        dma: &mut Dma<'_, H>,
    ) -> Result<(), ProtectionFault> {
        let region = *self.mpt.lookup(key, dma)?;
        self.forget_pages(&region);
        self.page_faults.forget_refusals(key);
        Ok(())
    }

    /// Drops cached translations of a region's pages: software has written them, or may.
    fn forget_pages(&mut self, region: &MemoryEntry) {
        if is_translated(region) {
            self.mtt.invalidate(region.translation, pages(region));
        }
    }
}

/// Returns true if a region is translated by the memory translation table.
pub(crate) fn is_translated(region: &MemoryEntry) -> bool {
    let word = region.word;
    !(word.window() || word.direct() || word.null() || word.device_memory())
}

/// Returns the number of pages of a region.
fn pages(region: &MemoryEntry) -> u64 {
    let log_page_size = region.word.log_page_size() & 63;
    let end = region.first_page_offset.saturating_add(region.length);
    end.div_ceil(1 << log_page_size)
}
