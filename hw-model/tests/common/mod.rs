//! A host made of a byte array, a cable made of two queues, and just enough software to drive a
//! NIC by its contract alone.

#![allow(dead_code, reason = "each test uses a part of it")]

// The blocks in RTL, where the crate beside this one runs these tests.
#[cfg_attr(rtl_blocks, path = "../../rtl/tests/common/blocks.rs")]
pub mod blocks;
pub mod memory_unit;
pub mod objects;
pub mod requests;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::rc::Rc;

use blocks::TestBlocks;
use ferroce_model::ports::port::{Port, Reservation, Route};
use ferroce_model::time::timing::{Functional, Timing};
use ferroce_model::{DmaAtomic, DmaError, DmaFault, Doorbell, Host, Nic, NicConfig, WriteOrder};
use ferroce_spec::command::{
    ANY_STATE, CommandCompletion, CommandEntry, CommandOpcode, CommandStatus, ContextTables,
    ModifyQp, QpAttributeMask, input_size, output_size,
};
use ferroce_spec::context::{
    AccessRights, AddressEntry, CqContext, EqContext, MemoryEntry, MemoryEntryWord, PathMtuCode,
    QpContext, QpShape, QpStateCode, RetryAttributes, TranslationEntry,
};
use ferroce_spec::cqe::{Cqe, owner_at};
use ferroce_spec::doorbell::{DoorbellKind, DoorbellValue};
use ferroce_spec::register::{Control, offset};
use ferroce_spec::wqe::{
    AddressPath, BLOCK_SIZE, ControlSegment, ControlWord, DataSegment, RemoteAddressSegment,
    SendOpcode, VLAN_NONE,
};
use ferroce_units::{Duration, Instant};
use ferroce_wire::Gid;
use zerocopy::{FromBytes, IntoBytes};

/// Bytes of a test host's memory.
pub const MEMORY_SIZE: usize = 8 << 20;

/// Host memory: IOVA is the index. What is outside is not mapped.
pub struct TestHost {
    pub memory: Vec<u8>,
    pub doorbells: VecDeque<Doorbell>,
    /// Slots and words of writes to push pages; they land behind the doorbells.
    pub pushes: VecDeque<(u32, Vec<u64>)>,
    /// The one that has landed last.
    landed: Vec<u64>,
    pub interrupts: Vec<u16>,
    /// How long a read takes, there and back; nothing unless a test says so.
    pub read_latency: Duration,
    /// When the host sees the descriptors that were written.
    pub descriptors: Vec<Instant>,
    /// Writes by the device.
    pub device_writes: usize,
    /// First byte and length of each range that was made persistent.
    pub persisted: Vec<(u64, u64)>,
    /// The read that fails, counted from the next one, and why.
    pub failing_read: Option<(usize, DmaFault)>,
}

impl TestHost {
    pub fn new() -> Self {
        let memory = vec![0; MEMORY_SIZE];
        Self {
            memory,
            doorbells: VecDeque::new(),
            pushes: VecDeque::new(),
            landed: Vec::new(),
            interrupts: Vec::new(),
            read_latency: Duration::ZERO,
            descriptors: Vec::new(),
            device_writes: 0,
            persisted: Vec::new(),
            failing_read: None,
        }
    }

    fn range(&mut self, iova: u64, length: usize) -> Result<&mut [u8], DmaError> {
        let error = DmaError::refused(iova, length);
        let start = usize::try_from(iova).map_err(|_| error)?;
        let end = start.checked_add(length).ok_or(error)?;
        self.memory.get_mut(start..end).ok_or(error)
    }

    /// Writes memory, as software does.
    pub fn write(&mut self, iova: u64, source: &[u8]) -> Result<(), DmaError> {
        self.range(iova, source.len())?.copy_from_slice(source);
        Ok(())
    }

    /// Reads memory, as a device does.
    pub fn load(&mut self, iova: u64, destination: &mut [u8]) -> Result<(), DmaError> {
        destination.copy_from_slice(self.range(iova, destination.len())?);
        Ok(())
    }

