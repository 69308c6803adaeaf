//! A separate command queue, which is tested before the driver relies on its own.

use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use ferroce_driver::bus::{Bus, PAGE_SIZE};
use ferroce_driver::{DmaBuffer, DmaSpace};
use ferroce_spec::command::{CommandCompletion, CommandEntry, CommandOpcode};
use ferroce_spec::counter::Counter;
use ferroce_spec::register::{Control, Status, offset};

use super::bench::Bench;
use super::hint;
use super::outcome::Failure;

/// Guard value after the ring, which must not change.
const GUARD: u64 = 0xa5a5_a5a5_a5a5_a5a5;
const COMPLETION_OFFSET: usize = offset_of!(CommandEntry, completion);

/// A ring of `1 << log_size` entries at the start of a page; the rest of the page is guarded.
pub struct CommandRing {
    bus: Arc<dyn Bus>,
    buffer: DmaBuffer,
    log_size: u32,
    posted: u32,
}

impl CommandRing {
    /// Sets up the ring in the device and enables the function.
    pub fn new(bench: &Bench, log_size: u32) -> Result<Self, Failure> {
        let bus = Arc::clone(&bench.bus);
        let space = DmaSpace::new(Arc::clone(&bus));
        let buffer = DmaBuffer::new(&space, PAGE_SIZE).map_err(|error| {
            Failure::new(format!("no memory for DMA: {error}"))
                .look_at("not the device: locked memory (ulimit -l), IOMMU")
        })?;
        let ring = Self {
            bus,
            buffer,
            log_size,
            posted: 0,
        };
        for word in &ring.buffer.words()[ring.words()..] {
            word.store(GUARD, Ordering::Relaxed);
        }
        ring.start(bench)?;
        Ok(ring)
    }

    /// Sets up the empty ring again, after a reset.
    pub fn restart(&mut self, bench: &Bench) -> Result<(), Failure> {
        self.posted = 0;
        self.start(bench)
    }

    fn start(&self, bench: &Bench) -> Result<(), Failure> {
        let (base, log_size) = (self.buffer.iova(), self.log_size);
        self.bus.write64(offset::command_queue_base, base);
        self.bus.write32(offset::command_queue_log_size, log_size);
        self.enable(bench)
    }

    /// Writes `mark` to every word of the ring.
    pub fn fill(&self, mark: u64) {
        for word in &self.buffer.words()[..self.words()] {
            word.store(mark, Ordering::Release);
        }
    }

    /// Returns the first byte of the ring that does not match `mark`, and the word there.
    pub fn find_other_than(&self, mark: u64) -> Option<(usize, u64)> {
        let words = self.buffer.words()[..self.words()].iter();
        let values = words.map(|word| word.load(Ordering::Acquire));
        let mut others = values.enumerate().filter(|(_, value)| *value != mark);
        others.next().map(|(index, value)| (8 * index, value))
    }

    /// Returns true if a command in the ring has not been completed.
    pub fn is_any_waiting(&self) -> bool {
        (0..1 << self.log_size).any(|index| {
            let word = &self.buffer.words()[(self.place(index) + COMPLETION_OFFSET) / 8];
            CommandCompletion::from_bits(word.load(Ordering::Acquire)).device_owned()
        })
    }

    fn words(&self) -> usize {
        (CommandEntry::SIZE << self.log_size) / 8
    }

    fn enable(&self, bench: &Bench) -> Result<(), Failure> {
        let mut control = Control::default();
        control.set_enable(true);
        self.bus.write32(offset::control, control.bits());
        let is_enabled = || Status::from_bits(self.bus.read32(offset::status)).enabled();
        let waited = bench.wait(bench.timeouts.register, is_enabled);
        waited.map(|_| ()).ok_or_else(|| {
            let timeout = bench.timeouts.register;
            Failure::new(format!(
                "status.enabled is not one within {timeout:?} of control.enable"
            ))
            .look_at_all(hint::of_silence(&*self.bus))
            .look_at("the state machine that starts the command queue")
        })
    }

    fn place(&self, index: u32) -> usize {
        (index % (1 << self.log_size)) as usize * CommandEntry::SIZE
    }

    /// Writes a command; returns its index.
    pub fn post(&mut self, opcode: CommandOpcode, argument: u64) -> u32 {
        let mut completion = CommandCompletion::default();
        completion.set_device_owned(true);
        let entry = CommandEntry {
            opcode,
            argument,
            completion,
            ..CommandEntry::default()
        };
        let index = self.posted;
        self.buffer.store(self.place(index), &entry);
        self.posted = self.posted.wrapping_add(1);
        index
    }

    /// Notifies the device of all commands written so far.
    pub fn ring_doorbell(&self) {
        fence(Ordering::Release);
        self.bus
            .write32(offset::command_queue_doorbell, self.posted);
    }

    /// Returns the number of commands written so far.
    pub fn posted(&self) -> u32 {
        self.posted
    }

    /// Returns the entry of a command, after the device has completed it.
    pub fn wait(&self, bench: &Bench, index: u32, what: &str) -> Result<CommandEntry, Failure> {
        let place = self.place(index);
        let word = &self.buffer.words()[(place + COMPLETION_OFFSET) / 8];
        let is_done = || !CommandCompletion::from_bits(word.load(Ordering::Acquire)).device_owned();
        match bench.wait(bench.timeouts.command, is_done) {
            Some(_) => Ok(self.buffer.load(place)),
            None => Err(self.unanswered(bench, index, what)),
        }
    }

    /// Describes where a command without completion is stuck.
    fn unanswered(&self, bench: &Bench, index: u32, what: &str) -> Failure {
        let consumer = self.bus.read32(offset::command_queue_consumer);
        let reads = bench.counters().get(Counter::dma_reads);
        let timeout = bench.timeouts.command;
        let failure = Failure::new(format!(
            "{what}: not answered within {timeout:?} (command_queue_consumer {consumer}, posted \
             {}, dma_reads {reads})",
            self.posted
        ))
        .look_at_all(hint::of_silence(&*self.bus));
        let is_executed = consumer.wrapping_sub(index).wrapping_sub(1) < 1 << 31;
        if is_executed {
            failure.look_at(
                "the device says that it has executed it: its DMA write does not arrive. Posted \
                 writes of the card, IOMMU faults in dmesg, the address that it writes to",
            )
        } else if reads == 0 {
            failure
                .look_at("it has not even read the entry: does command_queue_doorbell arrive?")
                .look_at("bus master (command register, bit 2), for reads by DMA")
        } else {
            failure.look_at(
                "it has read the entry: do the completions of the read come back (tags, credits), \
                 and does it see device_owned in bit 63 of the last word?",
            )
        }
    }

    /// Checks that nothing was written after the ring.
    pub fn check_guard(&self) -> Result<(), Failure> {
        let first = self.words();
        let behind = self.buffer.words()[first..].iter();
        for (index, word) in behind.enumerate() {
            let value = word.load(Ordering::Acquire);
            if value != GUARD {
                return Err(Failure::new(format!(
                    "the device has written {value:#x} {} bytes after the end of its ring",
                    8 * index
                ))
                .look_at("where the ring wraps: command_queue_log_size, index modulo size"));
            }
        }
        Ok(())
    }
}
