//! The card for the driver, with memory of this process and a cable that leads back to the card.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the card's clock is held against that of the machine"
)]

mod host;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Instant as Moment;

use ferroce_driver::bus::fake::FakeMemory;
use ferroce_driver::bus::{Bus, BusError, DmaMapping, InterruptHandler};
use ferroce_model::ports::port::{Port, Reservation, Route};
use ferroce_model::{Doorbell, Function, NicConfig, Progress};
use ferroce_rtl_card::{RtlNic, SlotSizes};
use ferroce_spec::doorbell::BAR2_SIZE;
use ferroce_spec::register::{
    BAR0_SIZE, BAR4_SIZE, MSIX_ENTRY_SIZE, MSIX_TABLE_OFFSET, MSIX_VECTOR_MASKED, VECTOR_COUNT,
};
use ferroce_units::Instant;

use host::CardHost;

/// Address of the card.
pub const MAC: [u8; 6] = [0x02, 0, 0, 0, 0, 0x42];
const QPN_BASE: u32 = 0x1_0000;
/// Cycles of a register access: work in progress continues, but does not finish.
const CYCLES_PER_ACCESS: u64 = 12;
/// Number of calls after which the card is quiet if there is no further input.
const RUNS_MAX: usize = 1000;

/// A loopback cable.
#[derive(Debug, Default)]
pub struct Loopback {
    frames: VecDeque<Vec<u8>>,
}

impl Port for Loopback {
    type Frame = Vec<u8>;

    fn reserve(&mut self, _route: &Route, length: usize) -> Reservation<Vec<u8>> {
        Reservation::Ready(vec![0; length])
    }

    fn transmit(&mut self, _at: Instant, frame: Vec<u8>) {
        self.frames.push_back(frame);
    }

    fn cancel(&mut self, _frame: Vec<u8>) {}

    fn receive(&mut self, now: Instant) -> Option<(Instant, Vec<u8>)> {
        Some((now, self.frames.pop_front()?))
    }

    fn release(&mut self, _frame: Vec<u8>) {}

    fn computes_icrc(&self) -> bool {
        true
    }

    fn carries_icrc(&self, _frame: &Vec<u8>) -> bool {
        true
    }
}

struct Device {
    card: RtlNic<Loopback>,
    host: CardHost,
    port: Loopback,
}

/// The card on the driver's bus.
pub struct CardBus {
    start: Moment,
    memory: Arc<FakeMemory>,
    device: Mutex<Device>,
    handlers: Mutex<Vec<Option<InterruptHandler>>>,
    /// Number of drivers that have ended without releasing their memory.
    lost_drivers: AtomicU64,
}

impl CardBus {
    /// Sets the latency of host memory: cycles from the request of a line to the line. With sizes,
    /// the card is in a slot.
    pub fn new(line_latency_cycles: u64, sizes: Option<SlotSizes>) -> Self {
        let memory = Arc::new(FakeMemory::default());
        let config = NicConfig::functional(QPN_BASE, MAC);
        let mut card: RtlNic<Loopback> = match sizes {
            Some(sizes) => RtlNic::in_slot(&config, sizes),
            None => Function::new(config),
        };
        card.set_line_latency_cycles(line_latency_cycles);
        Self {
            start: Moment::now(),
            device: Mutex::new(Device {
                card,
                host: CardHost::new(&memory),
                port: Loopback::default(),
            }),
            handlers: Mutex::new(vec![None; VECTOR_COUNT.into()]),
            memory,
            lost_drivers: AtomicU64::new(0),
        }
    }

