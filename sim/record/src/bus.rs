//! The driver's view of a device: a bus with a recorder.
//!
//! Registers and doorbells pass through the bus, but the device's writes to memory do not. So
//! before each doorbell, register access and empty poll, new entries of the command queue, the CQs
//! and the event queues are read from the program's memory. No entry is missed: a queue holds an
//! entry for each posted request, so the device cannot overwrite an entry before the next doorbell.
//!
//! The rings are read through /proc/self/mem, which checks addresses.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferroce_driver::bus::BufferPages;
use ferroce_driver::bus::{Bus, BusError, DmaMapping, InterruptHandler, ProgramClock};
use ferroce_spec::command::{CommandEntry, LOG_MAX_MAILBOX, output_size};
use ferroce_spec::cqe;
use ferroce_spec::register::offset;
use parking_lot::Mutex;
use zerocopy::FromBytes;

use crate::follow::{Follower, entry_bytes, instant};
use crate::format::{Kind, flags};
use crate::reader::{Position, Record};
use crate::recorder::Recorder;

/// Maximum number of entries that are read from one ring at a time.
const MAX_ENTRIES_PER_LOOK: u32 = 1 << 20;

/// A recorded bus.
pub struct RecordingBus {
    bus: Arc<dyn Bus>,
    recorder: Recorder,
    started: Instant,
    seen: Mutex<Seen>,
}

/// Known state of the device.
struct Seen {
    follower: Follower,
    /// Memory of this process; `None`: it cannot be read, and only the bus is recorded.
    memory: Option<File>,
    /// Address and length of each mapping, by IOVA.
    mappings: BTreeMap<u64, (usize, usize)>,
    /// Commands that were rung and have not completed, as a range of indices.
    commands: Range<u32>,
}

impl RecordingBus {
    /// Records the accesses to a bus.
    pub fn new(bus: Arc<dyn Bus>, recorder: Recorder) -> Self {
        let memory = File::open("/proc/self/mem");
        if let Err(error) = &memory {
            tracing::warn!(%error, "/proc/self/mem: CQEs and EQEs are not recorded");
        }
        Self {
            bus,
            recorder,
            started: Instant::now(),
            seen: Mutex::new(Seen {
                follower: Follower::default(),
                memory: memory.ok(),
                mappings: BTreeMap::new(),
                commands: 0..0,
            }),
        }
    }

    /// Records the device's writes since the last call.
    fn look(&self, seen: &mut Seen) {
        self.recorder
            .set_time(instant(self.started.elapsed()), None);
        self.look_at_commands(seen);
        self.look_at_rings(seen);
        self.recorder.flush_if_due();
    }

    fn look_at_commands(&self, seen: &mut Seen) {
        let (base, log) = seen.follower.command_queue();
        while !seen.commands.is_empty() {
            let place = seen.commands.start & ((1 << log) - 1);
            let iova = base + u64::from(place) * CommandEntry::SIZE as u64;
            let Some(entry) = seen.read_entry(iova) else {
                return;
            };
            if entry.completion.device_owned() {
                return;
            }
            seen.commands.start = seen.commands.start.wrapping_add(1);
            let output = output_size(entry.opcode).min(1 << LOG_MAX_MAILBOX);
            if output > 0 && entry.output_iova != 0 {
                if let Some(bytes) = seen.read(entry.output_iova, output) {
                    self.observe(seen, Kind::DMA_WRITE, 0, entry.output_iova, &bytes);
                }
            }
            // The result and the completion.
            let bytes = &entry_bytes(&entry)[CommandEntry::SIZE - 16..];
            let at = iova + CommandEntry::SIZE as u64 - 16;
            self.observe(seen, Kind::DMA_WRITE, 0, at, bytes);
        }
    }

