//! The card on the driver's bus.

use std::ops::Range;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Instant as Moment;

use ferroce_driver::bus::fake::FakeMemory;
use ferroce_driver::bus::{Bus, BusError, DmaMapping, InterruptHandler};
use ferroce_model::{Doorbell, Nic, NicConfig};
use ferroce_spec::doorbell::{BAR2_SIZE, SLOTS_PER_PAGE};
use ferroce_spec::register::{
    BAR0_SIZE, BAR4_SIZE, CONTRACT_MAJOR, COUNTERS_OFFSET, Control, DEVICE_ID, MSIX_ENTRY_SIZE,
    MSIX_PENDING_OFFSET, MSIX_TABLE_OFFSET, VECTOR_COUNT, VENDOR_ID, offset,
};
use ferroce_units::Instant;
use ferroce_units::random::SplitMix64;

use super::Fault;
use super::host::{CardHost, LoopbackPlug};

const MAC: [u8; 6] = [0x02, 0, 0, 0, 0, 0x42];
const QPN_BASE: u32 = 0x1_0000;
/// Maximum number of model runs in one call; the model normally becomes idle earlier.
const TURNS_MAX: usize = 1000;

/// A NIC with one fault.
pub struct Card {
    fault: Fault,
    start: Moment,
    memory: Arc<FakeMemory>,
    device: Mutex<Device>,
    handlers: Mutex<Vec<Option<InterruptHandler>>>,
}

struct Device {
    nic: Nic<LoopbackPlug>,
    host: CardHost,
    plug: LoopbackPlug,
    /// Base of the command queue, as last written.
    base: u64,
    /// Number of commands posted, from the last doorbell.
    commands: u32,
    /// Overwritten value of `hardware_revision`.
    revision: Option<u32>,
    /// Random numbers, and a count of accesses.
    random: SplitMix64,
    reads: u64,
}

impl Card {
    pub fn new(fault: Fault) -> Self {
        let memory = Arc::new(FakeMemory::default());
        let seed = match fault {
            Fault::Random(seed) | Fault::RandomDma(seed) => seed,
            _ => 1,
        };
        let mut nic = Nic::new(NicConfig::functional(QPN_BASE, MAC));
        // MSI-X is unmasked by the kernel when a handler is set.
        for vector in 0..u32::from(VECTOR_COUNT) {
            nic.write32(MSIX_TABLE_OFFSET + vector * MSIX_ENTRY_SIZE + 12, 0);
        }
        Self {
            fault,
            start: Moment::now(),
            device: Mutex::new(Device {
                nic,
                host: CardHost::new(Arc::clone(&memory), fault, seed),
                plug: LoopbackPlug::new(fault),
                base: 0,
                commands: 0,
                revision: None,
                random: SplitMix64::new(seed),
                reads: 0,
            }),
            handlers: Mutex::new(vec![None; VECTOR_COUNT.into()]),
            memory,
        }
    }

    /// Returns true if the driver has released all memory.
    pub fn holds_no_memory(&self) -> bool {
        self.memory.is_empty()
    }

    fn now(&self) -> Instant {
        Instant::from_ns(1_000_000 + self.start.elapsed().as_nanos() as u64)
    }

    /// Runs the model until nothing moves, and delivers interrupts.
    fn run(&self) {
        for _ in 0..TURNS_MAX {
            let mut device = self.device.lock().expect("no panic");
            let Device {
                nic, host, plug, ..
            } = &mut *device;
            let worked = nic.advance(self.now(), host, plug).worked;
            let raised = std::mem::take(&mut host.raised);
            drop(device);
            for vector in &raised {
                let handler = self.handlers.lock().expect("no panic")[usize::from(*vector)].clone();
                if let Some(handler) = handler {
                    handler();
                }
            }
            if !worked && raised.is_empty() {
                return;
            }
        }
    }

    fn register(&self, at: u32) -> u64 {
        let mut device = self.device.lock().expect("no panic");
        let at = match self.fault {
            // Only below the counters, which are decoded separately.
            Fault::AliasedRegisters if at < COUNTERS_OFFSET => at & !0x800,
            _ => at,
        };
        let value = device.nic.read64(self.now(), at);
        device.reads += 1;
        match self.fault {
            Fault::Gone => u64::MAX,
            Fault::GoneAfter(reads) if device.reads > reads => u64::MAX,
            Fault::Random(_) => device.random.number(),
            _ if at == offset::magic => self.identity(value, device.reads),
            _ if at == offset::device_id => match device.revision {
                Some(revision) => value & 0xffff_ffff | u64::from(revision) << 32,
                None => value,
            },
            _ if at == offset::control => self.control(value),
            _ if at == offset::command_queue_base => self.base(value, device.base),
            _ if at == offset::clock => self.clock(value, device.reads),
            _ if at == offset::port_mac && self.fault == Fault::NoMac => 0,
            _ if (COUNTERS_OFFSET..MSIX_TABLE_OFFSET).contains(&at) => self.counter(at, value),
            _ => value,
        }
    }

