//! Interprets the contract in a record: commands as the card executes them, the queues, queue pairs
//! and regions that they create, and the card's writes to these.

use std::collections::BTreeMap;
use std::sync::Arc;

use ferroce_spec::command::{
    CommandEntry, CommandOpcode, ContextTables, LOG_MAX_MAILBOX, ModifyQp, ShortModifyQp,
    output_size,
};
use ferroce_spec::context::{
    CqContext, EqContext, MemoryEntry, QpContext, QpStateCode, TranslationEntry,
};
use ferroce_spec::cqe::{self, Cqe};
use ferroce_spec::eqe::{Eqe, EventType};
use ferroce_spec::register::{Control, offset};
use ferroce_units::Instant;
use zerocopy::{FromBytes, IntoBytes};

use crate::entries;
use crate::fields::number;
use crate::format::{Kind, flags};
use crate::frames::{self, Direction, Qp};
use crate::image::{Image, LINE};
use crate::reader::{Position, Record};
use crate::streams::{Class, Entry, Field, Key, Sink, Subject, Value};

/// Maximum logarithm of a ring that is followed.
const LOG_MAX_ENTRIES: u8 = 24;
/// Maximum number of pages of a region that are examined.
const MAX_PAGES: u64 = 1 << 20;

/// A ring in host memory to which the card writes entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ring {
    /// IOVA of the first entry.
    pub base: u64,
    /// Base-2 logarithm of the entries.
    pub log_size: u8,
    /// Bytes of an entry.
    pub entry_bytes: u64,
    /// Index of the next entry, free-running.
    pub next: u32,
    /// Its stream.
    key: Key,
    number: u32,
    /// The sequence number of the last EQE.
    sequence: Option<u32>,
}

impl Ring {
    /// Returns the IOVA of an entry.
    pub fn iova_of(&self, index: u32) -> u64 {
        let place = index & ((1u32 << self.log_size) - 1);
        self.base.wrapping_add(u64::from(place) * self.entry_bytes)
    }

    fn end(&self) -> u64 {
        self.base.saturating_add(self.entry_bytes << self.log_size)
    }
}

/// A memory region.
#[derive(Debug, Clone)]
struct Region {
    key: Key,
    number: u32,
    entry: MemoryEntry,
    since: u64,
}

/// Follows a record.
#[derive(Debug, Default)]
pub struct Follower {
    image: Image,
    section: Option<Arc<str>>,
    command_base: u64,
    command_log: u8,
    tables: ContextTables,
    counts: BTreeMap<&'static str, u32>,
    cqs: BTreeMap<u32, Ring>,
    eqs: BTreeMap<u32, Ring>,
    qps: Vec<Qp>,
    regions: BTreeMap<u32, Region>,
    /// Source MAC addresses of the function.
    pub(crate) macs: Vec<[u8; 6]>,
}

impl Follower {
    /// Processes a record.
    pub fn feed(&mut self, record: &Record, sink: &mut dyn Sink) {
        if record.flags & flags::FAILED != 0 {
            return;
        }
        let Record { address, data, .. } = record;
        match record.kind {
            Kind::SECTION => self.begin_section(&String::from_utf8_lossy(data)),
            Kind::REGISTER_WRITE => self.write_register(record, sink),
            Kind::POWER_OFF => self.reset(record.position, sink),
            Kind::DMA_READ => self.image.read(*address, data),
            Kind::DMA_WRITE if record.flags & flags::UNSEEN != 0 => {
                self.end_unseen(*address, record.position, sink);
            }
            Kind::DMA_WRITE => self.write_memory(record, sink),
            Kind::DMA_ATOMIC if data.len() == 16 => {
                self.image.write(*address, &data[8..], record.position);
            }
            Kind::FRAME_SENT => self.take_frame(record, Direction::Sent, sink),
            Kind::FRAME_RECEIVED => self.take_frame(record, Direction::Received, sink),
            _ => {}
        }
    }

    fn take_frame(&mut self, record: &Record, direction: Direction, sink: &mut dyn Sink) {
        let Some((key, number, mut entry)) = frames::entry(&mut self.qps, record, direction) else {
            return;
        };
        if key.subject == Subject::RequestsReceived {
            self.name_own_keys(&mut entry.fields);
        }
        sink.entry(key, number, entry);
    }

