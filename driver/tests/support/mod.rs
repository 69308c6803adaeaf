//! A fake device that keeps the contract but moves no data: it executes commands, records
//! doorbells, and writes CQEs and events on request of the test.

#![allow(dead_code, reason = "each test binary uses its part of it")]

pub mod verbs;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use ferroce_driver::bus::fake::FakeMemory;
use ferroce_driver::bus::{
    Bus, BusError, DmaAccess, DmaMapping, InterruptHandler, PageFaulting, RegionTranslation,
};
use ferroce_spec::command::{
    CommandCompletion, CommandEntry, CommandOpcode, CommandStatus, ContextTables,
    DeviceCapabilities, DeviceFeatures, MAILBOX_ALIGNMENT, ModifyQp, MulticastGroup, NewNumber,
    ShortModifyQp, input_size,
};
use ferroce_spec::context::{
    AddressEntry, CqContext, EqContext, GSI_QPN, MemoryEntry, QpContext, QpStateCode, ServiceCode,
    SrqContext, TranslationEntry,
};
use ferroce_spec::cqe::{Cqe, owner_at};
use ferroce_spec::doorbell::{DoorbellKind, DoorbellValue, LOG_PAGES};
use ferroce_spec::eqe::{Eqe, EqeWord, EventType};
use ferroce_spec::register::{
    COUNTERS_OFFSET, Capability, ContractVersion, Control, DEVICE_ID, EventQueueDoorbell, MAGIC,
    Status, VECTOR_COUNT, VENDOR_ID, offset,
};
use parking_lot::Mutex;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// First QPN that the device allocates.
pub const QPN_BASE: u32 = 0x100;
/// First SRQN that the device allocates.
pub const SRQN_BASE: u32 = 0x40;
/// Bytes of the device's own memory.
pub const DEVICE_MEMORY: usize = 4096;
/// Where a device sees the program's address space.
pub const ADDRESS_SPACE: Range<u64> = 1 << 48..(1 << 48) + (1 << 47);

#[derive(Default)]
pub struct HonestDevice {
    pub memory: FakeMemory,
    state: Mutex<State>,
    handlers: Mutex<BTreeMap<u16, InterruptHandler>>,
    health_check: Mutex<Option<InterruptHandler>>,
    /// True if all registers read as ones.
    pub removed: Mutex<bool>,
    /// True if interrupts are lost.
    pub loses_interrupts: Mutex<bool>,
    /// True if doorbells are lost.
    pub loses_doorbells: Mutex<bool>,
    /// If set, the next CREATE command fails with this status.
    pub refuse: Mutex<Option<CommandStatus>>,
    /// True if the device no longer answers commands.
    pub mute: Mutex<bool>,
    /// Called once, before the next doorbell or push lands.
    pub before_doorbell: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// Called by `relax`.
    pub on_relax: Mutex<Option<Box<dyn FnMut() + Send>>>,
    /// Features that the device lacks.
    pub lacks: DeviceFeatures,
    /// Minor version of the device's contract, if it differs from ours.
    pub minor: Option<u16>,
    /// Base-2 logarithm of the private area that the device requests for each QP; zero: none.
    pub log_private_bytes: u8,
    /// Bytes of the device's own memory.
    pub device_memory: Mutex<Vec<u8>>,
    pub note_doorbells: bool,
    /// Blocks of the longest push, as the device and as the bus report it.
    pub device_push_blocks: u8,
    pub bus_push_blocks: u32,
    /// Bytes of the longest inline payload, unless zero.
    pub max_inline: u16,
    /// True if IOVAs do not depend on addresses, as on simulated hosts.
    pub has_independent_iovas: bool,
    /// How the bus translates regions, if not by the pages of the kernel.
    pub region_translation: Option<RegionTranslation>,
    /// True if the program's address space can be shown, and whether it is.
    pub has_address_space: bool,
    pub page_faults: Option<PageFaulting>,
    /// An address of which the program has no memory.
    pub missing_page: Mutex<usize>,
    /// Values of the register.
    pub page_fault_answers: Mutex<Vec<u32>>,
    pub address_space: Mutex<bool>,
    /// True if the driver may choose the numbers of objects.
    pub takes_numbers: bool,
    /// True if the device panics when the driver breaks the contract.
    pub strict: bool,
}

