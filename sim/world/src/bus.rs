//! The driver's bus to a NIC of a world.

use core::time::Duration;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ferroce_driver::bus::{Bus, BusError, DmaMapping, InterruptHandler};
use ferroce_host::mapping;
use ferroce_host::memory::MapChange;
use ferroce_model::Doorbell;
use ferroce_model::time::timing::Timing;
use ferroce_spec::doorbell::{DoorbellKind, DoorbellValue, SLOTS};
use ferroce_spec::register::{
    MSIX_ENTRY_SIZE, MSIX_TABLE_OFFSET, MSIX_VECTOR_MASKED, answers_events, offset,
};
use ferroce_units::Instant;
use ferroce_wire::Qpn;

use super::event_loop::EventLoop;
use super::shared::Shared;

/// Value of a register of a device that does not answer.
const GONE: u64 = u64::MAX;
/// Microseconds by which each call of [`Bus::now`] advances the time: about as long as the driver
/// waits between two calls.
const NOW_STEP_US: u64 = 100;

/// The bus of one host.
pub(super) struct WorldBus<T: Timing> {
    pub shared: Arc<Shared<T>>,
    pub host: usize,
    push_blocks: u32,
    has_fenced_doorbells: bool,
    /// Number of calls of `now`.
    now_calls: AtomicU64,
    /// True if the client is another process: its accesses take no simulated time.
    is_served: bool,
}

impl<T: Timing> WorldBus<T> {
    pub fn new(shared: Arc<Shared<T>>, host: usize) -> Self {
        let (push_blocks, has_fenced_doorbells) = {
            let node = &shared.event_loop.lock().devices.nodes[host];
            (node.push_blocks, node.has_fenced_doorbells)
        };
        Self {
            shared,
            host,
            push_blocks,
            has_fenced_doorbells,
            now_calls: AtomicU64::new(0),
            is_served: false,
        }
    }

    /// Returns the bus for a client in another process: its accesses take no simulated time.
    pub fn into_served(self) -> Self {
        Self {
            is_served: true,
            ..self
        }
    }

    /// Returns the caller's time: the thread's during a step, otherwise the world's.
    #[inline]
    fn time(&self, event_loop: &EventLoop<T>) -> Instant {
        if event_loop.is_stepping {
            self.shared.clock.now().max(event_loop.now)
        } else {
            event_loop.now
        }
    }

    /// Lets the thread in its step wait until the root port has taken its store, because a fence
    /// follows the store: it flushes the write-combining line. Plain stores are buffered.
    #[inline]
    fn fence(&self, event_loop: &EventLoop<T>, taken: Instant) {
        if event_loop.is_stepping {
            self.shared.clock.set(taken.max(self.shared.clock.now()));
        }
    }

    /// Writes a register immediately because the caller waits for the effect. While a thread is in
    /// a step, no time passes: so the results of a command are also visible immediately.
    pub fn write_at_once(&self, event_loop: &mut EventLoop<T>, at: u32, value: u32) {
        let node = &mut event_loop.devices.nodes[self.host];
        node.nic.write32(at, value);
        if at == offset::command_queue_doorbell {
            node.commands = value;
        }
        event_loop.advance_nic(self.host);
        if event_loop.is_stepping || self.is_served {
            event_loop.devices.nodes[self.host].host.apply(Instant::MAX);
        }
    }

    fn write(&self, at: u32, value: u32) {
        let mut event_loop = self.shared.event_loop.lock();
        if !answers_events(at) {
            return self.write_at_once(&mut event_loop, at, value);
        }
        let time = self.time(&event_loop);
        event_loop.store(self.host, time, |host, now, time| {
            host.write_register(now, time, at, value)
        });
    }
}