    pub fn read<T: FromBytes>(&self, iova: u64) -> T {
        T::read_from_prefix(&self.memory[iova as usize..])
            .expect("inside of memory")
            .0
    }
}

impl Host for TestHost {
    fn dma_read(
        &mut self,
        at: Instant,
        iova: u64,
        destination: &mut [u8],
    ) -> Result<Instant, DmaError> {
        match &mut self.failing_read {
            Some((0, fault)) => {
                let (fault, length) = (*fault, destination.len());
                self.failing_read = None;
                return Err(DmaError {
                    iova,
                    length,
                    fault,
                });
            }
            Some((reads, _)) => *reads -= 1,
            None => {}
        }
        self.load(iova, destination)?;
        Ok(at + self.read_latency)
    }

    fn dma_write(
        &mut self,
        order: WriteOrder,
        iova: u64,
        source: &[u8],
    ) -> Result<Instant, DmaError> {
        self.device_writes += 1;
        self.write(iova, source)?;
        Ok(order.at)
    }

    fn peek(&mut self, iova: u64, destination: &mut [u8]) -> Result<(), DmaError> {
        self.load(iova, destination)
    }

    fn dma_write_descriptor(
        &mut self,
        order: WriteOrder,
        iova: u64,
        words: &[u64],
    ) -> Result<Instant, DmaError> {
        self.descriptors.push(order.at);
        self.dma_write(order, iova, words.as_bytes())
    }

    fn dma_atomic(
        &mut self,
        at: Instant,
        iova: u64,
        operation: DmaAtomic,
    ) -> Result<(u64, Instant), DmaError> {
        assert_eq!(iova % 8, 0, "AtomicOps are aligned");
        let mut bytes = [0; 8];
        bytes.copy_from_slice(self.range(iova, 8)?);
        let original = u64::from_ne_bytes(bytes);
        self.write(iova, &operation.apply(original).to_ne_bytes())?;
        Ok((original, at))
    }

    fn persist(&mut self, at: Instant, iova: u64, length: u64) -> Instant {
        self.persisted.push((iova, length));
        at
    }

    fn interrupt(&mut self, _order: WriteOrder, vector: u16) {
        self.interrupts.push(vector);
    }

    fn next_doorbell(&mut self) -> Option<Doorbell> {
        if let Some(doorbell) = self.doorbells.pop_front() {
            return Some(doorbell);
        }
        let (slot, words) = self.pushes.pop_front()?;
        self.landed = words;
        let value = *self.landed.first()?;
        Some(Doorbell { slot, value })
    }

    fn pushed(&self) -> &[u64] {
        &self.landed
    }
}

/// Frames that a cable holds unless a test says otherwise.
const CABLE_CAPACITY: usize = 64;

type Queue = Rc<RefCell<VecDeque<Vec<u8>>>>;
type Arrivals = Rc<RefCell<VecDeque<Instant>>>;

/// One end of a cable. Frames to the own address, and to groups that were joined, come back.
#[derive(Debug)]
pub struct Cable {
    pub out: Queue,
    pub into: Queue,
    pub own: Gid,
    pub groups: Vec<Gid>,
    /// Frames that it holds.
    pub capacity: usize,
    /// Frames to QP 1 are wanted.
    pub gsi: bool,
    pub link_up: bool,
    /// When the frames of this end left it.
    pub departures: Vec<Instant>,
    /// How long a frame is on its way. Without it a frame arrives when the receiver looks.
    pub delay: Option<Duration>,
    /// When the frames of `out` and of `into` arrive, if they have a delay.
    arrivals: (Arrivals, Arrivals),
    /// Where the frames go that are reserved and not yet sent.
    reserved: VecDeque<Gid>,
}