#[derive(Default)]
pub struct State {
    control: Control,
    command_base: u64,
    command_log_size: u32,
    command_consumer: u32,
    pub tables: Option<ContextTables>,
    pub eqs: BTreeMap<u32, Queue<EqContext>>,
    pub cqs: BTreeMap<u32, Queue<CqContext>>,
    pub qps: BTreeMap<u32, QpContext>,
    pub srqs: BTreeMap<u32, SrqContext>,
    pub mrs: BTreeMap<u32, MemoryEntry>,
    /// QPN and group of each attached QP.
    pub multicast: BTreeSet<(u32, [u8; 16])>,
    /// Inputs of all MODIFY_QP commands.
    pub transitions: Vec<ModifyQp>,
    pub gids: BTreeMap<u64, AddressEntry>,
    pub doorbells: Vec<(u32, u64)>,
    /// Slot and words of each push.
    pub pushes: Vec<(u32, Vec<u64>)>,
    pub commands: Vec<CommandOpcode>,
}

#[derive(Clone, Copy)]
pub struct Queue<C> {
    pub context: C,
    pub producer: u32,
    pub armed: bool,
}

impl<C> Queue<C> {
    fn new(context: C) -> Self {
        Self {
            context,
            producer: 0,
            armed: false,
        }
    }
}

impl State {
    /// Stores the index of a doorbell in the context of its queue.
    fn ring(&mut self, value: DoorbellValue) {
        let (number, index) = (value.number(), value.index());
        match DoorbellKind(value.kind()) {
            DoorbellKind::SEND_QUEUE => {
                if let Some(qp) = self.qps.get_mut(&number) {
                    qp.send_producer = index;
                }
            }
            DoorbellKind::RECEIVE_QUEUE => {
                if let Some(qp) = self.qps.get_mut(&number) {
                    qp.receive_producer = index;
                }
            }
            DoorbellKind::SHARED_RECEIVE_QUEUE => {
                if let Some(srq) = self.srqs.get_mut(&number) {
                    srq.producer = index;
                }
            }
            DoorbellKind::CQ_ARM | DoorbellKind::CQ_ARM_SOLICITED => {
                if let Some(cq) = self.cqs.get_mut(&number) {
                    cq.armed = true;
                }
            }
            _ => {}
        }
    }

    /// Returns the IOVA of the command queue.
    pub fn command_base(&self) -> u64 {
        self.command_base
    }
}

impl HonestDevice {
    pub fn new() -> Arc<Self> {
        Self::without(DeviceFeatures::default())
    }

    /// Returns a device that lacks features.
    pub fn without(lacks: DeviceFeatures) -> Arc<Self> {
        Arc::new(Self {
            lacks,
            ..Self::noting()
        })
    }

    /// Returns a device that accepts pushes of `device` blocks, over a bus that carries `bus`
    /// blocks.
    pub fn with_pushes(device: u8, bus: u32) -> Arc<Self> {
        Arc::new(Self {
            device_push_blocks: device,
            bus_push_blocks: bus,
            ..Self::noting()
        })
    }

    /// Returns a device of an older minor version of the contract, which lacks features.
    pub fn of_version(minor: u16, lacks: DeviceFeatures) -> Arc<Self> {
        Arc::new(Self {
            minor: Some(minor),
            lacks,
            ..Self::noting()
        })
    }

    /// Returns a device that lets the driver choose the numbers of objects.
    pub fn with_chosen_numbers() -> Arc<Self> {
        Arc::new(Self {
            takes_numbers: true,
            ..Self::noting()
        })
    }

    /// Returns a device that can see the program's address space.
    pub fn with_address_space() -> Arc<Self> {
        Arc::new(Self {
            has_address_space: true,
            ..Self::noting()
        })
    }

