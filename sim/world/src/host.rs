//! A host: memory, PCIe and the stores of its processors.

use std::collections::VecDeque;
use std::ops::Range;

use ferroce_host::mapping::FileIdentity;
use ferroce_host::memory::{MapChange, MemoryMap, Place};
use ferroce_model::pcie::machine::Direction;
use ferroce_model::pcie::{Pcie, Store};
use ferroce_model::{DmaAtomic, DmaError, Doorbell, Host, WriteOrder};
use ferroce_spec::push::{MAX_BLOCKS, WORDS_PER_BLOCK};
use ferroce_spec::register::offset;
use ferroce_units::{Duration, Instant};
use zerocopy::IntoBytes;

use super::posted::{Kind, PostedWrites};
use super::recorder::{Activity, SharedRecorder, Span};
use super::watch::Watchers;

/// Bytes of a doorbell or a register.
const STORE_BYTES: u64 = 8;
/// Words of the longest push.
const MAX_PUSH_WORDS: usize = MAX_BLOCKS * WORDS_PER_BLOCK;
/// Bytes that an AtomicOp changes.
const ATOMIC_BYTES: usize = 8;
/// Longer payload is elided if that is enabled: only its end is moved.
const ELIDED_BYTES: usize = 128;
/// Bytes of the moved end, which programs read.
const MOVED_BYTES: usize = 64;

/// A doorbell in flight to the card.
#[derive(Debug, Clone, Copy)]
struct Ring {
    arrival: Instant,
    doorbell: Doorbell,
    /// Index of its push; `None` for a plain doorbell.
    push: Option<usize>,
}

/// The words of a push.
#[derive(Debug)]
struct Push {
    words: [u64; MAX_PUSH_WORDS],
    length: usize,
}

impl Default for Push {
    fn default() -> Self {
        Self {
            words: [0; MAX_PUSH_WORDS],
            length: 0,
        }
    }
}

/// A host as its card accesses it.
pub struct WorldHost {
    number: usize,
    now: Instant,
    pub memory: MemoryMap,
    /// The mappings while bus mastering is disabled; `memory` is empty meanwhile.
    parked: Option<MemoryMap>,
    /// True if only the end of long payload in the memory of another process is moved.
    elides_payload: bool,
    /// PCIe; without it, everything is immediate.
    pub pcie: Option<Box<Pcie>>,
    /// Time of the kernel for a page fault of an on-demand region.
    page_fault: Duration,
    pub posted: PostedWrites,
    pub watchers: Watchers,
    /// Doorbells in flight to the card, in order.
    doorbells: VecDeque<Ring>,
    /// Slots for pushes, and the free slots.
    pushes: Vec<Push>,
    free_pushes: Vec<usize>,
    /// The push that the card took last, unless a plain doorbell followed it.
    pushed: Option<usize>,
    /// Register writes in flight: arrival, offset, value.
    registers: VecDeque<(Instant, u32, u32)>,
    /// MSI-X messages in flight, in order.
    interrupts: VecDeque<(Instant, u16)>,
    recorder: Option<SharedRecorder>,
}

impl WorldHost {
    pub fn new(number: usize, pcie: Option<Pcie>, elides_payload: bool) -> Self {
        Self {
            number,
            now: Instant::ZERO,
            memory: MemoryMap::default(),
            parked: None,
            elides_payload,
            pcie: pcie.map(Box::new),
            page_fault: Duration::ZERO,
            posted: PostedWrites::default(),
            watchers: Watchers::default(),
            doorbells: VecDeque::new(),
            pushes: Vec::new(),
            free_pushes: Vec::new(),
            pushed: None,
            registers: VecDeque::new(),
            interrupts: VecDeque::new(),
            recorder: None,
        }
    }

    /// Sets the time of the kernel for a page fault.
    pub fn with_page_fault(self, page_fault: Duration) -> Self {
        Self { page_fault, ..self }
    }