    /// The driver has ended without releasing its memory: the next one gets other addresses.
    #[allow(dead_code, reason = "a part of the tests")]
    pub fn lose_driver(&self) {
        self.lost_drivers.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns true if the driver has released all memory.
    #[allow(dead_code, reason = "a part of the tests")]
    pub fn holds_no_memory(&self) -> bool {
        self.memory.is_empty()
    }

    fn now(&self) -> Instant {
        Instant::from_ns(1_000_000 + self.start.elapsed().as_nanos() as u64)
    }

    /// Acts on the card, lets it run for some cycles, and delivers interrupts.
    fn with<T>(&self, cycles: u64, act: impl FnOnce(&mut Device) -> T) -> (T, Progress) {
        let mut device = self.device.lock().expect("no panic");
        let result = act(&mut device);
        let Device { card, host, port } = &mut *device;
        let progress = card.run(self.now(), host, port, cycles);
        let raised = std::mem::take(&mut host.raised);
        drop(device);
        for vector in raised {
            let handler = self.handlers.lock().expect("no panic")[usize::from(vector)].clone();
            if let Some(handler) = handler {
                handler();
            }
        }
        (result, progress)
    }

    /// Accesses the card, which then runs for some cycles.
    pub fn access<T>(&self, act: impl FnOnce(&mut RtlNic<Loopback>, Instant) -> T) -> T {
        let now = self.now();
        self.with(CYCLES_PER_ACCESS, |device| act(&mut device.card, now))
            .0
    }
}

impl Bus for CardBus {
    fn read32(&self, offset: u32) -> u32 {
        self.access(|card, now| card.read32(now, offset))
    }

    fn write32(&self, offset: u32, value: u32) {
        self.access(|card, _| card.write32(offset, value));
    }

    fn read64(&self, offset: u32) -> u64 {
        self.access(|card, now| card.read64(now, offset))
    }

    fn write64(&self, offset: u32, value: u64) {
        self.access(|card, _| card.write64(offset, value));
    }

    fn doorbell(&self, slot: u32, value: u64) {
        self.with(CYCLES_PER_ACCESS, |device| {
            device.host.doorbells.push_back(Doorbell { slot, value });
        });
    }

    fn read_device_memory(&self, offset: u64, destination: &mut [u8]) {
        self.access(|card, _| card.read_device_memory(offset, destination));
    }

    fn write_device_memory(&self, offset: u64, source: &[u8]) {
        self.access(|card, _| card.write_device_memory(offset, source));
    }

    fn map(&self, mapping: &DmaMapping) -> Result<(), BusError> {
        self.memory.map(mapping)
    }

    fn unmap(&self, iova: u64, length: usize) -> Result<(), BusError> {
        self.memory.unmap(iova, length)
    }

    fn iova_range(&self) -> Range<u64> {
        let begin = self.lost_drivers.load(Ordering::Relaxed) << 40;
        begin..begin + (1 << 40)
    }

    fn set_interrupt_handler(
        &self,
        vector: u16,
        handler: Option<InterruptHandler>,
    ) -> Result<(), BusError> {
        let is_masked = handler.is_none();
        let mut handlers = self.handlers.lock().expect("no panic");
        *handlers
            .get_mut(usize::from(vector))
            .ok_or(BusError::NoSuchVector)? = handler;
        drop(handlers);
        // The kernel does the same with the table of a board.
        let control = MSIX_TABLE_OFFSET + u32::from(vector) * MSIX_ENTRY_SIZE + MSIX_ENTRY_SIZE - 4;
        self.write32(control, if is_masked { MSIX_VECTOR_MASKED } else { 0 });
        Ok(())
    }

    fn region_size(&self, bar: u32) -> Option<u64> {
        match bar {
            0 => Some(BAR0_SIZE.into()),
            2 => Some(BAR2_SIZE.into()),
            4 => Some(BAR4_SIZE.into()),
            _ => None,
        }
    }

    fn now(&self) -> std::time::Duration {
        static START: LazyLock<Moment> = LazyLock::new(Moment::now);
        START.elapsed()
    }

    fn relax(&self) {
        for _ in 0..RUNS_MAX {
            let ((), progress) = self.with(ferroce_rtl_card::CYCLES_PER_ADVANCE, |_| ());
            if progress.rests {
                return;
            }
        }
    }
}