    /// Returns a device that raises page faults, each of which brings in one more page.
    pub fn with_page_faults() -> Arc<Self> {
        Arc::new(Self {
            has_address_space: true,
            page_faults: Some(PageFaulting {
                prefetch_bytes: 4096,
            }),
            ..Self::noting()
        })
    }

    /// Returns a device whose IOVAs do not depend on addresses.
    pub fn with_independent_iovas() -> Arc<Self> {
        Arc::new(Self {
            has_independent_iovas: true,
            ..Self::noting()
        })
    }

    /// Returns such a device whose bus chooses how regions are translated.
    pub fn with_region_translation(translation: RegionTranslation) -> Arc<Self> {
        Arc::new(Self {
            has_independent_iovas: true,
            region_translation: Some(translation),
            ..Self::noting()
        })
    }

    /// Returns a device that requests `1 << log_private_bytes` bytes of memory for each QP.
    pub fn with_private_area(log_private_bytes: u8) -> Arc<Self> {
        Arc::new(Self {
            log_private_bytes,
            ..Self::noting()
        })
    }

    fn version(&self) -> ContractVersion {
        let mut version = ContractVersion::OURS;
        version.set_minor(self.minor.unwrap_or(version.minor()));
        version
    }

    /// Returns the number of input bytes of a command on this device.
    fn input_size(&self, opcode: CommandOpcode) -> usize {
        match opcode {
            CommandOpcode::MODIFY_QP if !self.version().has_aligned_modify_qp() => {
                ShortModifyQp::SIZE
            }
            _ => input_size(opcode),
        }
    }

    /// Returns the input of a MODIFY_QP.
    fn modify_input(&self, entry: &CommandEntry) -> ModifyQp {
        if self.version().has_aligned_modify_qp() {
            return self.read(entry.input_iova);
        }
        self.read::<ShortModifyQp>(entry.input_iova).into()
    }

    /// Returns a device with short inline payloads.
    pub fn with_max_inline(max_inline: u16) -> Arc<Self> {
        Arc::new(Self {
            max_inline,
            ..Self::noting()
        })
    }

    /// Returns a device with pushes that records nothing and does not check the driver.
    pub fn lenient(device: u8, bus: u32) -> Arc<Self> {
        Arc::new(Self {
            device_push_blocks: device,
            bus_push_blocks: bus,
            ..Self::default()
        })
    }

    fn noting() -> Self {
        Self {
            device_memory: Mutex::new(vec![0xee; DEVICE_MEMORY]),
            note_doorbells: true,
            strict: true,
            ..Self::default()
        }
    }

    /// Returns the pushes since the last call.
    pub fn take_pushes(&self) -> Vec<(u32, Vec<u64>)> {
        std::mem::take(&mut self.state.lock().pushes)
    }

    fn call_before_doorbell(&self) {
        let hook = self.before_doorbell.lock().take();
        if let Some(hook) = hook {
            hook();
        }
    }

    /// Returns the doorbells since the last call.
    pub fn take_doorbells(&self) -> Vec<(u32, u64)> {
        std::mem::take(&mut self.state.lock().doorbells)
    }

    pub fn with_state<R>(&self, body: impl FnOnce(&mut State) -> R) -> R {
        body(&mut self.state.lock())
    }

    /// Writes a CQE at the end of a CQ.
    pub fn complete(&self, cqn: u32, mut cqe: Cqe) {
        let mut state = self.state.lock();
        let queue = state.cqs.get_mut(&cqn).expect("the test names a CQ");
        let log_size = u32::from(queue.context.log_size);
        cqe.word.set_owner(owner_at(queue.producer, log_size));
        let iova = place(&queue.context, queue.producer);
        queue.producer = queue.producer.wrapping_add(1);
        assert!(self.memory.store_words(iova, &words::<4>(&cqe)));
    }

    /// Calls the driver's check of the device, as a bus does once in each period.
    pub fn check_health(&self) {
        let check = self.health_check.lock().clone();
        check.expect("the device is open")();
    }

    /// Resets the function without the driver.
    pub fn function_level_reset(&self) {
        self.with_state(|state| *state = State::default());
    }