    /// Begins an event.
    #[inline]
    pub fn begin(&mut self, now: Instant) {
        self.now = now;
        if let Some(pcie) = &mut self.pcie {
            pcie.begin(now);
        }
        self.posted.begin(now);
        self.apply(now);
    }

    /// Applies the writes that are visible at `now` to memory.
    #[inline]
    pub fn apply(&mut self, now: Instant) {
        self.posted.apply_until(now, &mut self.memory);
    }

    pub fn record(&mut self, recorder: Option<SharedRecorder>) {
        self.recorder = recorder;
    }

    /// Returns the mappings for a change. On a removal, posted writes are applied to memory first.
    pub fn mappings(&mut self, change: MapChange) -> &mut MemoryMap {
        if change == MapChange::Removal {
            self.apply(Instant::MAX);
            if let Some(pcie) = &mut self.pcie {
                pcie.invalidate_translations();
            }
        }
        self.parked.as_mut().unwrap_or(&mut self.memory)
    }

    /// Sets whether the card may access memory and send interrupts (PCI command register, bit 2).
    pub fn set_bus_master(&mut self, is_allowed: bool) {
        match (is_allowed, self.parked.take()) {
            (true, Some(parked)) => self.memory = parked,
            (false, None) => {
                self.apply(Instant::MAX);
                self.parked = Some(std::mem::take(&mut self.memory));
            }
            (_, parked) => self.parked = parked,
        }
    }

    /// Loses everything that is in flight at `at`, and what is not persistent of persistent memory.
    pub fn lose_power(&mut self, at: Instant) {
        self.apply(at);
        self.posted.drop_all();
        self.forget_stores();
        let persistence = self.posted.persistence.as_mut();
        let lost = persistence.map(|persistence| persistence.fail(at));
        let (host, at_ns) = (self.number, at.as_ps() / 1000);
        tracing::warn!(host, at_ns, lines_lost = lost, "power failure");
    }

    /// Records that mapped IOVAs are memory of `file` from `offset` on: it may be persistent.
    pub fn note_file(&mut self, iovas: Range<u64>, file: FileIdentity, offset: u64) {
        if let Some(persistence) = &mut self.posted.persistence {
            persistence.map(iovas, file, offset);
        }
    }

    /// Forgets which unmapped IOVAs were persistent memory.
    pub fn forget_unmapped(&mut self) {
        if let Some(persistence) = &mut self.posted.persistence {
            let memory = self.parked.as_mut().unwrap_or(&mut self.memory);
            persistence.forget_unmapped(memory);
        }
    }

    /// Drops stores in flight to the card, and its interrupts.
    pub fn forget_stores(&mut self) {
        for ring in self.doorbells.drain(..) {
            self.free_pushes.extend(ring.push);
        }
        self.free_pushes.extend(self.pushed.take());
        self.registers.clear();
        self.interrupts.clear();
    }

    /// Returns how many of the first of `length` bytes at `place` are not moved.
    #[inline]
    pub(super) fn elided(&self, place: &Place, length: usize) -> usize {
        if self.elides_payload && place.is_remote && length > ELIDED_BYTES {
            length - MOVED_BYTES
        } else {
            0
        }
    }

    /// Rings a doorbell at `at`. `now` is the time of the event.
    #[inline]
    pub fn ring(&mut self, now: Instant, at: Instant, doorbell: Doorbell) -> Store {
        let store = self.store(now, at, STORE_BYTES);
        self.send(Ring {
            arrival: store.arrival,
            doorbell,
            push: None,
        });
        store
    }

    /// Pushes `words` to BAR2 from `slot` on, at `at`. Words beyond the longest push are dropped.
    pub fn push(&mut self, now: Instant, at: Instant, slot: u32, words: &[u64]) -> Store {
        let words = &words[..words.len().min(MAX_PUSH_WORDS)];
        let store = self.store(now, at, size_of_val(words) as u64);
        let place = self.free_pushes.pop().unwrap_or_else(|| {
            self.pushes.push(Push::default());
            self.pushes.len() - 1
        });
        let push = &mut self.pushes[place];
        push.words[..words.len()].copy_from_slice(words);
        push.length = words.len();
        let value = words.first().copied().unwrap_or(0);
        self.send(Ring {
            arrival: store.arrival,
            doorbell: Doorbell { slot, value },
            push: Some(place),
        });
        store
    }

