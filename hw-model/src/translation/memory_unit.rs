//! Access to registered memory: protection (MPT), translation (MTT), then DMA.
//!
//! - [`atomic`]: AtomicOps. [`flush`]: FLUSH and ATOMIC WRITE. [`window`]: memory windows.
//!   `registration`: entries of the tables, as commands create them.

pub mod atomic;
pub mod flush;
pub(crate) mod registration;
pub mod window;

use std::sync::Arc;

use ferroce_spec::command::ContextTables;
use ferroce_spec::context::{AccessRights, MemoryEntry};
use ferroce_spec::counter::Counter;
use ferroce_spec::register::PageFaultAnswer;
use ferroce_units::{Duration, Instant};

use crate::config::NicConfig;
use crate::dma::Dma;
use crate::host_interface::device_memory::{DeviceMemory, LentMemory};
use crate::ports::host::{Host, PostedOrder};
use crate::translation::memory_unit::atomic::AtomicsUnit;
use crate::translation::memory_unit::window::BoundWindows;
use crate::translation::mpt::{Access, Mpt};
use crate::translation::mtt::{Mtt, Run, TranslationTable};
use crate::translation::page_faults::{AbsentPage, PageFaults, Verdict};
use crate::translation::protection::ProtectionFault;
use crate::wqe::scatter_list::ScatterList;

/// Returns the rights word with only `local_write`.
pub fn local_write() -> AccessRights {
    let mut rights = AccessRights::default();
    rights.set_local_write(true);
    rights
}

/// MPT and MTT, and the accesses through both.
#[derive(Debug)]
pub struct MemoryUnit<M = Mtt> {
    /// Memory protection table.
    mpt: Mpt,
    /// Memory translation table.
    mtt: M,
    /// The device's own memory.
    device: DeviceMemory,
    /// Windows that belong to a queue pair.
    bound_windows: BoundWindows,
    /// Atomics are PCIe AtomicOps.
    atomics: AtomicsUnit,
    /// Pages of on-demand regions that software has still to bring in.
    page_faults: PageFaults,
    /// True if a region was on demand since the last reset.
    has_on_demand: bool,
}

impl<M: TranslationTable> MemoryUnit<M> {
    /// Returns a unit without tables.
    pub fn new(config: &NicConfig) -> Self {
        Self {
            mpt: Mpt::new(config.mpt_cache).with_numbers(config.number_seed),
            mtt: M::new(config.mtt_cache),
            device: DeviceMemory::default(),
            bound_windows: BoundWindows::new(),
            atomics: AtomicsUnit::new(config),
            page_faults: PageFaults::default(),
            has_on_demand: false,
        }
    }

    /// Returns the number of miss registers of MPT and MTT, and the times for which they were in
    /// use.
    pub fn miss_registers(&self) -> ((usize, Duration), (usize, Duration)) {
        (self.mpt.miss_registers(), self.mtt.miss_registers())
    }

    /// Returns the maximum number of concurrent atomics, the time for which they ran, and how long
    /// the busiest address was in use.
    pub fn atomics_usage(&self) -> ((usize, Duration), Duration) {
        self.atomics.usage()
    }

    /// Places the tables in host memory.
    pub fn install_tables(&mut self, tables: &ContextTables) {
        self.mpt.reset(tables.mpt_base, tables.log_mrs);
        self.mtt.reset(tables.mtt_base, tables.log_mtts);
    }

    /// Drops tables, device memory, bound windows and page faults.
    pub fn reset(&mut self) {
        self.install_tables(&ContextTables::default());
        self.device.reset();
        self.bound_windows.clear();
        self.page_faults.clear();
        self.has_on_demand = false;
    }

    /// Reads the device's own memory.
    pub fn read_device_memory(&mut self, offset: u64, destination: &mut [u8]) {
        self.device.read(offset, destination);
    }

    /// Writes the device's own memory.
    pub fn write_device_memory(&mut self, offset: u64, source: &[u8]) {
        self.device.write(offset, source);
    }

    /// Keeps the device's own memory in `memory`, which has the same content, until the next reset.
    pub fn lend_memory(&mut self, memory: Arc<dyn LentMemory>) {
        self.device.lend(memory);
    }

    /// Returns first byte and length of the region that `key` names, if they are known without DMA.
    #[cold]
    pub fn known_bounds(&self, key: u32) -> Option<(u64, u64)> {
        self.mpt.known_bounds(key)
    }

    /// Returns true if a region was on demand since the last reset: its pages come and go.
    pub fn has_on_demand(&self) -> bool {
        self.has_on_demand
    }