    /// Writes an event, and interrupts when the event queue is armed.
    pub fn raise(&self, eqn: u32, event: EventType, number: u32) {
        self.raise_for_page(eqn, event, number, 0);
    }

    /// Does the same as [`Self::raise`] with the page of a page fault.
    pub fn raise_for_page(&self, eqn: u32, event: EventType, number: u32, page: u32) {
        {
            let mut state = self.state.lock();
            let queue = state.eqs.get_mut(&eqn).expect("the test names an EQ");
            let log_size = u32::from(queue.context.log_size);
            let mut word = EqeWord::default();
            word.set_event(event.0);
            word.set_owner(owner_at(queue.producer, log_size));
            let eqe = Eqe {
                number,
                sequence: queue.producer,
                page,
                word,
            };
            let place = u64::from(queue.producer & ((1 << log_size) - 1));
            let iova = queue.context.base + place * Eqe::SIZE as u64;
            queue.producer = queue.producer.wrapping_add(1);
            assert!(self.memory.store_words(iova, &words::<2>(&eqe)));
        }
        self.interrupt_if_armed(eqn);
    }

    fn interrupt_if_armed(&self, eqn: u32) {
        let due = self.with_state(|state| {
            let queue = state.eqs.get_mut(&eqn);
            queue.is_some_and(|queue| std::mem::take(&mut queue.armed))
        });
        let handler = self.handlers.lock().get(&(eqn as u16)).cloned();
        let due = due && !*self.loses_interrupts.lock();
        if let (true, Some(handler)) = (due, handler) {
            handler();
        }
    }

    fn event_queue_doorbell(&self, eqn: u32, value: u32) {
        let doorbell = EventQueueDoorbell::from_bits(value);
        let due = self.with_state(|state| {
            let Some(queue) = state.eqs.get_mut(&eqn) else {
                return false;
            };
            queue.armed = doorbell.arm();
            queue.producer & 0xff_ffff != doorbell.consumer_index()
        });
        if due {
            self.interrupt_if_armed(eqn);
        }
    }

    pub fn read<T: FromBytes + IntoBytes>(&self, iova: u64) -> T {
        let mut value = T::new_zeroed();
        for (word, chunk) in (0u64..).zip(value.as_mut_bytes().chunks_mut(8)) {
            // A corrupted pointer may be at the end of the address space.
            let place = iova.wrapping_add(8 * word);
            let word = self.memory.load(place);
            assert!(word.is_some() || !self.strict, "{place:#x} is not mapped");
            let word = word.unwrap_or_default();
            chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
        }
        value
    }

    fn write<T: IntoBytes + Immutable>(&self, iova: u64, value: &T) {
        for (word, chunk) in (0u64..).zip(value.as_bytes().chunks(8)) {
            // A corrupted pointer may be at the end of the address space.
            let place = iova.wrapping_add(8 * word);
            let word = u64::from_le_bytes(chunk.try_into().expect("a multiple of 8"));
            assert!(self.memory.store(place, word) || !self.strict);
        }
    }

    /// Returns the translation entry of page `page` of a memory region.
    pub fn translation(&self, key: u32, page: u64) -> TranslationEntry {
        let state = self.state.lock();
        let table = state.tables.expect("tables are set").mtt_base;
        let entry = state.mrs[&key].translation + page;
        TranslationEntry::from_bits(self.memory.load(table + 8 * entry).expect("mapped"))
    }

    fn run_commands(&self, posted: u32) {
        if *self.mute.lock() {
            return;
        }
        loop {
            let (consumer, base, log_size) = self.with_state(|state| {
                let base = state.command_base;
                (state.command_consumer, base, state.command_log_size)
            });
            if consumer == posted {
                return;
            }
            let place = u64::from(consumer & ((1 << log_size) - 1));
            let iova = base + place * CommandEntry::SIZE as u64;
            let entry: CommandEntry = self.read(iova);
            if self.strict {
                assert!(entry.completion.device_owned());
                assert_eq!(entry.input_length as usize, self.input_size(entry.opcode));
                assert_eq!(entry.input_iova % MAILBOX_ALIGNMENT, 0);
                assert_eq!(entry.output_iova % MAILBOX_ALIGNMENT, 0);
            }
            let outcome = self.execute(&entry);
            let mut completion = CommandCompletion::default();
            if let Err(status) = outcome {
                completion.set_status(status.0);
            }
            self.memory.store(iova + 0x30, outcome.unwrap_or(0));
            self.memory.store(iova + 0x38, completion.bits());
            self.with_state(|state| {
                state.command_consumer = consumer.wrapping_add(1);
                state.commands.push(entry.opcode);
            });
        }
    }