    /// Replaces the keys of the function's own regions by their names.
    fn name_own_keys(&self, fields: &mut [Field]) {
        for field in fields.iter_mut().filter(|field| field.name == "rkey") {
            let Value::Number(key) = field.value else {
                continue;
            };
            if let Some(name) = self.region_name(key as u32) {
                field.value = Value::Object(key, name);
                field.class = Class::Object;
            }
        }
    }

    /// Finishes at the end of the record: the contents of memory are final.
    pub fn finish(&mut self, at: Position, sink: &mut dyn Sink) {
        let regions: Vec<u32> = self.regions.keys().copied().collect();
        for region in regions {
            self.remove_region(region, at, sink);
        }
    }

    /// Returns the ring of the command queue: its base, and the logarithm of its size.
    pub fn command_queue(&self) -> (u64, u8) {
        (self.command_base, self.command_log)
    }

    /// Returns the rings of CQs and event queues.
    pub fn rings(&self) -> impl Iterator<Item = &Ring> {
        self.cqs.values().chain(self.eqs.values())
    }

    /// Returns the current section.
    pub(crate) fn section(&self) -> Arc<str> {
        self.section.clone().unwrap_or_default()
    }

    fn begin_section(&mut self, name: &str) {
        self.section = Some(name.into());
        self.counts.clear();
    }

    /// Returns the name of the next object of a subject.
    fn next_key(&mut self, subject: Subject) -> Key {
        let count = self.counts.entry(subject.object()).or_default();
        *count += 1;
        Key {
            section: self.section.clone().unwrap_or_default(),
            subject,
            object: *count,
        }
    }

    fn write_register(&mut self, record: &Record, sink: &mut dyn Sink) {
        let register = record.address as u32;
        let value = number(&record.data);
        match register {
            offset::command_queue_base if record.data.len() == 8 => self.command_base = value,
            offset::command_queue_base => {
                self.command_base = self.command_base >> 32 << 32 | value;
            }
            at if at == offset::command_queue_base + 4 => {
                self.command_base = value << 32 | self.command_base & u64::from(u32::MAX);
            }
            offset::command_queue_log_size => {
                self.command_log = value.min(LOG_MAX_ENTRIES.into()) as u8;
            }
            _ => {}
        }
        sink.entry(
            self.key(Subject::Registers),
            0,
            entries::register(record, register, value),
        );
        if register == offset::control && Control::from_bits(value as u32).reset() {
            self.reset(record.position, sink);
        }
    }

    fn key(&self, subject: Subject) -> Key {
        Key {
            section: self.section(),
            subject,
            object: 0,
        }
    }

    fn reset(&mut self, at: Position, sink: &mut dyn Sink) {
        self.finish(at, sink);
        self.cqs.clear();
        self.eqs.clear();
        for qp in &mut self.qps {
            qp.is_alive = false;
        }
    }

    fn write_memory(&mut self, record: &Record, sink: &mut dyn Sink) {
        let Record { address, data, .. } = record;
        self.image.write(*address, data, record.position);
        let end = address.saturating_add(data.len() as u64);
        if self.is_command(*address, end) {
            return self.complete_commands(*address, end, record.position, sink);
        }
        let rings = self.cqs.values_mut().chain(self.eqs.values_mut());
        let mut rings = rings.filter(|ring| ring.base < end && *address < ring.end());
        let Some(ring) = rings.next() else {
            return;
        };
        let (key, number) = (ring.key.clone(), ring.number);
        let found = write_entries(&self.image, ring, *address, end, record.position);
        for mut entry in found {
            self.name_objects(&mut entry.fields);
            sink.entry(key.clone(), number, entry);
        }
    }

    fn is_command(&self, begin: u64, end: u64) -> bool {
        let bytes = (CommandEntry::SIZE as u64) << self.command_log;
        self.command_base != 0
            && begin >= self.command_base
            && end <= self.command_base.saturating_add(bytes)
    }

