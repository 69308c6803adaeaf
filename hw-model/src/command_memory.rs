//! Commands on memory regions.

use crate::command::Failure;
use crate::dma::Dma;
use crate::host::Host;
use crate::nic::Nic;
use crate::port::Port;
use crate::protection::ProtectionFault;
use ferroce_spec::command::{CommandEntry, CommandStatus};
use ferroce_spec::context::{LOG_PAGE_SIZES, MemoryEntry};

impl From<ProtectionFault> for Failure {
    fn from(fault: ProtectionFault) -> Self {
        match fault {
            ProtectionFault::Dma(error) => error.into(),
            _ => Self::new(CommandStatus::NO_OBJECT),
        }
    }
}

impl<P: Port> Nic<P> {
    pub(crate) fn create_mr<H: Host>(
        &mut self,
        entry: &CommandEntry,
        host: &mut H,
    ) -> Result<u64, Failure> {
        let region: MemoryEntry = self.input(entry, host)?;
        self.check_region(&region)?;
        let mut dma = Dma {
            host,
            counters: &mut self.counters,
        };
        match self.memory.mpt.create(region, &mut dma)? {
            Some(key) => Ok(u64::from(key)),
            None => Err(Failure::new(CommandStatus::NO_RESOURCES)),
        }
    }

    pub(crate) fn query_mr<H: Host>(
        &mut self,
        entry: &CommandEntry,
        host: &mut H,
    ) -> Result<u64, Failure> {
        let mut dma = Dma {
            host,
            counters: &mut self.counters,
        };
        let region = *self.memory.mpt.lookup(entry.argument as u32, &mut dma)?;
        self.output(entry, &region, host)
    }

    pub(crate) fn destroy_mr<H: Host>(
        &mut self,
        entry: &CommandEntry,
        host: &mut H,
    ) -> Result<u64, Failure> {
        let mut dma = Dma {
            host,
            counters: &mut self.counters,
        };
        let region = self.memory.mpt.destroy(entry.argument as u32, &mut dma)?;
        if !region.word.direct() {
            self.memory
                .mtt
                .invalidate(region.translation, pages(&region));
        }
        Ok(0)
    }

    /// Refuses a region that cannot be: its pages must lie inside the translation table.
    fn check_region(&self, region: &MemoryEntry) -> Result<(), Failure> {
        let word = region.word;
        if word.window() {
            return Err(Failure::new(CommandStatus::NOT_SUPPORTED));
        }
        if region.start.checked_add(region.length).is_none() {
            return Err(Failure::parameter(core::mem::offset_of!(
                MemoryEntry,
                length
            )));
        }
        // A region that peers may write must be writable at all (IBTA vol 1, 10.6.3.1).
        let remote = region.access.remote_write() || region.access.remote_atomic();
        if remote && !region.access.local_write() {
            return Err(Failure::parameter(core::mem::offset_of!(
                MemoryEntry,
                access
            )));
        }
        if word.direct() {
            return Ok(());
        }
        if !LOG_PAGE_SIZES.contains(&word.log_page_size()) {
            return Err(Failure::parameter(core::mem::offset_of!(MemoryEntry, word)));
        }
        if region.first_page_offset >> word.log_page_size() != 0
            || region
                .first_page_offset
                .checked_add(region.length)
                .is_none()
        {
            return Err(Failure::parameter(core::mem::offset_of!(
                MemoryEntry,
                first_page_offset
            )));
        }
        if !self.memory.mtt.contains(region.translation, pages(region)) {
            return Err(Failure::parameter(core::mem::offset_of!(
                MemoryEntry,
                translation
            )));
        }
        Ok(())
    }
}

/// Pages of a region.
fn pages(region: &MemoryEntry) -> u64 {
    (region.first_page_offset + region.length).div_ceil(1 << region.word.log_page_size())
}