    fn execute(&self, entry: &CommandEntry) -> Result<u64, CommandStatus> {
        let mut state = self.state.lock();
        let number = entry.argument as u32;
        if entry.input_length > 0 {
            if let Some(status) = self.refuse.lock().take() {
                return Err(status);
            }
        }
        match entry.opcode {
            CommandOpcode::NOP => return Ok(entry.argument),
            CommandOpcode::QUERY_DEVICE => {
                let mut answer = capabilities();
                let features = answer.features.bits() & !self.lacks.bits();
                answer.features = DeviceFeatures::from_bits(features);
                answer.features.set_chosen_numbers(self.takes_numbers);
                answer.log_private_bytes = self.log_private_bytes;
                if self.max_inline != 0 {
                    answer.max_inline = self.max_inline;
                }
                self.write(entry.output_iova, &answer);
            }
            CommandOpcode::SET_CONTEXT_TABLES => {
                state.tables = Some(self.read(entry.input_iova));
            }
            CommandOpcode::SET_ADDRESS => {
                state
                    .gids
                    .insert(entry.argument, self.read(entry.input_iova));
            }
            CommandOpcode::QUERY_ADDRESS => {
                let gid = state.gids.get(&entry.argument).copied();
                self.write(entry.output_iova, &gid.unwrap_or_default());
            }
            CommandOpcode::CREATE_EQ => {
                let context = self.read(entry.input_iova);
                state.eqs.insert(number, Queue::new(context));
            }
            CommandOpcode::CREATE_CQ => {
                let cqn = self.number(entry, &state.cqs, 1)?;
                let context = self.read(entry.input_iova);
                state.cqs.insert(cqn, Queue::new(context));
                return Ok(cqn.into());
            }
            CommandOpcode::CREATE_QP => {
                let context: QpContext = self.read(entry.input_iova);
                let qpn = match context.service {
                    ServiceCode::GSI if state.qps.contains_key(&GSI_QPN) => {
                        return Err(CommandStatus::NO_RESOURCES);
                    }
                    ServiceCode::GSI => GSI_QPN,
                    _ => self.number(entry, &state.qps, QPN_BASE)?,
                };
                state.qps.insert(qpn, context);
                return Ok(qpn.into());
            }
            CommandOpcode::MODIFY_CQ => return self.modify_cq(&mut state, entry),
            CommandOpcode::CREATE_SRQ => {
                let srqn = self.number(entry, &state.srqs, SRQN_BASE)?;
                state.srqs.insert(srqn, self.read(entry.input_iova));
                return Ok(srqn.into());
            }
            CommandOpcode::MODIFY_SRQ => {
                let input: SrqContext = self.read(entry.input_iova);
                let srq = state.srqs.get_mut(&number);
                srq.ok_or(CommandStatus::NO_OBJECT)?.limit = input.limit;
            }
            CommandOpcode::QUERY_SRQ => {
                let srq = state.srqs.get(&number).ok_or(CommandStatus::NO_OBJECT)?;
                self.write(entry.output_iova, srq);
            }
            CommandOpcode::CREATE_MR => {
                let region: MemoryEntry = self.read(entry.input_iova);
                let newest = state.mrs.keys().next_back().map_or(0, |key| key >> 8);
                let indices = state.mrs.keys().map(|key| (key >> 8, ())).collect();
                let index = self.number(entry, &indices, newest + 1)?;
                let key = index << 8 | region.key & 0xff;
                state.mrs.insert(key, region);
                return Ok(key.into());
            }
            CommandOpcode::MODIFY_MR => {
                let region: MemoryEntry = self.read(entry.input_iova);
                state.mrs.remove(&number).ok_or(CommandStatus::NO_OBJECT)?;
                let key = number & !0xff | region.key & 0xff;
                state.mrs.insert(key, region);
                return Ok(key.into());
            }
            CommandOpcode::SYNC_MR => {
                state.mrs.get(&number).ok_or(CommandStatus::NO_OBJECT)?;
            }
            CommandOpcode::ATTACH_MULTICAST => {
                let group: MulticastGroup = self.read(entry.input_iova);
                state.multicast.insert((number, group.gid));
            }
            CommandOpcode::DETACH_MULTICAST => {
                let group: MulticastGroup = self.read(entry.input_iova);
                if !state.multicast.remove(&(number, group.gid)) {
                    return Err(CommandStatus::NO_OBJECT);
                }
            }
            CommandOpcode::MODIFY_QP => {
                let input = self.modify_input(entry);
                state.transitions.push(input);
                let qp = state.qps.get_mut(&number).ok_or(CommandStatus::NO_OBJECT)?;
                if input.current_state != 0xff && input.current_state != u32::from(qp.state.0) {
                    return Err(CommandStatus::BAD_TRANSITION);
                }
                let shape = *qp;
                *qp = input.context;
                qp.state = QpStateCode(input.state as u8);
                qp.service = shape.service;
                (qp.send_base, qp.receive_base) = (shape.send_base, shape.receive_base);
                qp.shape = shape.shape;
                qp.send_doorbell_slot = shape.send_doorbell_slot;
                qp.receive_doorbell_slot = shape.receive_doorbell_slot;
            }
            CommandOpcode::QUERY_QP => {
                let qp = state.qps.get(&number).ok_or(CommandStatus::NO_OBJECT)?;
                self.write(entry.output_iova, qp);
            }
            CommandOpcode::QUERY_CQ => {
                let queue = state.cqs.get(&number).ok_or(CommandStatus::NO_OBJECT)?;
                let armed = u8::from(queue.armed);
                self.write(
                    entry.output_iova,
                    &CqContext {
                        armed,
                        ..queue.context
                    },
                );
            }
            CommandOpcode::DESTROY_EQ => drop(state.eqs.remove(&number)),
            CommandOpcode::DESTROY_CQ => drop(state.cqs.remove(&number)),
            CommandOpcode::DESTROY_QP => drop(state.qps.remove(&number)),
            CommandOpcode::DESTROY_SRQ => drop(state.srqs.remove(&number)),
            CommandOpcode::DESTROY_MR => drop(state.mrs.remove(&number)),
            _ => return Err(CommandStatus::BAD_OPCODE),
        }
        Ok(0)
    }

