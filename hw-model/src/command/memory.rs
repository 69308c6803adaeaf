//! Commands on memory regions and windows.

use ferroce_spec::command::{CommandEntry, CommandStatus};
use ferroce_spec::context::{LOG_PAGE_SIZES, MemoryEntry};

use crate::blocks::Blocks;
use crate::command::{CommandProcessor, Failure, chosen_number};
use crate::host_interface::device_memory::DeviceMemory;
use crate::ports::host::Host;
use crate::ports::port::Port;
use crate::time::timing::Timing;
use crate::translation::memory_unit::registration::is_translated;
use crate::translation::memory_unit::window::free_window;
use crate::translation::mpt::{index_of, with_variant};
use crate::translation::protection::ProtectionFault;

impl From<ProtectionFault> for Failure {
    fn from(fault: ProtectionFault) -> Self {
        match fault {
            ProtectionFault::Dma(error) => error.into(),
            _ => Self::new(CommandStatus::NO_OBJECT),
        }
    }
}

impl<H: Host, T: Timing, P: Port, B: Blocks> CommandProcessor<'_, '_, H, T, P, B> {
    pub(super) fn create_mr(&mut self, entry: &CommandEntry) -> Result<u64, Failure> {
        let input: MemoryEntry = self.input(entry)?;
        let fresh = if input.word.window() {
            free_window(&input, input.key)
        } else {
            self.check_region(&input)?;
            fresh_region(&input)
        };
        let mut dma = self.turn.dma();
        let memory = &mut self.blocks.translation;
        let key = memory.create(fresh, chosen_number(self.config, entry), &mut dma)?;
        Ok(u64::from(key))
    }

    /// Registers a region again under a key with the variant of the input's key.
    pub(super) fn modify_mr(&mut self, entry: &CommandEntry) -> Result<u64, Failure> {
        let input: MemoryEntry = self.input(entry)?;
        let mut dma = self.turn.dma();
        let key = existing_key(entry)?;
        let present = self.blocks.translation.region(key, &mut dma)?;
        if present.word.window() {
            return Err(Failure::new(CommandStatus::NO_OBJECT));
        }
        if present.windows != 0 {
            return Err(Failure::new(CommandStatus::BUSY));
        }
        self.check_region(&input)?;
        let region = MemoryEntry {
            key: with_variant(index_of(key), input.key),
            ..fresh_region(&input)
        };
        let mut dma = self.turn.dma();
        let memory = &mut self.blocks.translation;
        memory.replace(&present, region, &mut dma)?;
        Ok(u64::from(region.key))
    }

    /// Drops the cached pages of a region.
    pub(super) fn sync_mr(&mut self, entry: &CommandEntry) -> Result<u64, Failure> {
        let mut dma = self.turn.dma();
        let key = existing_key(entry)?;
        self.blocks.translation.synchronize(key, &mut dma)?;
        Ok(0)
    }

    pub(super) fn query_mr(&mut self, entry: &CommandEntry) -> Result<u64, Failure> {
        let present = self.region_or_window(entry)?;
        self.output(entry, &present)
    }

    pub(super) fn destroy_mr(&mut self, entry: &CommandEntry) -> Result<u64, Failure> {
        let present = self.region_or_window(entry)?;
        if present.windows != 0 {
            return Err(Failure::new(CommandStatus::BUSY));
        }
        let key = existing_key(entry)?;
        let mut dma = self.turn.dma();
        self.blocks.translation.remove(&present, key, &mut dma)?;
        Ok(0)
    }

    /// Returns the entry that a command names. The key variant is not checked for a window: binds
    /// change it, and commands do not know the new one.
    fn region_or_window(&mut self, entry: &CommandEntry) -> Result<MemoryEntry, Failure> {
        let mut dma = self.turn.dma();
        let key = existing_key(entry)?;
        let present = self.blocks.translation.entry(key, &mut dma)?;
        if !present.word.window() && present.key != key {
            return Err(Failure::new(CommandStatus::NO_OBJECT));
        }
        Ok(present)
    }

    /// Refuses an invalid region: its pages must be inside the translation table.
    fn check_region(&self, region: &MemoryEntry) -> Result<(), Failure> {
        let word = region.word;
        let kinds = [word.direct(), word.null(), word.device_memory()];
        let kinds = kinds.iter().filter(|kind| **kind).count();
        let fits = kinds == 0 || kinds == 1 && !word.on_demand();
        require(fits, core::mem::offset_of!(MemoryEntry, word))?;
        require(
            region.start.checked_add(region.length).is_some(),
            core::mem::offset_of!(MemoryEntry, length),
        )?;
        // A region that peers may write must be writable at all (IBTA vol 1, 10.6.3.1).
        let remote = region.access.remote_write() || region.access.remote_atomic();
        require(
            !remote || region.access.local_write(),
            core::mem::offset_of!(MemoryEntry, access),
        )?;
        if word.device_memory() {
            return require(
                DeviceMemory::contains(region.translation, region.length),
                core::mem::offset_of!(MemoryEntry, translation),
            );
        }
        if !is_translated(region) {
            return Ok(());
        }
        require(
            LOG_PAGE_SIZES.contains(&word.log_page_size()),
            core::mem::offset_of!(MemoryEntry, word),
        )?;
        let end = region.first_page_offset.checked_add(region.length);
        require(
            region.first_page_offset >> word.log_page_size() == 0 && end.is_some(),
            core::mem::offset_of!(MemoryEntry, first_page_offset),
        )?;
        require(
            self.blocks.translation.contains_pages(region),
            core::mem::offset_of!(MemoryEntry, translation),
        )
    }
}

/// Refuses a field of the input unless `good`.
fn require(good: bool, offset: usize) -> Result<(), Failure> {
    if good {
        Ok(())
    } else {
        Err(Failure::parameter(offset))
    }
}

/// Returns the key that is the argument of a command.
fn existing_key(entry: &CommandEntry) -> Result<u32, Failure> {
    u32::try_from(entry.argument).map_err(|_| Failure::new(CommandStatus::NO_OBJECT))
}

/// Returns a region with the fields of software; the fields of the device are cleared.
fn fresh_region(input: &MemoryEntry) -> MemoryEntry {
    let mut word = input.word;
    word.set_window_type_2(false);
    word.set_bound(false);
    MemoryEntry {
        word,
        region_key: 0,
        qpn: 0,
        windows: 0,
        ..*input
    }
}