    /// Returns true if the event of a page fault has to be raised.
    #[inline]
    pub fn has_page_fault(&self) -> bool {
        self.page_faults.has_new()
    }

    /// Returns the next page fault whose event has to be raised, and counts it as raised.
    pub fn take_page_fault(&mut self) -> Option<AbsentPage> {
        self.page_faults.take_new()
    }

    /// Handles the answer of software to page faults. Returns true if it answers one.
    pub fn answer_page_faults(&mut self, answer: PageFaultAnswer) -> bool {
        let pages = self.page_faults.answer(answer);
        for page in &pages {
            self.mtt.invalidate(page.entry, 1);
        }
        !pages.is_empty()
    }

    /// Fault injection: refuses all accesses through the present regions and windows.
    pub fn revoke_all(&mut self) {
        self.mpt.revoke_all();
    }

    /// Checks an access without accessing memory.
    pub fn validate<H: Host>(
        &mut self,
        access: &Access,
        dma: &mut Dma<'_, H>,
    ) -> Result<(), ProtectionFault> {
        let result = self.mpt.check(access, dma).map(|_| ());
        self.judge(access, result, dma)
    }

    /// Reads `destination.len()` bytes of a region.
    #[inline]
    pub fn read<H: Host>(
        &mut self,
        access: &Access,
        destination: &mut [u8],
        dma: &mut Dma<'_, H>,
    ) -> Result<(), ProtectionFault> {
        dma.at = self.request(access, destination, dma)?;
        Ok(())
    }

    /// Requests `destination.len()` bytes of a region, and returns when they have arrived.
    #[inline]
    fn request<H: Host>(
        &mut self,
        access: &Access,
        destination: &mut [u8],
        dma: &mut Dma<'_, H>,
    ) -> Result<Instant, ProtectionFault> {
        let result = self.request_checked(access, destination, dma);
        self.judge(access, result, dma)
    }

    /// Writes `source` to a region.
    #[inline]
    pub fn write<H: Host>(
        &mut self,
        access: &Access,
        source: &[u8],
        dma: &mut Dma<'_, H>,
    ) -> Result<(), ProtectionFault> {
        let result = self.write_checked(access, source, dma);
        self.judge(access, result, dma)
    }

    /// Fills `destination` from a scatter list, starting `offset` bytes into it. The pieces are
    /// requested one after the other; none waits for the data of another.
    #[inline]
    pub fn gather<H: Host>(
        &mut self,
        pd: u32,
        list: &ScatterList,
        offset: u32,
        destination: &mut [u8],
        dma: &mut Dma<'_, H>,
    ) -> Result<(), ProtectionFault> {
        let (mut done, mut complete) = (0, dma.at);
        for piece in list.pieces(offset, destination.len() as u32) {
            let end = done + piece.length as usize;
            let access = Access {
                pd,
                key: piece.l_key,
                address: piece.address,
                length: u64::from(piece.length),
                rights: AccessRights::default(),
                qpn: 0,
            };
            let there = self.request(&access, &mut destination[done..end], dma)?;
            complete = complete.max(there);
            done = end;
        }
        dma.at = dma.at.max(complete);
        Ok(())
    }

    /// Writes `source` to a scatter list, starting `offset` bytes into it.
    #[inline]
    pub fn scatter<H: Host>(
        &mut self,
        pd: u32,
        list: &ScatterList,
        offset: u32,
        source: &[u8],
        dma: &mut Dma<'_, H>,
    ) -> Result<(), ProtectionFault> {
        let mut done = 0;
        for piece in list.pieces(offset, source.len() as u32) {
            let end = done + piece.length as usize;
            let access = Access {
                pd,
                key: piece.l_key,
                address: piece.address,
                length: u64::from(piece.length),
                rights: local_write(),
                qpn: 0,
            };
            self.write(&access, &source[done..end], dma)?;
            done = end;
        }
        Ok(())
    }

    /// Checks every piece of a scatter list: the list must be valid as a whole before anything is
    /// sent from it.
    pub fn validate_list<H: Host>(
        &mut self,
        pd: u32,
        list: &ScatterList,
        rights: AccessRights,
        dma: &mut Dma<'_, H>,
    ) -> Result<(), ProtectionFault> {
        for piece in list.pieces(0, list.length()) {
            let (key, address, length) = (piece.l_key, piece.address, u64::from(piece.length));
            self.validate(
                &Access {
                    pd,
                    key,
                    address,
                    length,
                    rights,
                    qpn: 0,
                },
                dma,
            )?;
        }
        Ok(())
    }