    /// Returns the number of a new object: the one that the driver has chosen, or the first free
    /// one from `first` on. A device that lies about its features ignores the driver's choice.
    fn number<V>(
        &self,
        entry: &CommandEntry,
        objects: &BTreeMap<u32, V>,
        first: u32,
    ) -> Result<u32, CommandStatus> {
        if !self.takes_numbers {
            assert!(!self.strict || entry.argument == 0, "{entry:?}");
            return Ok(free_number(objects, first));
        }
        match NewNumber::from_bits(entry.argument).choice() {
            Some(number) if objects.contains_key(&number) => Err(CommandStatus::BUSY),
            Some(number) => Ok(number),
            None => Ok(free_number(objects, first)),
        }
    }

    /// Moves a CQ to another ring, or changes its moderation.
    fn modify_cq(&self, state: &mut State, entry: &CommandEntry) -> Result<u64, CommandStatus> {
        let input: CqContext = self.read(entry.input_iova);
        let queue = state.cqs.get_mut(&(entry.argument as u32));
        let queue = queue.ok_or(CommandStatus::NO_OBJECT)?;
        if input.base != 0 {
            let waiting = queue.producer.wrapping_sub(input.consumer);
            if waiting > 1 << input.log_size.min(31) {
                return Err(CommandStatus::BAD_PARAMETER);
            }
            for index in (0..waiting).map(|step| input.consumer.wrapping_add(step)) {
                let mut cqe: Cqe = self.read(place(&queue.context, index));
                cqe.word.set_owner(owner_at(index, input.log_size.into()));
                let stored = self
                    .memory
                    .store_words(place(&input, index), &words::<4>(&cqe));
                assert!(stored || !self.strict);
            }
            queue.context.base = input.base;
            queue.context.log_size = input.log_size;
            queue.context.consumer_record = input.consumer_record;
        }
        queue.context.moderation_count = input.moderation_count;
        queue.context.moderation_us = input.moderation_us;
        Ok(0)
    }
}