    /// Queues a doorbell by its arrival: clocks of processors differ, so it may arrive before
    /// others.
    #[inline]
    fn send(&mut self, ring: Ring) {
        match self.doorbells.back() {
            Some(last) if last.arrival > ring.arrival => {
                let later = |other: &Ring| other.arrival <= ring.arrival;
                let place = self.doorbells.partition_point(later);
                self.doorbells.insert(place, ring);
            }
            _ => self.doorbells.push_back(ring),
        }
    }

    /// Writes a register at `at`. The answer to a page fault follows the work of the kernel, which
    /// another processor does.
    pub fn write_register(&mut self, now: Instant, at: Instant, offset: u32, value: u32) -> Store {
        let store = self.store(now, at, STORE_BYTES);
        let arrival = match offset {
            offset::page_fault_answer => store.arrival + self.page_fault,
            _ => store.arrival,
        };
        let place = self.registers.partition_point(|(at, ..)| *at <= arrival);
        self.registers.insert(place, (arrival, offset, value));
        store
    }

    /// Sends a processor's store over PCIe.
    #[inline]
    fn store(&mut self, now: Instant, at: Instant, bytes: u64) -> Store {
        let store = match &mut self.pcie {
            Some(pcie) => {
                pcie.begin(now);
                pcie.mmio_write(at, bytes)
            }
            None => Store {
                arrival: at,
                taken: at,
            },
        };
        self.record_span(Activity::Mmio, at, store.arrival, bytes as usize);
        store
    }

    /// Takes the next register write that has reached the card.
    #[inline]
    pub fn next_register(&mut self) -> Option<(u32, u32)> {
        let (arrival, offset, value) = *self.registers.front()?;
        if arrival > self.now {
            return None;
        }
        self.registers.pop_front();
        Some((offset, value))
    }

    /// Returns when the next store reaches the card.
    #[inline]
    pub fn next_store(&self) -> Option<Instant> {
        let doorbell = self.doorbells.front().map(|ring| ring.arrival);
        let register = self.registers.front().map(|(at, ..)| *at);
        match (doorbell, register) {
            (Some(doorbell), Some(register)) => Some(doorbell.min(register)),
            (doorbell, register) => doorbell.or(register),
        }
    }

    /// Returns when the next MSI-X message arrives.
    #[inline]
    pub fn next_interrupt(&self) -> Option<Instant> {
        self.interrupts.front().map(|(at, _)| *at)
    }

    /// Takes the messages that have arrived by `now`: one bit per vector.
    pub fn take_interrupts(&mut self, now: Instant) -> u64 {
        let mut vectors = 0;
        while let Some((at, vector)) = self.interrupts.front() {
            if *at > now {
                break;
            }
            vectors |= 1u64.checked_shl(u32::from(*vector)).unwrap_or(0);
            self.interrupts.pop_front();
        }
        vectors
    }

    #[inline]
    fn record_span(&self, activity: Activity, start: Instant, end: Instant, bytes: usize) {
        if let Some(recorder) = &self.recorder {
            recorder.lock().record(&Span {
                host: self.number,
                activity,
                start,
                end,
                qp: None,
                bytes: bytes as u32,
            });
        }
    }

    /// Returns the location of a read, unless the root complex refuses it.
    #[inline]
    fn place_to_read(&mut self, iova: u64, length: usize) -> Result<Place, DmaError> {
        let place = self.memory.place_to_read(iova, length)?;
        self.allowed(place, Direction::Read)
            .ok_or_else(|| DmaError::refused(iova, length))
    }