impl Cable {
    fn new(out: &Queue, into: &Queue, arrivals: (&Arrivals, &Arrivals)) -> Self {
        Self {
            out: out.clone(),
            into: into.clone(),
            departures: Vec::new(),
            delay: None,
            arrivals: (arrivals.0.clone(), arrivals.1.clone()),
            own: Gid::UNSPECIFIED,
            groups: Vec::new(),
            capacity: CABLE_CAPACITY,
            gsi: false,
            link_up: true,
            reserved: VecDeque::new(),
        }
    }
}

/// Both ends of a cable.
pub fn cable() -> (Cable, Cable) {
    let (a, b) = (Queue::default(), Queue::default());
    let (at_a, at_b) = (Arrivals::default(), Arrivals::default());
    (
        Cable::new(&a, &b, (&at_a, &at_b)),
        Cable::new(&b, &a, (&at_b, &at_a)),
    )
}

impl Port for Cable {
    type Frame = Vec<u8>;

    fn reserve(&mut self, route: &Route, length: usize) -> Reservation<Vec<u8>> {
        if self.out.borrow().len() >= self.capacity {
            return Reservation::Full;
        }
        self.reserved.push_back(route.gid);
        Reservation::Ready(vec![0; length])
    }

    fn transmit(&mut self, at: Instant, frame: Vec<u8>) {
        self.departures.push(at);
        if let Some(delay) = self.delay {
            self.arrivals.0.borrow_mut().push_back(at + delay);
        }
        let destination = self.reserved.pop_front().expect("reserved before");
        if destination == self.own || self.groups.contains(&destination) {
            self.into.borrow_mut().push_back(frame.clone());
        }
        if destination != self.own {
            self.out.borrow_mut().push_back(frame);
        }
    }

    fn join(&mut self, group: Gid) {
        assert!(!self.groups.contains(&group), "joined twice");
        self.groups.push(group);
    }

    fn leave(&mut self, group: Gid) {
        let place = self.groups.iter().position(|known| *known == group);
        self.groups.remove(place.expect("joined before"));
    }

    fn set_gsi(&mut self, is_open: bool) {
        self.gsi = is_open;
    }

    fn link_is_up(&self) -> bool {
        self.link_up
    }

    fn cancel(&mut self, _frame: Vec<u8>) {
        self.reserved.pop_back();
    }

    fn receive(&mut self, now: Instant) -> Option<(Instant, Vec<u8>)> {
        let frame = self.into.borrow_mut().pop_front()?;
        let at = self.arrivals.1.borrow_mut().pop_front();
        Some((at.unwrap_or(now), frame))
    }

    fn release(&mut self, _frame: Vec<u8>) {}

    fn computes_icrc(&self) -> bool {
        true
    }

    fn carries_icrc(&self, _frame: &Vec<u8>) -> bool {
        true
    }
}

/// Where things lie in a test host's memory.
pub mod place {
    pub const COMMANDS: u64 = 0x1000;
    pub const INPUT: u64 = 0x2000;
    pub const OUTPUT: u64 = 0x3000;
    pub const EQ: u64 = 0x4000;
    pub const CQ: u64 = 0x8000;
    pub const CONSUMER_RECORD: u64 = 0x1_0000;
    pub const SQ: u64 = 0x1_1000;
    pub const RQ: u64 = 0x1_2000;
    pub const QPC: u64 = 0x10_0000;
    pub const CQC: u64 = 0x12_0000;
    pub const SRQC: u64 = 0x13_0000;
    pub const MPT: u64 = 0x14_0000;
    pub const MTT: u64 = 0x15_0000;
    pub const PRIVATE: u64 = 0x16_0000;
    pub const DATA: u64 = 0x40_0000;
    pub const DATA_SIZE: u64 = 0x40_0000;
}

pub const LOG_BLOCKS: u8 = 6;
pub const LOG_RECEIVES: u8 = 5;
pub const LOG_STRIDE: u8 = 5;
pub const LOG_CQES: u8 = 6;
pub const SEND_SLOT: u32 = 8;
pub const RECEIVE_SLOT: u32 = 9;
pub const CQ_SLOT: u32 = 10;
pub const LOG_TABLE: u8 = 8;
const LOG_COMMANDS: u32 = 2;