/// Returns the IOVA of the entry at `index` of a CQ.
fn place(context: &CqContext, index: u32) -> u64 {
    let place = index & ((1u32 << context.log_size.min(31)) - 1);
    context.base + u64::from(place) * Cqe::SIZE as u64
}

fn free_number<V>(objects: &BTreeMap<u32, V>, first: u32) -> u32 {
    (first..)
        .find(|number| !objects.contains_key(number))
        .expect("tests are small")
}

fn words<const N: usize>(value: &(impl IntoBytes + Immutable)) -> [u64; N] {
    let mut words = [0; N];
    for (word, chunk) in words.iter_mut().zip(value.as_bytes().chunks(8)) {
        *word = u64::from_le_bytes(chunk.try_into().expect("a multiple of 8"));
    }
    words
}

/// Returns the limits of the device.
pub fn capabilities() -> DeviceCapabilities {
    DeviceCapabilities {
        firmware_version: *b"fake 1.2\0\0\0\0\0\0\0\0",
        qpn_base: QPN_BASE,
        reserved_qps: 2,
        max_message_length: 1 << 31,
        max_mr_length: 1 << 40,
        page_sizes: 1 << 12 | 1 << 21 | 1 << 30,
        log_max_qps: 10,
        log_max_cqs: 10,
        log_max_srqs: 6,
        log_max_mrs: 12,
        log_max_mtts: 16,
        log_max_send_blocks: 16,
        log_max_receives: 16,
        log_max_cqes: 16,
        log_max_eqes: 6,
        max_data_segments: 16,
        max_send_blocks: 10,
        processing_units: 1,
        max_inline: 512,
        max_gids: 16,
        max_rd_atomic: 16,
        max_dest_rd_atomic: 16,
        local_ack_delay: 4,
        max_path_mtu: 5,
        features: DeviceFeatures::from_bits(!0),
        device_memory_length: DEVICE_MEMORY as u32,
        max_multicast_groups: 8,
        max_multicast_qps: 4,
        ..DeviceCapabilities::default()
    }
}

impl Bus for HonestDevice {
    fn read32(&self, at: u32) -> u32 {
        let control = self.with_state(|state| state.control);
        match at {
            _ if *self.removed.lock() => u32::MAX,
            offset::magic => MAGIC,
            offset::contract_version => self.version().bits(),
            offset::device_id => u32::from(DEVICE_ID) << 16 | u32::from(VENDOR_ID),
            offset::hardware_revision => 3,
            offset::control => control.bits(),
            offset::status => {
                let mut status = Status::default();
                status.set_ready(true);
                status.set_enabled(control.enable());
                status.set_link_up(true);
                status.bits()
            }
            _ => u32::MAX,
        }
    }

    fn write32(&self, at: u32, value: u32) {
        match at {
            offset::control => self.with_state(|state| {
                let control = Control::from_bits(value);
                if control.reset() {
                    *state = State::default();
                } else {
                    state.control = control;
                }
            }),
            offset::command_queue_log_size => {
                self.with_state(|state| state.command_log_size = value);
            }
            offset::command_queue_doorbell => self.run_commands(value),
            offset::page_fault_answer => self.page_fault_answers.lock().push(value),
            _ if (offset::event_queue_doorbell..0x140).contains(&at) => {
                self.event_queue_doorbell((at - offset::event_queue_doorbell) / 4, value);
            }
            _ => {}
        }
    }