impl<T: Timing + Send + 'static> Bus for WorldBus<T> {
    fn read32(&self, offset: u32) -> u32 {
        let event_loop = self.shared.event_loop.lock();
        if event_loop.devices.nodes[self.host].is_dead {
            return GONE as u32;
        }
        let time = self.time(&event_loop);
        let devices = &event_loop.devices;
        devices.read(time, self.host, |nic, now| nic.read32(now, offset))
    }

    fn write32(&self, offset: u32, value: u32) {
        self.write(offset & !3, value);
    }

    fn read64(&self, offset: u32) -> u64 {
        let event_loop = self.shared.event_loop.lock();
        if event_loop.devices.nodes[self.host].is_dead {
            return GONE;
        }
        let time = self.time(&event_loop);
        let devices = &event_loop.devices;
        devices.read(time, self.host, |nic, now| nic.read64(now, offset))
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
        let mut event_loop = self.shared.event_loop.lock();
        let time = self.time(&event_loop);
        let doorbell = Doorbell { slot, value };
        event_loop.devices.nodes[self.host].expect(qp_of(value));
        let taken = event_loop.store(self.host, time, |host, now, time| {
            host.ring(now, time, doorbell)
        });
        let kind = DoorbellKind(DoorbellValue::from_bits(value).kind());
        if self.has_fenced_doorbells && kind == DoorbellKind::SEND_QUEUE {
            self.fence(&event_loop, taken);
        }
    }

    fn push_blocks(&self) -> u32 {
        self.push_blocks
    }

    #[inline]
    fn push(&self, slot: u32, words: &[u64]) {
        let mut event_loop = self.shared.event_loop.lock();
        let time = self.time(&event_loop);
        if let Some(value) = words.first() {
            event_loop.devices.nodes[self.host].expect(qp_of(*value));
        }
        let taken = event_loop.store(self.host, time, |host, now, time| {
            host.push(now, time, slot, words)
        });
        self.fence(&event_loop, taken);
    }

    fn read_device_memory(&self, offset: u64, destination: &mut [u8]) {
        let mut event_loop = self.shared.event_loop.lock();
        event_loop.devices.nodes[self.host]
            .nic
            .read_device_memory(offset, destination);
    }

    fn write_device_memory(&self, offset: u64, source: &[u8]) {
        let mut event_loop = self.shared.event_loop.lock();
        event_loop.devices.nodes[self.host]
            .nic
            .write_device_memory(offset, source);
    }

    fn map(&self, mapping: &DmaMapping) -> Result<(), BusError> {
        let rights = mapping::rights_of(mapping)?;
        let mut event_loop = self.shared.event_loop.lock();
        event_loop.devices.nodes[self.host]
            .host
            .mappings(MapChange::Addition)
            .map(mapping.iova, mapping.address, mapping.length as u64, rights)
            .map_err(BusError::from)
    }

    fn unmap(&self, iova: u64, length: usize) -> Result<(), BusError> {
        let mut event_loop = self.shared.event_loop.lock();
        let host = &mut event_loop.devices.nodes[self.host].host;
        host.mappings(MapChange::Removal)
            .unmap(iova, length as u64)
            .map_err(BusError::from)
    }

    fn iova_range(&self) -> Range<u64> {
        mapping::IOVAS
    }

    fn has_congruent_iovas(&self) -> bool {
        false
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
        // The kernel's VFIO driver programs the MSI-X table of a card in the same way.
        let entry = MSIX_TABLE_OFFSET + u32::from(vector) * MSIX_ENTRY_SIZE;
        let control = if is_masked { MSIX_VECTOR_MASKED } else { 0 };
        self.write32(entry + MSIX_ENTRY_SIZE - 4, control);
        Ok(())
    }

    /// Returns a time that advances with each call. Simulated time stands still while a thread is
    /// in a step, so it could not limit the wait for a card that does not answer.
    fn now(&self) -> Duration {
        Duration::from_micros(NOW_STEP_US * self.now_calls.fetch_add(1, Ordering::Relaxed))
    }

    #[inline]
    fn relax(&self) {
        let mut event_loop = self.shared.event_loop.lock();
        if event_loop.is_stepping {
            return;
        }
        let Some((host, vectors)) = event_loop.relax(self.host) else {
            return;
        };
        let now = event_loop.now;
        drop(event_loop);
        self.shared.deliver(now, host, vectors);
    }
}

/// Returns the number in a doorbell: a QPN, unless it is the doorbell of another kind of queue.
#[inline]
fn qp_of(value: u64) -> Qpn {
    Qpn::new(DoorbellValue::from_bits(value).number())
}
