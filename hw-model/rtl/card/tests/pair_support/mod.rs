//! Two cards on one cable, clocked together, each with its own driver. They are cards in RTL, or
//! the model's NICs.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the driver limits its waits by the machine's clock"
)]

#[path = "../card_support/host.rs"]
mod host;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};
use std::time::Instant as Moment;

use ferroce_driver::Device;
use ferroce_driver::bus::fake::FakeMemory;
use ferroce_driver::bus::{Bus, BusError, DmaMapping, InterruptHandler};
use ferroce_model::ports::port::{Port, Reservation, Route};
use ferroce_model::{Counters, Doorbell, Function, Nic, NicConfig};
use ferroce_rtl_card::RtlNic;
use ferroce_spec::doorbell::BAR2_SIZE;
use ferroce_spec::register::{BAR0_SIZE, BAR4_SIZE};
use ferroce_units::{Duration, Instant};

pub use host::CardHost;

/// Nanoseconds of a clock cycle: 250 MHz.
pub const CYCLE_NS: u64 = 4;
/// Time from the last beat of a frame at one card to the first beat at the other.
const CABLE: Duration = Duration::from_ns(500);
/// Cycles of a register access or an empty poll.
const CYCLES_PER_ACCESS: u64 = 16;

/// A change of a frame on the cable.
pub type Change = fn(&mut [u8]);
type Frames = Arc<Mutex<VecDeque<(Instant, Vec<u8>)>>>;

/// One end of the cable.
#[derive(Debug)]
pub struct CableEnd {
    out: Frames,
    back: Frames,
    /// Number of the next frames that are lost.
    to_lose: Arc<AtomicU64>,
    /// Changes the next frame.
    to_change: Arc<Mutex<Option<Change>>>,
}

impl Port for CableEnd {
    type Frame = Vec<u8>;

    fn reserve(&mut self, _route: &Route, length: usize) -> Reservation<Vec<u8>> {
        Reservation::Ready(vec![0; length])
    }

    fn transmit(&mut self, at: Instant, mut frame: Vec<u8>) {
        let left = self.to_lose.load(Ordering::Relaxed);
        if left > 0 {
            self.to_lose.store(left - 1, Ordering::Relaxed);
            return;
        }
        if let Some(change) = self.to_change.lock().expect("no panic").take() {
            change(&mut frame);
        }
        let mut out = self.out.lock().expect("no panic");
        out.push_back((at + CABLE, frame));
    }

    fn cancel(&mut self, _frame: Vec<u8>) {}

    fn receive(&mut self, _now: Instant) -> Option<(Instant, Vec<u8>)> {
        self.back.lock().expect("no panic").pop_front()
    }

    fn release(&mut self, _frame: Vec<u8>) {}

    fn computes_icrc(&self) -> bool {
        true
    }

    fn carries_icrc(&self, _frame: &Vec<u8>) -> bool {
        true
    }
}

/// A card at one end of the cable.
pub trait Card: Function<CableEnd> + 'static {
    /// Runs for a clock cycle.
    fn cycle(&mut self, now: Instant, host: &mut CardHost, end: &mut CableEnd);

    /// Sets the latency of host memory: cycles from the request of a line to the line.
    fn set_line_latency(&mut self, cycles: u64);
}

impl Card for RtlNic<CableEnd> {
    fn cycle(&mut self, now: Instant, host: &mut CardHost, end: &mut CableEnd) {
        self.run(now, host, end, 1);
    }

    fn set_line_latency(&mut self, cycles: u64) {
        self.set_line_latency_cycles(cycles);
    }
}

/// The functional model, which has no cycles.
impl Card for Nic<CableEnd> {
    fn cycle(&mut self, now: Instant, host: &mut CardHost, end: &mut CableEnd) {
        self.advance(now, host, end);
    }

    fn set_line_latency(&mut self, _cycles: u64) {}
}

struct Side<C> {
    card: C,
    host: CardHost,
    end: CableEnd,
}

/// Both cards and the number of elapsed cycles.
pub struct Pair<C> {
    sides: [Side<C>; 2],
    cycles: u64,
}

impl<C: Card> Pair<C> {
    fn now(&self) -> Instant {
        Instant::from_ns(1_000_000 + self.cycles * CYCLE_NS)
    }