    fn identity(&self, value: u64, reads: u64) -> u64 {
        match self.fault {
            Fault::BigEndian => value & !0xffff_ffff | u64::from((value as u32).swap_bytes()),
            Fault::MarginalLink if reads % 700 == 699 => value ^ 0x10,
            Fault::OtherContract => {
                value & 0xffff_ffff | u64::from(CONTRACT_MAJOR + 1) << 48 | 7 << 32
            }
            _ => value,
        }
    }

    fn control(&self, value: u64) -> u64 {
        let mut control = Control::from_bits(value as u32);
        match self.fault {
            Fault::ResetNeverEnds => control.set_reset(true),
            Fault::NeverEnabled => return value & !(2 << 32),
            _ => return value,
        }
        value & !0xffff_ffff | u64::from(control.bits())
    }

    fn base(&self, value: u64, written: u64) -> u64 {
        match self.fault {
            Fault::StuckAtOne(mask) => value | mask,
            Fault::StuckAtZero(mask) => value & !mask,
            Fault::ResetForgetsNothing => written,
            _ => value,
        }
    }

    fn clock(&self, value: u64, reads: u64) -> u64 {
        match self.fault {
            Fault::ClockStands => 42,
            Fault::ClockCycles => value / 4,
            Fault::ClockGoesBack if reads % 1000 == 999 => value & !0xffff_ffff,
            Fault::ClockGoesBack => value | 0xffff_0000,
            _ => value,
        }
    }

    fn counter(&self, at: u32, value: u64) -> u64 {
        let is =
            |counter: ferroce_spec::counter::Counter| at == COUNTERS_OFFSET + 8 * counter as u32;
        match self.fault {
            Fault::CounterStands(counter) if is(counter) => 0,
            Fault::CounterTwice(counter) if is(counter) => 2 * value,
            Fault::CountersSurviveReset if is(ferroce_spec::counter::Counter::dma_reads) => {
                value + 3
            }
            _ => value,
        }
    }

    /// Returns the written bits that arrive.
    fn accept(&self, at: u32, value: u32) -> bool {
        let mut device = self.device.lock().expect("no panic");
        let base = offset::command_queue_base;
        match at {
            _ if self.fault == Fault::Gone => return false,
            _ if matches!(self.fault, Fault::GoneAfter(reads) if device.reads > reads) => {
                return false;
            }
            _ if at == base => device.base = device.base & !0xffff_ffff | u64::from(value),
            _ if at == base + 4 => {
                device.base = device.base & 0xffff_ffff | u64::from(value) << 32;
                return self.fault != Fault::UpperWritesLost;
            }
            offset::hardware_revision if self.fault == Fault::WritableIdentity => {
                device.revision = Some(value);
            }
            offset::command_queue_doorbell => {
                device.commands = value;
                return self.fault != Fault::CommandDoorbellLost;
            }
            offset::control if Control::from_bits(value).reset() => self.meet_reset(&mut device),
            _ => {}
        }
        true
    }

    /// Returns true if commands run later than their doorbell.
    fn takes_time(&self) -> bool {
        matches!(
            self.fault,
            Fault::StaleReadAfterReset | Fault::WriteAfterReset
        )
    }

    /// Keeps the DMA that is in flight at a reset.
    fn meet_reset(&self, device: &mut Device) {
        let done = device
            .nic
            .read32(self.now(), offset::command_queue_consumer);
        if self.takes_time() && std::mem::take(&mut device.commands) != done {
            device.host.keep_command(device.base);
        }
    }

    /// Returns a dword of the configuration space.
    fn config(&self, at: u32) -> u32 {
        let fault = |fault| self.fault == fault;
        let pointer = |next: u32, id: u32| next << 8 | id;
        match at {
            _ if fault(Fault::NotEnumerated) => u32::MAX,
            0x00 if fault(Fault::OtherDevice) => 0x1017_15b3,
            0x00 => u32::from(DEVICE_ID) << 16 | u32::from(VENDOR_ID),
            0x04 if fault(Fault::NoBusMaster) => 0x0010_0002,
            0x04 if fault(Fault::NoMemoryDecoding) => 0x0010_0004,
            0x04 => 0x0010_0006,
            0x08 => 0x0200_0001,
            0x10 | 0x18 | 0x20 if fault(Fault::NoBarAddress) => 0x4,
            0x10 | 0x18 | 0x20 => 0xe000_0004 + (at << 16),
            0x34 => 0x40,
            0x40 => pointer(0x48, 0x01),
            0x48 if fault(Fault::NoMsix) => pointer(0, 0x10),
            0x48 if fault(Fault::CapabilityLoop) => pointer(0x40, 0x10),
            0x48 => pointer(0x90, 0x10),
            // The card supports 8 GT/s x8 and runs at 8 GT/s x4.
            0x54 => 0x83,
            0x58 => 0x0043_0000,
            0x90 => pointer(0, 0x11) | (u32::from(VECTOR_COUNT) - 1) << 16,
            0x94 if fault(Fault::MsixElsewhere) => MSIX_TABLE_OFFSET | 4,
            0x94 => MSIX_TABLE_OFFSET,
            0x98 => MSIX_PENDING_OFFSET,
            _ => 0,
        }
    }