    fn read64(&self, at: u32) -> u64 {
        match at {
            offset::capability => {
                let mut capability = Capability::default();
                capability.set_log_doorbell_pages(LOG_PAGES);
                capability.set_vectors(VECTOR_COUNT as u8);
                capability.set_ports(1);
                capability.set_counters(3);
                capability.set_push_blocks(self.device_push_blocks);
                capability.set_present(true);
                capability.bits()
            }
            offset::port_mac => 0x0200_0000_0001,
            offset::clock => 1234,
            _ if at >= COUNTERS_OFFSET => u64::from(at),
            _ => u64::MAX,
        }
    }

    fn write64(&self, at: u32, value: u64) {
        if at == offset::command_queue_base {
            self.with_state(|state| state.command_base = value);
        }
    }

    fn doorbell(&self, slot: u32, value: u64) {
        if self.note_doorbells {
            self.call_before_doorbell();
            let mut state = self.state.lock();
            state.doorbells.push((slot, value));
            if !*self.loses_doorbells.lock() {
                state.ring(DoorbellValue::from_bits(value));
            }
        }
    }

    fn push_blocks(&self) -> u32 {
        self.bus_push_blocks
    }

    fn push(&self, slot: u32, words: &[u64]) {
        if self.note_doorbells {
            self.call_before_doorbell();
            self.state.lock().pushes.push((slot, words.to_vec()));
        }
    }

    fn read_device_memory(&self, offset: u64, destination: &mut [u8]) {
        let memory = self.device_memory.lock();
        for (byte, place) in destination.iter_mut().zip(offset..) {
            *byte = memory.get(place as usize).copied().unwrap_or(0xff);
        }
    }

    fn write_device_memory(&self, offset: u64, source: &[u8]) {
        let mut memory = self.device_memory.lock();
        for (&byte, place) in source.iter().zip(offset..) {
            if let Some(cell) = memory.get_mut(place as usize) {
                *cell = byte;
            }
        }
    }

    fn map(&self, mapping: &DmaMapping) -> Result<(), BusError> {
        self.memory.map(mapping)
    }

    fn unmap(&self, iova: u64, length: usize) -> Result<(), BusError> {
        self.memory.unmap(iova, length)
    }

    fn page_faults(&self) -> Option<PageFaulting> {
        self.page_faults
    }

    fn bring_in(&self, address: usize, length: usize, _access: DmaAccess) -> bool {
        let missing = *self.missing_page.lock();
        !(address..address + length).contains(&missing)
    }

    fn address_space(&self) -> Option<Range<u64>> {
        self.has_address_space.then_some(ADDRESS_SPACE)
    }

    fn map_address_space(&self) -> Result<(), BusError> {
        match std::mem::replace(&mut *self.address_space.lock(), true) {
            false => Ok(()),
            true => Err(BusError::AlreadyMapped),
        }
    }

    fn unmap_address_space(&self) -> Result<(), BusError> {
        match std::mem::replace(&mut *self.address_space.lock(), false) {
            true => Ok(()),
            false => Err(BusError::NotMapped),
        }
    }

    fn iova_range(&self) -> Range<u64> {
        0..1 << 39
    }

    fn region_translation(&self) -> Option<RegionTranslation> {
        self.region_translation
    }

    fn has_congruent_iovas(&self) -> bool {
        !self.has_independent_iovas
    }

    fn set_interrupt_handler(
        &self,
        vector: u16,
        handler: Option<InterruptHandler>,
    ) -> Result<(), BusError> {
        let mut handlers = self.handlers.lock();
        match handler {
            _ if vector >= VECTOR_COUNT => return Err(BusError::NoSuchVector),
            Some(handler) => drop(handlers.insert(vector, handler)),
            None => drop(handlers.remove(&vector)),
        }
        Ok(())
    }

    fn set_health_check(&self, check: Option<InterruptHandler>) {
        *self.health_check.lock() = check;
    }

    fn now(&self) -> Duration {
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        START.elapsed()
    }

    fn relax(&self) {
        if let Some(on_relax) = &mut *self.on_relax.lock() {
            on_relax();
        }
    }
}
