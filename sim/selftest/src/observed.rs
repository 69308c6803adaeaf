//! A bus that records interrupts, and the last doorbell.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use ferroce_driver::bus::BufferPages;
use ferroce_driver::bus::{Bus, BusError, DmaMapping, InterruptHandler};
use ferroce_spec::register::VECTOR_COUNT;

/// Counts for each vector.
pub type VectorCounts = [u64; VECTOR_COUNT as usize];

/// The bus of the device under test, with records.
pub struct Observed {
    bus: Arc<dyn Bus>,
    interrupts: Arc<[AtomicU64; VECTOR_COUNT as usize]>,
    slot: AtomicU32,
    value: AtomicU64,
}

impl Observed {
    /// Creates the bus without records.
    pub fn new(bus: Arc<dyn Bus>) -> Self {
        Self {
            bus,
            interrupts: Arc::new([const { AtomicU64::new(0) }; VECTOR_COUNT as usize]),
            slot: AtomicU32::new(0),
            value: AtomicU64::new(0),
        }
    }

    /// Returns how often each vector has interrupted.
    pub fn interrupts(&self) -> VectorCounts {
        std::array::from_fn(|vector| self.interrupts[vector].load(Ordering::Acquire))
    }

    /// Returns the last doorbell: slot and value.
    pub fn last_doorbell(&self) -> (u32, u64) {
        let slot = self.slot.load(Ordering::Relaxed);
        (slot, self.value.load(Ordering::Relaxed))
    }
}

impl Bus for Observed {
    fn read32(&self, offset: u32) -> u32 {
        self.bus.read32(offset)
    }

    fn write32(&self, offset: u32, value: u32) {
        self.bus.write32(offset, value);
    }

    fn read64(&self, offset: u32) -> u64 {
        self.bus.read64(offset)
    }

    fn write64(&self, offset: u32, value: u64) {
        self.bus.write64(offset, value);
    }

    fn doorbell(&self, slot: u32, value: u64) {
        self.slot.store(slot, Ordering::Relaxed);
        self.value.store(value, Ordering::Relaxed);
        self.bus.doorbell(slot, value);
    }

    fn push_blocks(&self) -> u32 {
        self.bus.push_blocks()
    }

    fn push(&self, slot: u32, words: &[u64]) {
        self.bus.push(slot, words);
    }

    fn read_device_memory(&self, offset: u64, destination: &mut [u8]) {
        self.bus.read_device_memory(offset, destination);
    }

    fn write_device_memory(&self, offset: u64, source: &[u8]) {
        self.bus.write_device_memory(offset, source);
    }

    fn allocate(&self, length: usize) -> Result<BufferPages, BusError> {
        self.bus.allocate(length)
    }

    fn log_page_size(&self, address: usize, length: usize, page_sizes: u64) -> u8 {
        self.bus.log_page_size(address, length, page_sizes)
    }

    fn now(&self) -> Duration {
        self.bus.now()
    }

    fn map(&self, mapping: &DmaMapping) -> Result<(), BusError> {
        self.bus.map(mapping)
    }

    fn unmap(&self, iova: u64, length: usize) -> Result<(), BusError> {
        self.bus.unmap(iova, length)
    }

    fn iova_range(&self) -> Range<u64> {
        self.bus.iova_range()
    }

    fn has_congruent_iovas(&self) -> bool {
        self.bus.has_congruent_iovas()
    }

    fn set_interrupt_handler(
        &self,
        vector: u16,
        handler: Option<InterruptHandler>,
    ) -> Result<(), BusError> {
        let handler = handler.map(|handler| -> InterruptHandler {
            let interrupts = Arc::clone(&self.interrupts);
            Arc::new(move || {
                if let Some(count) = interrupts.get(usize::from(vector)) {
                    count.fetch_add(1, Ordering::Release);
                }
                handler();
            })
        });
        self.bus.set_interrupt_handler(vector, handler)
    }

    fn config_read(&self, offset: u32) -> Option<u32> {
        self.bus.config_read(offset)
    }

    fn region_size(&self, bar: u32) -> Option<u64> {
        self.bus.region_size(bar)
    }

    fn relax(&self) {
        self.bus.relax();
    }

    fn note_poll(&self) {
        self.bus.note_poll();
    }
}
