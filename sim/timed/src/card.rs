//! The card of a host, as it is served to the program on it.
//!
//! Doorbells come through the pages of the threads, with their times. A vfio-user write to a
//! doorbell also counts as a doorbell, for clients that take no simulated time. Interrupts go to
//! the thread that has the next turn; eventfds only unmask the vectors.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use ferroce_driver::bus::{Bus, BusError, DmaMapping, InterruptHandler};
use ferroce_host::mapping::FileIdentity;
use ferroce_host::memory::{MapChange, MemoryMap};
use ferroce_platform::doorbells::polled::DoorbellPages;
use ferroce_platform::served::ServedModel;
use ferroce_world::ServedCard;

use super::shared::{Event, Shared};

/// The served card of a host.
#[derive(Debug)]
pub struct Card {
    model: Arc<dyn ServedCard>,
    shared: Arc<Shared>,
    host: usize,
}

impl Card {
    /// Creates the card of `host` over `model`.
    pub fn new(model: Arc<dyn ServedCard>, shared: &Arc<Shared>, host: usize) -> Self {
        Self {
            model,
            shared: Arc::clone(shared),
            host,
        }
    }

    /// Reports an access: the world may be waiting for it.
    fn report_access(&self) {
        self.shared.note_use(self.host);
        self.shared.report(Event::Access);
    }
}

impl Bus for Card {
    fn read32(&self, offset: u32) -> u32 {
        self.shared.note_use(self.host);
        self.model.read32(offset)
    }

    fn write32(&self, offset: u32, value: u32) {
        self.model.write32(offset, value);
        self.report_access();
    }

    fn read64(&self, offset: u32) -> u64 {
        self.shared.note_use(self.host);
        self.model.read64(offset)
    }

    fn write64(&self, offset: u32, value: u64) {
        self.model.write64(offset, value);
        self.report_access();
    }

    fn doorbell(&self, slot: u32, value: u64) {
        self.model.doorbell(slot, value);
        self.report_access();
    }

    fn read_device_memory(&self, offset: u64, destination: &mut [u8]) {
        self.shared.note_use(self.host);
        self.model.read_device_memory(offset, destination);
    }

    fn write_device_memory(&self, offset: u64, source: &[u8]) {
        self.shared.note_use(self.host);
        self.model.write_device_memory(offset, source);
    }

    fn map(&self, mapping: &DmaMapping) -> Result<(), BusError> {
        self.model.map(mapping)
    }

    fn unmap(&self, iova: u64, length: usize) -> Result<(), BusError> {
        self.model.unmap(iova, length)
    }

    fn iova_range(&self) -> Range<u64> {
        self.model.iova_range()
    }

    fn has_congruent_iovas(&self) -> bool {
        self.model.has_congruent_iovas()
    }

    fn set_interrupt_handler(
        &self,
        vector: u16,
        handler: Option<InterruptHandler>,
    ) -> Result<(), BusError> {
        let (shared, host) = (Arc::clone(&self.shared), self.host);
        let bit = 1u64.checked_shl(vector.into()).unwrap_or(0);
        let handler = handler
            .map(|_| -> InterruptHandler { Arc::new(move || shared.add_interrupts(host, bit)) });
        self.model.set_interrupt_handler(vector, handler)
    }

    fn now(&self) -> Duration {
        self.model.now()
    }

    fn relax(&self) {}
}

impl ServedModel for Card {
    fn polls_doorbells(&self) -> bool {
        false
    }

    fn set_doorbell_pages(&self, _pages: Option<Arc<DoorbellPages>>) {}

    fn change_mappings(&self, kind: MapChange, change: &mut dyn FnMut(&mut MemoryMap)) {
        self.shared.note_use(self.host);
        self.model.change_mappings(kind, change);
    }

    fn note_file(&self, iovas: Range<u64>, file: FileIdentity, offset: u64) {
        self.model.note_file(iovas, file, offset);
    }

    fn set_bus_master(&self, is_allowed: bool) {
        self.model.set_bus_master(is_allowed);
    }

    /// Does nothing: frames are routed by the number of the host, which does not change.
    fn forget_addresses(&self) {}

    fn reset(&self) {
        self.model.reset();
        self.report_access();
    }

    fn reset_vectors(&self) {
        self.model.reset_vectors();
        self.report_access();
    }
}