/// Returns tables in the memory of a test, with a private area.
pub fn context_tables() -> ContextTables {
    ContextTables {
        qpc_base: place::QPC,
        cqc_base: place::CQC,
        srqc_base: place::SRQC,
        mpt_base: place::MPT,
        mtt_base: place::MTT,
        private_base: place::PRIVATE,
        log_qps: LOG_TABLE,
        log_cqs: LOG_TABLE,
        log_srqs: LOG_TABLE,
        log_mrs: LOG_TABLE,
        log_mtts: 12,
        ..ContextTables::default()
    }
}

/// A machine: NIC, memory, one end of a cable, and the state of its software.
pub struct Machine<T: Timing = Functional> {
    pub nic: Nic<Cable, T, TestBlocks>,
    pub host: TestHost,
    pub port: Cable,
    pub now: Instant,
    pub qpn: u32,
    pub cqn: u32,
    pub key: u32,
    pub producer: u32,
    pub receive_producer: u32,
    pub consumer: u32,
    pub commands: u32,
    rings: u32,
    events: u32,
    mac: [u8; 6],
    address: Ipv4Addr,
}

impl Machine {
    /// A machine whose NIC is up, with one CQ, one QP in RESET and one memory region.
    pub fn new(number: u8, port: Cable) -> Self {
        Self::with(number, port, |_| ())
    }

    /// As [`Machine::new`], with changes to the NIC's shape.
    pub fn with(number: u8, port: Cable, change: impl FnOnce(&mut NicConfig)) -> Self {
        let mac = [2, 0, 0, 0, 0, number];
        let mut config = NicConfig::functional(u32::from(number) << 16, mac);
        change(&mut config);
        Self::around(number, port, Nic::with_timing(config, Functional))
    }
}

impl<T: Timing> Machine<T> {
    /// A machine around a NIC.
    pub fn around(number: u8, port: Cable, nic: Nic<Cable, T, TestBlocks>) -> Self {
        let mac = [2, 0, 0, 0, 0, number];
        let mut machine = Self {
            nic,
            host: TestHost::new(),
            port,
            now: Instant::from_us(1),
            qpn: 0,
            cqn: 0,
            key: 0,
            producer: 0,
            receive_producer: 0,
            consumer: 0,
            commands: 0,
            rings: 0,
            events: 0,
            mac,
            address: Ipv4Addr::new(10, 0, 0, number),
        };
        machine.bring_up();
        machine
    }

    /// Lets the NIC run, `ns` later.
    pub fn run(&mut self, ns: u64) {
        self.now += Duration::from_ns(ns);
        self.nic.advance(self.now, &mut self.host, &mut self.port);
    }

    /// Runs a command; the value is its result.
    pub fn command<V: IntoBytes + zerocopy::Immutable>(
        &mut self,
        opcode: CommandOpcode,
        argument: u64,
        input: &V,
    ) -> Result<u64, CommandStatus> {
        let mut completion = CommandCompletion::default();
        completion.set_device_owned(true);
        let entry = CommandEntry {
            opcode,
            argument,
            input_iova: place::INPUT,
            output_iova: place::OUTPUT,
            input_length: input_size(opcode) as u32,
            output_length: output_size(opcode) as u32,
            completion,
            ..CommandEntry::default()
        };
        self.host
            .write(place::INPUT, input.as_bytes())
            .expect("inside of memory");
        let entry = self.run_command(&entry);
        match CommandStatus(entry.completion.status()) {
            CommandStatus::SUCCESS => Ok(entry.result),
            status => Err(status),
        }
    }