    /// Finds the entries whose last word was written.
    fn complete_commands(&mut self, begin: u64, end: u64, at: Position, sink: &mut dyn Sink) {
        let size = CommandEntry::SIZE as u64;
        let first = (begin - self.command_base) / size;
        for index in first..(end - self.command_base).div_ceil(size) {
            let iova = self.command_base + index * size;
            let Some(entry) = self.image.get_as::<CommandEntry>(iova) else {
                continue;
            };
            let is_last_written = begin <= iova + size - 8 && end >= iova + size;
            if is_last_written && !entry.completion.device_owned() {
                self.complete(&entry, at, sink);
            }
        }
    }

    /// Processes a command whose completion was not seen.
    fn end_unseen(&mut self, iova: u64, at: Position, sink: &mut dyn Sink) {
        let Some(entry) = self.image.get_as::<CommandEntry>(iova) else {
            return;
        };
        let mut found = entries::command(&entry, &self.input_of(&entry), None, at);
        let is_of_end = |name| matches!(name, "status" | "syndrome" | "result");
        found.fields.retain(|field| !is_of_end(field.name));
        self.name_objects(&mut found.fields);
        sink.entry(self.key(Subject::Commands), 0, found);
    }

    /// Returns the input of a command that the card has read.
    fn input_of(&self, entry: &CommandEntry) -> Vec<u8> {
        let length = (entry.input_length as usize).min(1 << LOG_MAX_MAILBOX);
        let input = self.image.get(entry.input_iova, length);
        input.filter(|_| length > 0).unwrap_or_default()
    }

    fn complete(&mut self, entry: &CommandEntry, at: Position, sink: &mut dyn Sink) {
        let input = self.input_of(entry);
        let is_success = entries::is_success(entry.completion);
        let output = match output_size(entry.opcode) {
            size if size > 0 && is_success => self.image.get(entry.output_iova, size),
            _ => None,
        };
        let mut found = entries::command(entry, &input, output.as_deref(), at);
        let creates = entries::creates(entry.opcode);
        if is_success && creates {
            self.apply(entry, &input, at, sink);
        }
        self.name_objects(&mut found.fields);
        sink.entry(self.key(Subject::Commands), 0, found);
        if is_success && !creates {
            self.apply(entry, &input, at, sink);
        }
    }

    /// Replaces the numbers of objects by their names.
    pub(crate) fn name_objects(&self, fields: &mut [Field]) {
        let event = fields.iter().find(|field| field.name == "event");
        let is_of_cq = event.is_some_and(|field| match field.value {
            Value::Code(code, _) => {
                [EventType::COMPLETION.0, EventType::CQ_ERROR.0].contains(&(code as u8))
            }
            _ => false,
        });
        for field in fields
            .iter_mut()
            .filter(|field| field.class == Class::Number)
        {
            let Value::Number(number) = field.value else {
                continue;
            };
            let index = number as u32;
            let name = match field.name {
                "qpn" => self.qp_name(index),
                "cqn" | "send_cqn" | "receive_cqn" => self.cq_name(index),
                "number" if is_of_cq => self.cq_name(index),
                "number" => self.qp_name(index),
                "key" => self.region_name(index),
                _ => None,
            };
            if let Some(name) = name {
                field.value = Value::Object(number, name);
                field.class = Class::Object;
            }
        }
    }

    fn qp_name(&self, qpn: u32) -> Option<String> {
        let live = self.qps.iter().find(|qp| qp.is_alive && qp.qpn == qpn)?;
        Some(format!("QP {}", live.ordinal))
    }

    fn cq_name(&self, number: u32) -> Option<String> {
        self.cqs
            .get(&number)
            .map(|ring| format!("CQ {}", ring.key.object))
    }

    /// Returns the name of a key's region.
    fn region_name(&self, key: u32) -> Option<String> {
        let region = self.regions.get(&(key >> 8))?;
        Some(format!("region {}", region.key.object))
    }