    /// Returns the location of a write, unless the root complex refuses it.
    #[inline]
    fn place_to_write(&mut self, iova: u64, length: usize) -> Result<Place, DmaError> {
        let place = self.memory.place_to_write(iova, length)?;
        self.allowed(place, Direction::Write)
            .ok_or_else(|| DmaError::refused(iova, length))
    }

    /// Returns `place` if the machine lets an access to it pass.
    #[inline]
    fn allowed(&self, place: Place, access: Direction) -> Option<Place> {
        let pcie = self.pcie.as_ref();
        let is_allowed = pcie.is_none_or(|pcie| pcie.allows(place.physical, access));
        is_allowed.then_some(place)
    }

    #[inline]
    fn write(
        &mut self,
        order: WriteOrder,
        kind: Kind,
        iova: u64,
        bytes: &[u8],
    ) -> Result<Instant, DmaError> {
        let place = self.place_to_write(iova, bytes.len())?;
        let elided = match kind {
            Kind::Data => self.elided(&place, bytes.len()),
            Kind::Descriptor => 0,
        };
        let visible = self.post(order, kind, &place, bytes.len());
        if self.pcie.is_some() {
            let (iova, address) = (iova + elided as u64, place.address + elided);
            self.memory.expect_write(iova, bytes.len() - elided);
            self.posted
                .push(visible, kind, iova, address, &bytes[elided..]);
        }
        Ok(visible)
    }

    /// Sends a write over PCIe. Returns when the processor sees it.
    #[inline]
    fn post(&mut self, order: WriteOrder, kind: Kind, place: &Place, length: usize) -> Instant {
        let Place {
            address, physical, ..
        } = *place;
        let Some(pcie) = &mut self.pcie else {
            self.watchers.note(order.at, kind, address, length);
            return order.at;
        };
        let visible = match kind {
            Kind::Data => pcie.write_as(order.at, physical, length as u64, order.posted),
            Kind::Descriptor => pcie.write_ordered(order.at, physical, length as u64),
        };
        let visible = visible.max(order.after);
        self.watchers.note(visible, kind, address, length);
        self.record_span(Activity::PcieWrite, order.at, visible, length);
        visible
    }
}

impl Host for WorldHost {
    #[inline]
    fn dma_read(
        &mut self,
        at: Instant,
        iova: u64,
        destination: &mut [u8],
    ) -> Result<Instant, DmaError> {
        let length = destination.len();
        if self.pcie.is_none() {
            return self.memory.read(iova, destination).map(|()| at);
        }
        if length == 0 {
            return Ok(at);
        }
        let place = self.place_to_read(iova, length)?;
        self.posted
            .apply_overlapping(place.address, length, &mut self.memory);
        let elided = self.elided(&place, length);
        self.memory
            .read(iova + elided as u64, &mut destination[elided..])?;
        let done = match &mut self.pcie {
            Some(pcie) => pcie.read(at, place.physical, length as u64),
            None => at,
        };
        self.record_span(Activity::PcieRead, at, done, length);
        Ok(done)
    }

    #[inline]
    fn dma_write(
        &mut self,
        order: WriteOrder,
        iova: u64,
        source: &[u8],
    ) -> Result<Instant, DmaError> {
        if source.is_empty() {
            return Ok(order.at.max(order.after));
        }
        let visible = self.write(order, Kind::Data, iova, source)?;
        if self.pcie.is_none() {
            self.memory.write(iova, source)?;
        }
        Ok(visible)
    }

    #[inline]
    fn dma_read_unused(
        &mut self,
        at: Instant,
        iova: u64,
        scratch: &mut [u8],
    ) -> Result<Instant, DmaError> {
        let length = scratch.len();
        let Place { physical, .. } = self.place_to_read(iova, length)?;
        let Some(pcie) = &mut self.pcie else {
            return Ok(at);
        };
        let done = pcie.read(at, physical, length as u64);
        self.record_span(Activity::PcieRead, at, done, length);
        Ok(done)
    }