    fn look_at_rings(&self, seen: &mut Seen) {
        let rings: Vec<_> = seen.follower.rings().cloned().collect();
        for ring in rings {
            let mut next = ring.next;
            for _ in 0..MAX_ENTRIES_PER_LOOK {
                let iova = ring.iova_of(next);
                let owner = cqe::owner_at(next, ring.log_size.into());
                let Some(entry) = seen.read_owned(iova, ring.entry_bytes as usize, owner) else {
                    break;
                };
                self.observe(seen, Kind::DMA_WRITE, 0, iova, &entry);
                next = next.wrapping_add(1);
            }
        }
    }

    /// Records an access of the device that was detected in memory.
    fn observe(&self, seen: &mut Seen, kind: Kind, more: u8, iova: u64, data: &[u8]) {
        self.recorder
            .record_with(kind, flags::OBSERVED | more, 0, iova, data);
        if more == 0 {
            seen.follow(kind, iova, data);
        }
    }

    /// Records an access to BAR0.
    fn note(&self, kind: Kind, offset: u32, data: &[u8]) {
        self.recorder.record(kind, offset.into(), data);
    }

    /// Records a write to BAR0, and the data that it makes the device read.
    fn before_write(&self, register: u32, value: u64, data: &[u8]) {
        let mut seen = self.seen.lock();
        self.look(&mut seen);
        if register == offset::command_queue_doorbell {
            self.show_commands(&mut seen, value as u32);
        }
        self.note(Kind::REGISTER_WRITE, register, data);
        seen.follow(Kind::REGISTER_WRITE, register.into(), data);
        if register == offset::command_queue_base {
            seen.commands = 0..0;
        }
    }

    /// Records new entries of the command queue, and their inputs.
    fn show_commands(&self, seen: &mut Seen, posted: u32) {
        let (base, log) = seen.follower.command_queue();
        // Software has reused these slots, so the commands in them have completed.
        while posted.wrapping_sub(seen.commands.start) > 1 << log && !seen.commands.is_empty() {
            let place = seen.commands.start & ((1 << log) - 1);
            let at = base + u64::from(place) * CommandEntry::SIZE as u64;
            self.observe(seen, Kind::DMA_WRITE, flags::UNSEEN, at, &[]);
            seen.commands.start = seen.commands.start.wrapping_add(1);
        }
        let count = posted.wrapping_sub(seen.commands.end).min(1 << log);
        for index in (0..count).map(|back| posted.wrapping_sub(count - back)) {
            let iova = base + u64::from(index & ((1 << log) - 1)) * CommandEntry::SIZE as u64;
            let Some(entry) = seen.read_entry(iova) else {
                continue;
            };
            self.observe(seen, Kind::DMA_READ, 0, iova, entry_bytes(&entry));
            let length = (entry.input_length as usize).min(1 << LOG_MAX_MAILBOX);
            if let Some(input) = seen.read(entry.input_iova, length) {
                self.observe(seen, Kind::DMA_READ, 0, entry.input_iova, &input);
            }
        }
        if seen.commands.is_empty() {
            seen.commands.start = posted.wrapping_sub(count);
        }
        seen.commands.end = posted;
    }
}

impl Seen {
    /// Reads memory of the device.
    fn read(&self, iova: u64, length: usize) -> Option<Vec<u8>> {
        let (begin, (address, size)) = self.mappings.range(..=iova).next_back()?;
        let offset = usize::try_from(iova - begin).ok()?;
        if length == 0 || offset.checked_add(length)? > *size {
            return None;
        }
        let mut bytes = vec![0; length];
        let at = (address + offset) as u64;
        self.memory.as_ref()?.read_exact_at(&mut bytes, at).ok()?;
        Some(bytes)
    }

    fn read_entry(&self, iova: u64) -> Option<CommandEntry> {
        // Its ownership is written last, so it must be read first.
        self.read(iova + CommandEntry::SIZE as u64 - 8, 8)?;
        CommandEntry::read_from_bytes(&self.read(iova, CommandEntry::SIZE)?).ok()
    }

    /// Reads an entry of a ring if its owner bit marks it as new.
    fn read_owned(&self, iova: u64, length: usize, owner: bool) -> Option<Vec<u8>> {
        let word = self.read(iova + length as u64 - 1, 1)?;
        if (word[0] >> 7 == 1) != owner {
            return None;
        }
        self.read(iova, length)
    }