    /// Writes an entry into the command queue and rings; returns it as the NIC gives it back.
    pub fn run_command(&mut self, entry: &CommandEntry) -> CommandEntry {
        let slot = u64::from(self.commands) % (1 << LOG_COMMANDS);
        let iova = place::COMMANDS + slot * CommandEntry::SIZE as u64;
        self.host
            .write(iova, entry.as_bytes())
            .expect("inside of memory");
        self.commands += 1;
        self.nic
            .write32(offset::command_queue_doorbell, self.commands);
        self.run(1);
        let ended: CommandEntry = self.host.read(iova);
        let opcode = entry.opcode;
        assert!(
            !ended.completion.device_owned(),
            "{opcode:?} was not executed"
        );
        ended
    }

    fn bring_up(&mut self) {
        self.reset_and_enable();
        self.command(CommandOpcode::SET_CONTEXT_TABLES, 0, &context_tables())
            .expect("first time");
        self.port.own = Gid::from_ipv4(self.address);
        let entry = AddressEntry {
            gid: self.port.own.0,
            mac: self.mac,
            vlan: VLAN_NONE,
            reserved_18: 0,
        };
        self.command(CommandOpcode::SET_ADDRESS, 0, &entry)
            .expect("in range");
        let eq = EqContext {
            base: place::EQ,
            log_size: 4,
            vector: 0,
            ..EqContext::default()
        };
        self.command(CommandOpcode::CREATE_EQ, 0, &eq)
            .expect("free");
        self.create_objects();
    }

    /// Resets the function and starts its command queue.
    pub fn reset_and_enable(&mut self) {
        self.commands = 0;
        let mut reset = Control::default();
        reset.set_reset(true);
        self.nic.write32(offset::control, reset.bits());
        self.run(1);
        self.nic
            .write64(offset::command_queue_base, place::COMMANDS);
        self.nic
            .write32(offset::command_queue_log_size, LOG_COMMANDS);
        let mut enable = Control::default();
        enable.set_enable(true);
        self.nic.write32(offset::control, enable.bits());
    }

    fn create_objects(&mut self) {
        let cq = CqContext {
            base: place::CQ,
            consumer_record: place::CONSUMER_RECORD,
            log_size: LOG_CQES,
            doorbell_slot: CQ_SLOT,
            ..CqContext::default()
        };
        self.cqn = self
            .command(CommandOpcode::CREATE_CQ, 0, &cq)
            .expect("room") as u32;
        self.qpn = self.create_connectable_qp().expect("room");
        self.key = self.create_region(all_rights()).expect("room");
    }

    /// A queue pair in RESET that uses the machine's CQ and rings.
    pub fn create_connectable_qp(&mut self) -> Result<u32, CommandStatus> {
        let mut shape = QpShape::default();
        shape.set_log_send_blocks(LOG_BLOCKS);
        shape.set_log_receives(LOG_RECEIVES);
        shape.set_log_receive_stride(LOG_STRIDE);
        let qp = QpContext {
            pd: 7,
            send_cqn: self.cqn,
            receive_cqn: self.cqn,
            send_base: place::SQ,
            receive_base: place::RQ,
            shape,
            send_doorbell_slot: SEND_SLOT,
            receive_doorbell_slot: RECEIVE_SLOT,
            ..QpContext::default()
        };
        self.command(CommandOpcode::CREATE_QP, 0, &qp)
            .map(|qpn| qpn as u32)
    }

    /// A region of 4 KiB pages over all of [`place::DATA`], at address 0x1000_0000.
    pub fn create_region(&mut self, access: AccessRights) -> Result<u32, CommandStatus> {
        for page in 0..place::DATA_SIZE / 4096 {
            let entry = TranslationEntry::new(place::DATA + page * 4096);
            let iova = place::MTT + page * 8;
            self.host
                .write(iova, entry.as_bytes())
                .expect("inside of memory");
        }
        let mut word = MemoryEntryWord::default();
        word.set_log_page_size(12);
        let region = MemoryEntry {
            word,
            key: 0x5a,
            pd: 7,
            access,
            start: REGION_START,
            length: place::DATA_SIZE,
            ..MemoryEntry::default()
        };
        self.command(CommandOpcode::CREATE_MR, 0, &region)
            .map(|key| key as u32)
    }