    fn slot(&self, slot: u32) -> Option<u32> {
        match self.fault {
            Fault::Gone => None,
            Fault::DoorbellPageDead(page) if slot / SLOTS_PER_PAGE == page => None,
            Fault::DoorbellPagesAliased => Some(slot % (64 * SLOTS_PER_PAGE)),
            _ => Some(slot),
        }
    }

    fn memory_place(&self, offset: u64) -> u64 {
        match self.fault {
            Fault::DeviceMemoryAliased => offset % (u64::from(BAR4_SIZE) / 2),
            _ => offset,
        }
    }
}

impl Bus for Card {
    fn read32(&self, at: u32) -> u32 {
        (self.register(at & !7) >> (8 * (at & 4))) as u32
    }

    fn read64(&self, at: u32) -> u64 {
        let value = self.register(at);
        if self.fault == Fault::ReadHalves {
            return value & 0xffff_ffff | self.register(at ^ 8) & !0xffff_ffff;
        }
        value
    }

    fn write32(&self, at: u32, value: u32) {
        if self.accept(at, value) {
            self.device.lock().expect("no panic").nic.write32(at, value);
        }
        if at != offset::command_queue_doorbell || !self.takes_time() {
            self.run();
        }
    }

    fn write64(&self, at: u32, value: u64) {
        for (at, half) in [(at, value as u32), (at + 4, (value >> 32) as u32)] {
            if self.accept(at, half) {
                self.device.lock().expect("no panic").nic.write32(at, half);
            }
        }
        self.run();
    }

    fn doorbell(&self, slot: u32, value: u64) {
        let reads = self.device.lock().expect("no panic").reads;
        if matches!(self.fault, Fault::GoneAfter(limit) if reads > limit) {
            return;
        }
        if let Some(slot) = self.slot(slot) {
            let mut device = self.device.lock().expect("no panic");
            device.host.doorbells.push_back(Doorbell { slot, value });
        }
        self.run();
    }

    fn read_device_memory(&self, offset: u64, destination: &mut [u8]) {
        let mut device = self.device.lock().expect("no panic");
        let place = self.memory_place(offset);
        device.nic.read_device_memory(place, destination);
    }

    fn write_device_memory(&self, offset: u64, source: &[u8]) {
        let mut device = self.device.lock().expect("no panic");
        let place = self.memory_place(offset);
        if self.fault == Fault::DeviceMemoryDwords {
            let mut padded = source.to_vec();
            padded.resize(source.len().next_multiple_of(4), 0);
            return device.nic.write_device_memory(place, &padded);
        }
        device.nic.write_device_memory(place, source);
    }

    fn map(&self, mapping: &DmaMapping) -> Result<(), BusError> {
        self.memory.map(mapping)
    }

    fn unmap(&self, iova: u64, length: usize) -> Result<(), BusError> {
        self.memory.unmap(iova, length)
    }

    fn iova_range(&self) -> Range<u64> {
        0..1 << 40
    }

    fn set_interrupt_handler(
        &self,
        vector: u16,
        handler: Option<InterruptHandler>,
    ) -> Result<(), BusError> {
        let mut handlers = self.handlers.lock().expect("no panic");
        let place = handlers.get_mut(usize::from(vector));
        *place.ok_or(BusError::NoSuchVector)? = handler;
        Ok(())
    }

    fn config_read(&self, at: u32) -> Option<u32> {
        Some(self.config(at))
    }

    fn region_size(&self, bar: u32) -> Option<u64> {
        Some(match (bar, self.fault) {
            (0, _) => BAR0_SIZE.into(),
            (2, Fault::SmallDoorbellBar) => 4096,
            (2, _) => BAR2_SIZE.into(),
            _ => BAR4_SIZE.into(),
        })
    }

    fn now(&self) -> std::time::Duration {
        static START: LazyLock<Moment> = LazyLock::new(Moment::now);
        START.elapsed()
    }

    fn relax(&self) {
        self.device.lock().expect("no panic").host.write_late();
        self.run();
    }
}