    #[inline]
    fn dma_write_unchanged(
        &mut self,
        order: WriteOrder,
        iova: u64,
        scratch: &mut [u8],
    ) -> Result<Instant, DmaError> {
        let place = self.place_to_write(iova, scratch.len())?;
        Ok(self.post(order, Kind::Data, &place, scratch.len()))
    }

    fn peek(&mut self, iova: u64, destination: &mut [u8]) -> Result<(), DmaError> {
        let Place { address, .. } = self.memory.place_to_read(iova, destination.len())?;
        self.posted
            .apply_overlapping(address, destination.len(), &mut self.memory);
        self.memory.read(iova, destination)
    }

    #[inline]
    fn dma_write_descriptor(
        &mut self,
        order: WriteOrder,
        iova: u64,
        words: &[u64],
    ) -> Result<Instant, DmaError> {
        let visible = self.write(order, Kind::Descriptor, iova, words.as_bytes())?;
        if self.pcie.is_none() {
            self.memory.write_descriptor(iova, words)?;
        }
        Ok(visible)
    }

    fn dma_atomic(
        &mut self,
        at: Instant,
        iova: u64,
        operation: DmaAtomic,
    ) -> Result<(u64, Instant), DmaError> {
        let Place {
            address, physical, ..
        } = self.place_to_write(iova, ATOMIC_BYTES)?;
        self.posted
            .apply_overlapping(address, ATOMIC_BYTES, &mut self.memory);
        let done = match &mut self.pcie {
            Some(pcie) => pcie.atomic(at, physical),
            None => at,
        };
        if let Some(persistence) = &mut self.posted.persistence {
            persistence.keep(iova, ATOMIC_BYTES, done);
        }
        let original = self.memory.atomic(iova, operation)?;
        self.watchers.note(done, Kind::Data, address, ATOMIC_BYTES);
        self.record_span(Activity::PcieAtomic, at, done, ATOMIC_BYTES);
        Ok((original, done))
    }

    fn persist(&mut self, at: Instant, iova: u64, length: u64) -> Instant {
        let bytes = usize::try_from(length).unwrap_or(usize::MAX);
        if let Ok(place) = self.place_to_read(iova, bytes) {
            self.posted
                .apply_overlapping(place.address, bytes, &mut self.memory);
        }
        let persistence = self.posted.persistence.as_mut();
        persistence.map_or(at, |persistence| persistence.flush(at, iova, length))
    }

    fn interrupt(&mut self, order: WriteOrder, vector: u16) {
        if self.parked.is_some() {
            return;
        }
        let arrival = match &mut self.pcie {
            Some(pcie) => pcie.interrupt(order.at).max(order.after),
            None => order.at,
        };
        self.record_span(Activity::Interrupt, order.at, arrival, 0);
        let place = self.interrupts.partition_point(|(at, _)| *at <= arrival);
        self.interrupts.insert(place, (arrival, vector));
    }

    #[inline]
    fn posted_until(&self) -> Instant {
        let pcie = self.pcie.as_ref();
        pcie.map_or(Instant::ZERO, |pcie| pcie.passed_at().0)
    }

    #[inline]
    fn requested_until(&self) -> Instant {
        let pcie = self.pcie.as_ref();
        pcie.map_or(Instant::ZERO, |pcie| pcie.passed_at().1)
    }

    #[inline]
    fn next_doorbell(&mut self) -> Option<Doorbell> {
        if self.doorbells.front()?.arrival > self.now {
            return None;
        }
        let ring = self.doorbells.pop_front()?;
        if let Some(last) = std::mem::replace(&mut self.pushed, ring.push) {
            self.free_pushes.push(last);
        }
        Some(ring.doorbell)
    }

    #[inline]
    fn pushed(&self) -> &[u64] {
        let push = self.pushed.map(|place| &self.pushes[place]);
        push.map_or(&[], |push| &push.words[..push.length])
    }
}