    fn modify(&mut self, state: QpStateCode, mask: QpAttributeMask, context: QpContext) {
        let state = u32::from(state.0);
        let input = ModifyQp {
            state,
            current_state: ANY_STATE,
            mask,
            reserved_0c: 0,
            reserved_10: [0; 6],
            context,
        };
        let qpn = u64::from(self.qpn);
        self.command(CommandOpcode::MODIFY_QP, qpn, &input)
            .expect("a legal transition");
    }

    /// Takes the QP from RESET to RTS, connected to `peer`.
    pub fn connect(&mut self, peer: (u32, [u8; 6], Ipv4Addr), path_mtu: PathMtuCode) {
        let mut access = AccessRights::default();
        access.set_remote_read(true);
        access.set_remote_write(true);
        access.set_remote_atomic(true);
        access.set_flush_global(true);
        let mut retry = RetryAttributes::default();
        retry.set_retry_count(7);
        retry.set_rnr_retry(7);
        retry.set_timeout(10);
        retry.set_min_rnr_timer(1);
        let context = QpContext {
            port: 1,
            access,
            retry,
            path_mtu,
            dest_qpn: peer.0,
            send_psn: 0xff_fff0,
            receive_psn: 0xff_fff0,
            max_rd_atomic: 4,
            max_dest_rd_atomic: 4,
            path: AddressPath {
                dest_gid: Gid::from_ipv4(peer.2).0,
                dest_mac: peer.1,
                vlan: VLAN_NONE,
                udp_source_port: 0xc123,
                hop_limit: 64,
                ..AddressPath::default()
            },
            ..QpContext::default()
        };
        self.initialize(context);
        let mut rtr = QpAttributeMask::default();
        rtr.set_path(true);
        rtr.set_path_mtu(true);
        rtr.set_dest_qpn(true);
        rtr.set_receive_psn(true);
        rtr.set_max_dest_rd_atomic(true);
        rtr.set_min_rnr_timer(true);
        self.modify(QpStateCode::RTR, rtr, context);
        let mut rts = QpAttributeMask::default();
        rts.set_send_psn(true);
        rts.set_timeout(true);
        rts.set_retry_count(true);
        rts.set_rnr_retry(true);
        rts.set_max_rd_atomic(true);
        self.modify(QpStateCode::RTS, rts, context);
    }

    /// Gives the peer of the connected QP these rights.
    pub fn permit(&mut self, access: AccessRights) {
        let mut mask = QpAttributeMask::default();
        mask.set_access(true);
        let context = QpContext {
            access,
            ..QpContext::default()
        };
        self.modify(QpStateCode::RTS, mask, context);
    }

    /// Takes the QP from RESET to INIT.
    pub fn initialize(&mut self, context: QpContext) {
        let mut init = QpAttributeMask::default();
        init.set_access(true);
        init.set_p_key(true);
        init.set_port(true);
        self.modify(QpStateCode::INIT, init, context);
    }

    /// Takes the QP to RESET.
    pub fn reset_qp(&mut self) {
        let (mask, context) = (QpAttributeMask::default(), QpContext::default());
        self.modify(QpStateCode::RESET, mask, context);
        self.producer = 0;
    }

    /// Returns the address and queue pair of this machine, for the peer's [`Machine::connect`].
    pub fn identity(&self) -> (u32, [u8; 6], Ipv4Addr) {
        (self.qpn, self.mac, self.address)
    }