    /// Applies the effect of a command to the objects.
    fn apply(&mut self, entry: &CommandEntry, input: &[u8], at: Position, sink: &mut dyn Sink) {
        use CommandOpcode as C;
        let number = entry.argument as u32;
        match entry.opcode {
            C::SET_CONTEXT_TABLES => self.tables = parse(input).unwrap_or_default(),
            C::SET_ADDRESS => self.add_mac(input),
            C::CREATE_EQ => self.create_eq(number, input),
            C::DESTROY_EQ => drop(self.eqs.remove(&number)),
            C::CREATE_CQ => self.create_cq(entry.result as u32, input),
            C::MODIFY_CQ => self.modify_cq(number, input),
            C::DESTROY_CQ => drop(self.cqs.remove(&number)),
            C::CREATE_QP => self.create_qp(entry.result as u32, input),
            C::MODIFY_QP => self.modify_qp(number, input),
            C::DESTROY_QP => self.destroy_qp(number),
            C::CREATE_MR => self.create_region(entry.result as u32, input, at),
            C::MODIFY_MR => {
                self.remove_region(number >> 8, at, sink);
                self.create_region(entry.result as u32, input, at);
            }
            C::DESTROY_MR => self.remove_region(number >> 8, at, sink),
            _ => {}
        }
    }

    fn add_mac(&mut self, input: &[u8]) {
        let entry = parse::<ferroce_spec::context::AddressEntry>(input);
        let mac = entry.map(|entry| entry.mac).filter(|mac| *mac != [0; 6]);
        if let Some(mac) = mac.filter(|mac| !self.macs.contains(mac)) {
            self.macs.push(mac);
        }
    }

    fn create_eq(&mut self, number: u32, input: &[u8]) {
        let Some(context) = parse::<EqContext>(input) else {
            return;
        };
        // The number of an event queue is its vector, which is the same in each run.
        let key = Key {
            object: number,
            ..self.key(Subject::Events)
        };
        let ring = ring(context.base, context.log_size, Eqe::SIZE, key, number);
        self.eqs.insert(number, ring);
    }

    fn create_cq(&mut self, number: u32, input: &[u8]) {
        let Some(context) = parse::<CqContext>(input) else {
            return;
        };
        let key = self.next_key(Subject::Completions);
        let ring = ring(context.base, context.log_size, Cqe::SIZE, key, number);
        self.cqs.insert(number, ring);
    }

    fn modify_cq(&mut self, number: u32, input: &[u8]) {
        let context = parse::<CqContext>(input).filter(|context| context.base != 0);
        if let (Some(context), Some(ring)) = (context, self.cqs.get_mut(&number)) {
            ring.base = context.base;
            ring.log_size = context.log_size.min(LOG_MAX_ENTRIES);
        }
    }

    fn create_qp(&mut self, qpn: u32, input: &[u8]) {
        let Some(context) = parse::<QpContext>(input) else {
            return;
        };
        let key = self.next_key(Subject::RequestsSent);
        self.qps.push(Qp {
            section: key.section,
            ordinal: key.object,
            qpn,
            is_alive: true,
            context,
            newest: BTreeMap::new(),
        });
    }

    fn modify_qp(&mut self, qpn: u32, input: &[u8]) {
        let short = || parse::<ShortModifyQp>(input).map(ModifyQp::from);
        let Some(change) = parse::<ModifyQp>(input).or_else(short) else {
            return;
        };
        let live = self.qps.iter_mut().find(|qp| qp.is_alive && qp.qpn == qpn);
        let Some(qp) = live else {
            return;
        };
        if change.mask.dest_qpn() {
            qp.context.dest_qpn = change.context.dest_qpn;
        }
        if change.mask.path() {
            qp.context.path = change.context.path;
        }
        if change.state == u32::from(QpStateCode::RESET.0) {
            qp.newest.clear();
        }
    }

    fn destroy_qp(&mut self, qpn: u32) {
        let gone = self.qps.iter_mut().find(|qp| qp.is_alive && qp.qpn == qpn);
        if let Some(qp) = gone {
            qp.is_alive = false;
        }
    }

    fn create_region(&mut self, key: u32, input: &[u8], at: Position) {
        let Some(entry) = parse::<MemoryEntry>(input) else {
            return;
        };
        let region = Region {
            key: self.next_key(Subject::Memory),
            number: key,
            entry,
            since: at.sequence,
        };
        self.regions.insert(key >> 8, region);
    }