    fn follow(&mut self, kind: Kind, address: u64, data: &[u8]) {
        let record = Record {
            position: Position::default(),
            kind,
            flags: 0,
            detail: 0,
            address,
            data: data.to_vec(),
        };
        self.follower.feed(&record, &mut ());
    }
}

impl Drop for RecordingBus {
    fn drop(&mut self) {
        let mut seen = self.seen.lock();
        self.look(&mut seen);
    }
}

impl Bus for RecordingBus {
    fn read32(&self, offset: u32) -> u32 {
        self.look(&mut self.seen.lock());
        let value = self.bus.read32(offset);
        self.note(Kind::REGISTER_READ, offset, &value.to_le_bytes());
        value
    }

    fn write32(&self, offset: u32, value: u32) {
        self.before_write(offset, value.into(), &value.to_le_bytes());
        self.bus.write32(offset, value);
    }

    fn read64(&self, offset: u32) -> u64 {
        self.look(&mut self.seen.lock());
        let value = self.bus.read64(offset);
        self.note(Kind::REGISTER_READ, offset, &value.to_le_bytes());
        value
    }

    fn write64(&self, offset: u32, value: u64) {
        self.before_write(offset, value, &value.to_le_bytes());
        self.bus.write64(offset, value);
    }

    fn doorbell(&self, slot: u32, value: u64) {
        self.look(&mut self.seen.lock());
        self.recorder
            .record(Kind::DOORBELL, slot.into(), &value.to_le_bytes());
        self.bus.doorbell(slot, value);
    }

    fn push_blocks(&self) -> u32 {
        self.bus.push_blocks()
    }

    fn push(&self, slot: u32, words: &[u64]) {
        self.look(&mut self.seen.lock());
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.recorder.record(Kind::DOORBELL, slot.into(), &bytes);
        self.bus.push(slot, words);
    }

    fn read_device_memory(&self, offset: u64, destination: &mut [u8]) {
        self.bus.read_device_memory(offset, destination);
        self.recorder.record(Kind::MEMORY_READ, offset, destination);
    }

    fn write_device_memory(&self, offset: u64, source: &[u8]) {
        self.recorder.record(Kind::MEMORY_WRITE, offset, source);
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
        self.bus.map(mapping)?;
        let place = (mapping.address, mapping.length);
        self.seen.lock().mappings.insert(mapping.iova, place);
        Ok(())
    }

    fn unmap(&self, iova: u64, length: usize) -> Result<(), BusError> {
        let mut seen = self.seen.lock();
        self.look(&mut seen);
        seen.mappings.remove(&iova);
        drop(seen);
        self.bus.unmap(iova, length)
    }

    fn mapping_limit(&self) -> Option<u32> {
        self.bus.mapping_limit()
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
        let recorder = self.recorder.clone();
        let recorded = handler.map(|handler| -> InterruptHandler {
            Arc::new(move || {
                recorder.record_with(Kind::INTERRUPT, 0, vector, 0, &[]);
                handler();
            })
        });
        self.bus.set_interrupt_handler(vector, recorded)
    }

    fn set_health_check(&self, check: Option<InterruptHandler>) {
        self.bus.set_health_check(check);
    }

    fn config_read(&self, offset: u32) -> Option<u32> {
        self.bus.config_read(offset)
    }

    fn region_size(&self, bar: u32) -> Option<u64> {
        self.bus.region_size(bar)
    }

    fn is_gone(&self) -> bool {
        self.bus.is_gone()
    }

    fn relax(&self) {
        self.look(&mut self.seen.lock());
        self.bus.relax();
    }

    fn note_poll(&self) {
        self.bus.note_poll();
    }

    fn linger(&self) {
        self.bus.linger();
        self.look(&mut self.seen.lock());
        self.recorder.flush();
    }

    fn program_clock(&self) -> Option<Arc<dyn ProgramClock>> {
        self.bus.program_clock()
    }
}