    /// Writes a one-block WQE with one data segment and rings the doorbell.
    pub fn post(&mut self, opcode: SendOpcode, remote: Option<(u64, u32)>, data: DataSegment) {
        let mut block = Vec::new();
        let mut control = ControlWord::default();
        control.set_opcode(opcode.0);
        control.set_blocks(1);
        control.set_data_segments(1);
        control.set_signaled(true);
        let head = ControlSegment {
            control,
            index: self.producer,
            ..ControlSegment::default()
        };
        block.extend_from_slice(head.as_bytes());
        if let Some((virtual_address, r_key)) = remote {
            let segment = RemoteAddressSegment {
                virtual_address,
                r_key,
                reserved: 0,
            };
            block.extend_from_slice(segment.as_bytes());
        }
        block.extend_from_slice(data.as_bytes());
        let slot = u64::from(self.producer) % (1 << LOG_BLOCKS);
        let iova = place::SQ + slot * BLOCK_SIZE as u64;
        self.host.write(iova, &block).expect("inside of memory");
        self.producer += 1;
        let (qpn, producer) = (self.qpn, self.producer);
        self.ring(
            SEND_SLOT,
            DoorbellValue::new(DoorbellKind::SEND_QUEUE, qpn, producer),
        );
    }

    /// Writes a receive WQE of one segment and rings the doorbell.
    pub fn post_receive(&mut self, data: DataSegment) {
        let end = DataSegment {
            l_key: ferroce_spec::wqe::L_KEY_END,
            ..DataSegment::default()
        };
        let slot = u64::from(self.receive_producer) % (1 << LOG_RECEIVES);
        let iova = place::RQ + (slot << LOG_STRIDE);
        self.host
            .write(iova, [data, end].as_bytes())
            .expect("inside of memory");
        self.receive_producer += 1;
        let (qpn, producer) = (self.qpn, self.receive_producer);
        self.ring(
            RECEIVE_SLOT,
            DoorbellValue::new(DoorbellKind::RECEIVE_QUEUE, qpn, producer),
        );
    }

    pub fn ring(&mut self, slot: u32, value: DoorbellValue) {
        self.host.doorbells.push_back(Doorbell {
            slot,
            value: value.bits(),
        });
    }

    /// Takes the next CQE.
    pub fn poll(&mut self) -> Option<Cqe> {
        let slot = u64::from(self.consumer) % (1 << LOG_CQES);
        let cqe: Cqe = self.host.read(place::CQ + slot * Cqe::SIZE as u64);
        if cqe.word.owner() != owner_at(self.consumer, u32::from(LOG_CQES)) {
            return None;
        }
        self.consumer += 1;
        let consumer = self.consumer;
        self.host
            .write(place::CONSUMER_RECORD, consumer.as_bytes())
            .expect("mapped");
        Some(cqe)
    }

    /// The bytes at `offset` of the region.
    pub fn data(&mut self, offset: u64, length: usize) -> &mut [u8] {
        let start = (place::DATA + offset) as usize;
        &mut self.host.memory[start..start + length]
    }

    /// A data segment over the region.
    pub fn segment(&self, offset: u64, length: u32) -> DataSegment {
        DataSegment {
            address: REGION_START + offset,
            length,
            l_key: self.key,
        }
    }
}

/// First address of the region.
pub const REGION_START: u64 = 0x1000_0000;

/// All rights that a region can have without memory windows.
pub fn all_rights() -> AccessRights {
    let mut access = AccessRights::default();
    access.set_local_write(true);
    access.set_remote_read(true);
    access.set_remote_write(true);
    access
}

/// Two connected machines.
pub fn connected(path_mtu: PathMtuCode) -> (Machine, Machine) {
    let (left, right) = cable();
    let (mut a, mut b) = (Machine::new(1, left), Machine::new(2, right));
    let (who_a, who_b) = (a.identity(), b.identity());
    a.connect(who_b, path_mtu);
    b.connect(who_a, path_mtu);
    (a, b)
}

/// Lets both run until nothing is on the cable and `a` has a CQE, or `turns` are over.
pub fn run_both(a: &mut Machine, b: &mut Machine, turns: usize) {
    for _ in 0..turns {
        a.run(500);
        b.run(500);
    }
}
