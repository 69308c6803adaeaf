//! The process of the application, as the model sees it: its memory, doorbells and interrupts.

use std::sync::Arc;

use ferroce_host::memory::MemoryMap;
use ferroce_model::ports::host::DmaAtomic;
use ferroce_model::{DmaError, Doorbell, UntimedHost};
use ferroce_platform::doorbells::polled::PageTaker;
use ferroce_platform::doorbells::{Doorbells, Taker};
use ferroce_platform::own_memory::ProcessMemory;
use ferroce_units::Instant;

use super::relaxed::RelaxedWrites;
use crate::fabric::registry::{DeviceFault, DeviceFaults};

/// Maximum number of pending doorbells under the lock; further ones use the bitmap.
pub(super) const MAX_DIRECT: usize = 64;

/// The process as the model sees it.
#[derive(Debug)]
pub(super) struct ProcessHost {
    pub(super) memory: MemoryMap,
    /// Mappings while bus mastering is disabled; `memory` is empty meanwhile.
    pub(super) parked: Option<MemoryMap>,
    pub(super) doorbells: Arc<Doorbells>,
    pub(super) taker: Taker,
    /// Doorbells of another process.
    pub(super) pages: Option<PageTaker>,
    /// Doorbell slots written while the lock was held.
    pub(super) direct: Vec<u32>,
    /// Vectors raised since the lock was taken, one bit each.
    pub(super) raised: u64,
    /// Pending injected faults of this link.
    pub(super) faults: DeviceFaults,
    /// Lines of relaxed writes that have not reached memory; `None`: all writes are in order.
    pub(super) relaxed: Option<Box<RelaxedWrites>>,
}

impl UntimedHost for ProcessHost {
    #[inline]
    fn read(&mut self, iova: u64, destination: &mut [u8]) -> Result<(), DmaError> {
        self.settle();
        if !self.faults.is_empty() {
            self.fail_read(iova, destination.len())?;
        }
        self.memory.read(iova, destination)
    }

    /// Ignores injected faults, which belong to the link.
    fn peek(&mut self, iova: u64, destination: &mut [u8]) -> Result<(), DmaError> {
        self.memory.read(iova, destination)
    }

    #[inline]
    fn write(&mut self, iova: u64, source: &[u8]) -> Result<(), DmaError> {
        self.settle();
        self.memory.write(iova, source)
    }

    #[inline]
    fn write_relaxed(&mut self, iova: u64, source: &[u8]) -> Result<(), DmaError> {
        match &mut self.relaxed {
            None => self.memory.write(iova, source),
            Some(relaxed) => relaxed.write(&mut self.memory, iova, source),
        }
    }

    #[inline]
    fn write_descriptor(&mut self, iova: u64, words: &[u64]) -> Result<(), DmaError> {
        self.settle();
        self.memory.write_descriptor(iova, words)
    }

    fn atomic(&mut self, iova: u64, operation: DmaAtomic) -> Result<u64, DmaError> {
        self.settle();
        if !self.faults.is_empty() {
            self.fail_read(iova, size_of::<u64>())?;
        }
        self.memory.atomic(iova, operation)
    }

    #[inline]
    fn interrupt(&mut self, vector: u16) {
        self.settle();
        // An interrupt is a memory write as well, so it needs bus mastering.
        if self.parked.is_none() && !self.loses(DeviceFault::LostInterrupt) {
            self.raised |= 1u64.checked_shl(u32::from(vector)).unwrap_or(0);
        }
    }

    #[inline]
    fn next_doorbell(&mut self) -> Option<Doorbell> {
        if !self.faults.is_empty() {
            return self.next_doorbell_with_faults();
        }
        self.take_doorbell()
    }
}

impl ProcessHost {
    /// Returns a process without registered memory.
    pub(super) fn new(doorbells: Arc<Doorbells>, relaxed_order: Option<u64>) -> Self {
        Self {
            memory: MemoryMap::of_process(Arc::new(ProcessMemory)),
            parked: None,
            doorbells,
            taker: Taker::default(),
            pages: None,
            direct: Vec::with_capacity(MAX_DIRECT),
            raised: 0,
            faults: DeviceFaults::default(),
            relaxed: relaxed_order.map(|seed| RelaxedWrites::new(seed).into()),
        }
    }

    /// Lets all relaxed writes reach memory.
    #[inline]
    pub(super) fn settle(&mut self) {
        if let Some(relaxed) = &mut self.relaxed
            && relaxed.is_waiting()
        {
            relaxed.settle(&mut self.memory);
        }
    }

    /// Lets relaxed writes reach memory that have waited for long; returns until when the others
    /// wait.
    #[inline]
    pub(super) fn settle_old(&mut self, now: Instant) -> Option<Instant> {
        let relaxed = self.relaxed.as_mut()?;
        relaxed.settle_old(&mut self.memory, now)
    }

    #[inline]
    pub(super) fn take_doorbell(&mut self) -> Option<Doorbell> {
        let slot = self
            .direct
            .pop()
            .or_else(|| self.taker.next(&self.doorbells));
        let Some(slot) = slot else {
            let (slot, value) = self.pages.as_mut()?.next_doorbell()?;
            return Some(Doorbell { slot, value });
        };
        Some(Doorbell {
            slot,
            value: self.doorbells.value(slot),
        })
    }
}
