//! What the driver asks of a NIC of a world.

use std::ops::Range;
use std::sync::Arc;

use ferroce_driver::bus::{Bus, BusError, DmaMapping, InterruptHandler};
use ferroce_model::Doorbell;
use ferroce_model::time::timing::Timing;
use ferroce_spec::doorbell::SLOTS;
use ferroce_spec::register::{
    MSIX_ENTRY_SIZE, MSIX_TABLE_OFFSET, MSIX_VECTOR_MASKED, VECTOR_COUNT, offset,
};
use ferroce_units::Instant;

use super::core::Core;
use super::engine::Shared;
use ferroce_platform::mapping;

/// What a register of a device that does not answer reads as.
const GONE: u64 = u64::MAX;

/// The bus of one host.
pub(super) struct WorldBus<T: Timing> {
    pub shared: Arc<Shared<T>>,
    pub host: usize,
    push_blocks: u32,
    /// Whoever asks is in another process, and takes no time for it.
    is_served: bool,
}

impl<T: Timing> WorldBus<T> {
    pub fn new(shared: Arc<Shared<T>>, host: usize) -> Self {
        let push_blocks = shared.core.lock().nodes[host].push_blocks;
        Self {
            shared,
            host,
            push_blocks,
            is_served: false,
        }
    }

    /// For a client in another process: what it asks for takes no simulated time.
    pub fn into_served(self) -> Self {
        Self {
            is_served: true,
            ..self
        }
    }

    /// The time of the devices at which whoever calls is: a thread at its own, everybody else at that of
    /// the world.
    #[inline]
    fn time(&self, core: &Core<T>) -> Instant {
        match core.is_stepping {
            true => core.inside(self.shared.clock.now()).max(core.now),
            false => core.now,
        }
    }

    /// Writes a register whose effect is waited for: at once. What a command has written is there
    /// at once too while a thread is in a step, because time does not pass then.
    pub fn write_at_once(&self, core: &mut Core<T>, at: u32, value: u32) {
        let node = &mut core.nodes[self.host];
        node.nic.write32(at, value);
        if at == offset::command_queue_doorbell {
            node.commands = value;
        }
        core.advance_nic(self.host);
        if core.is_stepping || self.is_served {
            core.nodes[self.host].host.apply(Instant::MAX);
        }
    }

    fn write(&self, at: u32, value: u32) {
        let mut core = self.shared.core.lock();
        if !is_event_queue_doorbell(at) {
            return self.write_at_once(&mut core, at, value);
        }
        let (now, time) = (core.now, self.time(&core));
        let arrival = core.nodes[self.host]
            .host
            .write_register(now, time, at, value);
        core.expect_store(self.host, arrival);
    }
}

impl<T: Timing + Send + 'static> Bus for WorldBus<T> {
    fn read32(&self, offset: u32) -> u32 {
        let core = self.shared.core.lock();
        let node = &core.nodes[self.host];
        if node.is_dead {
            return GONE as u32;
        }
        node.nic.read32(self.time(&core), offset)
    }

    fn write32(&self, offset: u32, value: u32) {
        self.write(offset & !3, value);
    }

    fn read64(&self, offset: u32) -> u64 {
        let core = self.shared.core.lock();
        let node = &core.nodes[self.host];
        if node.is_dead {
            return GONE;
        }
        node.nic.read64(self.time(&core), offset)
    }

    fn write64(&self, offset: u32, value: u64) {
        self.write(offset & !7, value as u32);
        self.write((offset & !7) + 4, (value >> 32) as u32);
    }

    #[inline]
    fn doorbell(&self, slot: u32, value: u64) {
        if slot >= SLOTS {
            return;
        }
        let mut core = self.shared.core.lock();
        let (now, time) = (core.now, self.time(&core));
        let doorbell = Doorbell { slot, value };
        let arrival = core.nodes[self.host].host.ring(now, time, doorbell);
        core.expect_store(self.host, arrival);
    }

    fn push_blocks(&self) -> u32 {
        self.push_blocks
    }

    #[inline]
    fn push(&self, slot: u32, words: &[u64]) {
        let mut core = self.shared.core.lock();
        let (now, time) = (core.now, self.time(&core));
        let arrival = core.nodes[self.host].host.push(now, time, slot, words);
        core.expect_store(self.host, arrival);
    }

    fn read_device_memory(&self, offset: u64, destination: &mut [u8]) {
        let mut core = self.shared.core.lock();
        core.nodes[self.host]
            .nic
            .read_device_memory(offset, destination);
    }

    fn write_device_memory(&self, offset: u64, source: &[u8]) {
        let mut core = self.shared.core.lock();
        core.nodes[self.host]
            .nic
            .write_device_memory(offset, source);
    }

    fn map(&self, mapping: &DmaMapping) -> Result<(), BusError> {
        let rights = mapping::rights_of(mapping)?;
        let mut core = self.shared.core.lock();
        core.nodes[self.host]
            .host
            .mappings(false)
            .map(mapping.iova, mapping.address, mapping.length as u64, rights)
            .map_err(BusError::from)
    }

    fn unmap(&self, iova: u64, length: usize) -> Result<(), BusError> {
        let mut core = self.shared.core.lock();
        let host = &mut core.nodes[self.host].host;
        host.mappings(true)
            .unmap(iova, length as u64)
            .map_err(BusError::from)
    }

    fn iova_range(&self) -> Range<u64> {
        mapping::IOVAS
    }

    fn set_interrupt_handler(
        &self,
        vector: u16,
        handler: Option<InterruptHandler>,
    ) -> Result<(), BusError> {
        let is_masked = handler.is_none();
        if !self.shared.interrupts[self.host].set_handler(vector, handler) {
            return Err(BusError::NoSuchVector);
        }
        // What the kernel's VFIO driver does to the MSI-X table of a card.
        let entry = MSIX_TABLE_OFFSET + u32::from(vector) * MSIX_ENTRY_SIZE;
        let control = if is_masked { MSIX_VECTOR_MASKED } else { 0 };
        self.write32(entry + MSIX_ENTRY_SIZE - 4, control);
        Ok(())
    }

    #[inline]
    fn relax(&self) {
        let mut core = self.shared.core.lock();
        if core.is_stepping {
            return;
        }
        let Some((host, vectors)) = core.relax(self.host) else {
            return;
        };
        let now = core.outside(core.now);
        drop(core);
        self.shared.deliver(now, host, vectors);
    }
}

fn is_event_queue_doorbell(at: u32) -> bool {
    let first = offset::event_queue_doorbell;
    (first..first + 4 * u32::from(VECTOR_COUNT)).contains(&at)
}