    /// Removes a region: the card's writes to it are final.
    fn remove_region(&mut self, index: u32, at: Position, sink: &mut dyn Sink) {
        let Some(region) = self.regions.remove(&index) else {
            return;
        };
        let word = region.entry.word;
        if word.device_memory() || word.null() || word.window() || region.entry.length == 0 {
            return;
        }
        for (start, iova, length) in self.pages_of(&region.entry) {
            if !self.image.was_written(iova, length, region.since) {
                continue;
            }
            for begin in (0..length).step_by(LINE as usize) {
                let count = (length - begin).min(LINE);
                let found = self
                    .image
                    .written(iova + begin, count as usize, region.since);
                if let Some(written) = found {
                    let fields = entries::memory(start + begin, written.bytes, &written.mask);
                    let entry = Entry {
                        at: written.by.min(at),
                        fields,
                        rule: None,
                    };
                    sink.entry(region.key.clone(), region.number, entry);
                }
            }
        }
    }

    /// Returns the pieces of a region that are contiguous in IOVA space: offset in the region, IOVA
    /// and length. Pages whose translation the card has not read are skipped, because it has not
    /// written there.
    fn pages_of(&self, entry: &MemoryEntry) -> Vec<(u64, u64, u64)> {
        if entry.word.direct() {
            return vec![(0, entry.translation, entry.length)];
        }
        let log = entry.word.log_page_size();
        if !ferroce_spec::context::LOG_PAGE_SIZES.contains(&log) {
            return Vec::new();
        }
        let page = 1u64 << log;
        let first = entry.first_page_offset % page;
        let end = first.saturating_add(entry.length);
        let pages = end.div_ceil(page).min(MAX_PAGES);
        let mut found = Vec::new();
        for index in 0..pages {
            let at = entry.translation.wrapping_add(index);
            let place = self.tables.mtt_base.wrapping_add(at.wrapping_mul(8));
            let translation = self.image.get_as::<TranslationEntry>(place);
            let Some(translation) = translation.filter(|entry| entry.present()) else {
                continue;
            };
            let begin = if index == 0 { first } else { 0 };
            let stop = (end - index * page).min(page);
            let start = index * page + begin - first;
            found.push((start, translation.iova() + begin, stop - begin));
        }
        found
    }
}

fn parse<T: FromBytes>(bytes: &[u8]) -> Option<T> {
    T::read_from_bytes(bytes).ok()
}

fn ring(base: u64, log_size: u8, entry_bytes: usize, key: Key, number: u32) -> Ring {
    Ring {
        base,
        log_size: log_size.min(LOG_MAX_ENTRIES),
        entry_bytes: entry_bytes as u64,
        next: 0,
        key,
        number,
        sequence: None,
    }
}

/// Returns the entries of a ring whose last word was written.
fn write_entries(image: &Image, ring: &mut Ring, begin: u64, end: u64, at: Position) -> Vec<Entry> {
    let mut found = Vec::new();
    let size = ring.entry_bytes;
    let first = begin.saturating_sub(ring.base) / size;
    let last = (end.min(ring.end()) - ring.base).div_ceil(size);
    for place in first..last {
        let iova = ring.base + place * size;
        if begin > iova + size - 4 || end < iova + size {
            continue;
        }
        let Some(bytes) = image.get(iova, size as usize) else {
            continue;
        };
        let is_next = iova == ring.iova_of(ring.next);
        let owner = cqe::owner_at(ring.next, ring.log_size.into());
        let mut entry = match ring.key.subject {
            Subject::Events => entries::event(ring.sequence, &bytes, at),
            _ => entries::completion(&bytes, at),
        };
        if ring.key.subject == Subject::Events {
            ring.sequence = Some(number(&bytes[4..8]) as u32);
        }
        let is_owned = (bytes[size as usize - 1] >> 7 == 1) == owner;
        entry
            .fields
            .push(entries::flag("is_at_next_place", is_next));
        entry.fields.push(entries::flag("owner_is_right", is_owned));
        ring.next = ring.next.wrapping_add(1);
        found.push(entry);
    }
    found
}

/// Returns the memory contents of a command queue entry.
pub(crate) fn entry_bytes(entry: &CommandEntry) -> &[u8] {
    entry.as_bytes()
}

/// Converts a wall clock time to an instant.
pub(crate) fn instant(elapsed: std::time::Duration) -> Instant {
    Instant::from_ns(elapsed.as_nanos() as u64)
}