    /// Runs both cards for some cycles.
    pub fn run(&mut self, cycles: u64) {
        for _ in 0..cycles {
            let now = self.now();
            for Side { card, host, end } in &mut self.sides {
                card.cycle(now, host, end);
            }
            self.cycles += 1;
        }
    }

    /// Returns the number of elapsed cycles.
    pub fn cycles(&self) -> u64 {
        self.cycles
    }

    /// Returns a card.
    #[allow(dead_code, reason = "some tests do not look into a card")]
    pub fn card(&mut self, side: usize) -> &mut C {
        &mut self.sides[side].card
    }

    /// Returns the counters of a card.
    pub fn counters(&mut self, side: usize) -> Counters {
        self.sides[side].card.counters()
    }

    /// Loses the next frames that a card sends.
    pub fn lose(&mut self, side: usize, frames: u64) {
        let to_lose = &self.sides[side].end.to_lose;
        to_lose.store(frames, Ordering::Relaxed);
    }

    /// Changes the next frame that a card sends.
    pub fn change(&mut self, side: usize, change: Change) {
        let to_change = &self.sides[side].end.to_change;
        *to_change.lock().expect("no panic") = Some(change);
    }
}

/// The bus to a card of a pair.
pub struct PairBus<C> {
    side: usize,
    memory: Arc<FakeMemory>,
    pair: Arc<Mutex<Pair<C>>>,
}

impl<C: Card> PairBus<C> {
    fn pair(&self) -> MutexGuard<'_, Pair<C>> {
        self.pair.lock().expect("no panic")
    }

    fn access<T>(&self, act: impl FnOnce(&mut C, Instant) -> T) -> T {
        let mut pair = self.pair();
        let now = pair.now();
        let result = act(&mut pair.sides[self.side].card, now);
        pair.run(CYCLES_PER_ACCESS);
        result
    }
}

/// Returns the cards, and a driver for each. A line of host memory takes `line_latency_cycles`.
#[allow(dead_code, reason = "some tests make their cards")]
pub fn open<C: Card>(line_latency_cycles: u64) -> (Arc<Mutex<Pair<C>>>, [Arc<Device>; 2]) {
    open_made(line_latency_cycles, C::new)
}

/// Does the same for cards that `make` returns.
pub fn open_made<C: Card>(
    line_latency_cycles: u64,
    make: impl Fn(NicConfig) -> C,
) -> (Arc<Mutex<Pair<C>>>, [Arc<Device>; 2]) {
    let frames = [Frames::default(), Frames::default()];
    let memories = [(); 2].map(|()| Arc::new(FakeMemory::default()));
    let side = |index: usize| {
        let number = index as u32 + 1;
        let config = NicConfig::functional(number << 16, mac(index));
        let mut card = make(config);
        card.set_line_latency(line_latency_cycles);
        Side {
            card,
            host: CardHost::new(&memories[index]),
            end: CableEnd {
                out: Arc::clone(&frames[index]),
                back: Arc::clone(&frames[1 - index]),
                to_lose: Arc::default(),
                to_change: Arc::default(),
            },
        }
    };
    let pair = Arc::new(Mutex::new(Pair {
        sides: [side(0), side(1)],
        cycles: 0,
    }));
    let device = |index: usize| {
        let bus = PairBus {
            side: index,
            memory: Arc::clone(&memories[index]),
            pair: Arc::clone(&pair),
        };
        Device::open(Arc::new(bus)).expect("the driver opens the card")
    };
    let devices = [device(0), device(1)];
    (pair, devices)
}

fn mac(side: usize) -> [u8; 6] {
    [0x02, 0, 0, 0, 0, 0x42 + side as u8]
}

/// Returns the GID and the MAC address of a card.
pub fn address(side: usize) -> ([u8; 16], [u8; 6]) {
    let mut gid = [0; 16];
    gid[..2].copy_from_slice(&[0xfe, 0x80]);
    gid[15] = side as u8 + 1;
    (gid, mac(side))
}

impl<C: Card> Bus for PairBus<C> {
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
        let mut pair = self.pair();
        let host = &mut pair.sides[self.side].host;
        host.doorbells.push_back(Doorbell { slot, value });
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
        0..1 << 40
    }

    /// Ignores interrupts: the test polls.
    fn set_interrupt_handler(
        &self,
        _vector: u16,
        _handler: Option<InterruptHandler>,
    ) -> Result<(), BusError> {
        self.pair().sides[self.side].host.raised.clear();
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
        self.pair().run(CYCLES_PER_ACCESS);
    }
}