    /// Counts an access that was refused or is put off.
    #[inline]
    fn judge<T, H: Host>(
        &mut self,
        access: &Access,
        result: Result<T, ProtectionFault>,
        dma: &mut Dma<'_, H>,
    ) -> Result<T, ProtectionFault> {
        result.map_err(|fault| self.judge_fault(access, fault, dma))
    }

    #[cold]
    fn judge_fault<H: Host>(
        &mut self,
        access: &Access,
        fault: ProtectionFault,
        dma: &mut Dma<'_, H>,
    ) -> ProtectionFault {
        if let ProtectionFault::NotPresent(page) = fault
            && self.page_faults.note(page) == Verdict::Wait
        {
            dma.counters.add(Counter::page_waits, 1);
            return fault;
        }
        dma.counters.add(Counter::protection_errors, 1);
        match fault {
            ProtectionFault::NotPresent(_) => ProtectionFault::Page {
                address: access.address,
            },
            other => other,
        }
    }

    fn request_checked<H: Host>(
        &mut self,
        access: &Access,
        destination: &mut [u8],
        dma: &mut Dma<'_, H>,
    ) -> Result<Instant, ProtectionFault> {
        let entry = self.mpt.check(access, dma)?;
        if !is_in_host_memory(entry) {
            match on_chip(entry, access)? {
                Some(offset) => self.device.read(offset, destination),
                None => destination.fill(0),
            }
            return Ok(dma.at);
        }
        let (mut done, mut complete) = (0, dma.at);
        while done < destination.len() {
            let address = access.address + done as u64;
            let run = locate(&mut self.mtt, &self.page_faults, entry, address, dma)?;
            let length = run.length.min((destination.len() - done) as u64) as usize;
            let there = dma.request(run.iova, &mut destination[done..done + length])?;
            complete = complete.max(there);
            done += length;
        }
        Ok(dma.at.max(complete))
    }

    fn write_checked<H: Host>(
        &mut self,
        access: &Access,
        source: &[u8],
        dma: &mut Dma<'_, H>,
    ) -> Result<(), ProtectionFault> {
        let entry = self.mpt.check(access, dma)?;
        if !is_in_host_memory(entry) {
            if let Some(offset) = on_chip(entry, access)? {
                self.device.write(offset, source);
            }
            return Ok(());
        }
        let posted = if entry.access.relaxed_ordering() {
            PostedOrder::Relaxed
        } else {
            PostedOrder::Strict
        };
        let mut done = 0;
        while done < source.len() {
            let address = access.address + done as u64;
            let run = locate(&mut self.mtt, &self.page_faults, entry, address, dma)?;
            let length = run.length.min((source.len() - done) as u64) as usize;
            dma.write_as(posted, run.iova, &source[done..done + length])?;
            done += length;
        }
        Ok(())
    }
}

/// Returns the offset in the device's memory of an access to a region outside of host memory;
/// `None`: a null region, which reads as zeros and ignores writes.
#[cold]
fn on_chip(entry: &MemoryEntry, access: &Access) -> Result<Option<u64>, ProtectionFault> {
    if entry.word.null() {
        return Ok(None);
    }
    let (address, length) = (access.address, access.length);
    let offset = entry.translation.wrapping_add(address - entry.start);
    // CREATE_MR has checked the range, but the entry has been in host memory since.
    if DeviceMemory::contains(offset, length) {
        Ok(Some(offset))
    } else {
        Err(ProtectionFault::Bounds { address, length })
    }
}

/// Returns true if the bytes of a region are accessed by DMA.
#[inline]
fn is_in_host_memory(entry: &MemoryEntry) -> bool {
    !entry.word.null() && !entry.word.device_memory()
}

/// Counts a bind or an invalidation that was refused.
fn count_fault<T, H: Host>(
    result: Result<T, ProtectionFault>,
    dma: &mut Dma<'_, H>,
) -> Result<T, ProtectionFault> {
    if result.is_err() {
        dma.counters.add(Counter::protection_errors, 1);
    }
    result
}

/// Returns the location of `address`, which is inside of `entry`.
#[inline]
fn locate<M: TranslationTable, H: Host>(
    mtt: &mut M,
    page_faults: &PageFaults,
    entry: &MemoryEntry,
    address: u64,
    dma: &mut Dma<'_, H>,
) -> Result<Run, ProtectionFault> {
    let is_on_demand = entry.word.on_demand();
    if is_on_demand && page_faults.awaits(entry, address) {
        return Err(ProtectionFault::NotPresent(AbsentPage::of(entry, address)));
    }
    match mtt.translate(entry, address, dma) {
        Err(ProtectionFault::Page { .. }) if is_on_demand => {
            Err(ProtectionFault::NotPresent(AbsentPage::of(entry, address)))
        }
        located => located,
    }
}
