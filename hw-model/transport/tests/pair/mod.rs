//! Two queue pairs of any service, two byte arrays, a link and a virtual clock, without a NIC.

#![allow(dead_code, reason = "each test file uses its own part of the harness")]

pub mod link;
pub mod program;
pub mod rng;
pub mod script;

use std::collections::{BTreeMap, VecDeque};

use crate::pair::rng::Rng;
use ferroce_transport::{
    Access, AtomicOperation, AttributeUpdate, Completion, Config, Destination, Event,
    InitAttributes, LocalAckTimeout, MemoryAnswer, MemoryOp, PathMtu, Payload, Qp, Recovery,
    RemoteAccess, RetryCount, RtrAttributes, RtsAttributes, SendRequest, Service, Statistics, Step,
    Transition, Transmit,
};
use ferroce_units::{Duration, Instant};
use ferroce_wire::{PKey, Psn, QKey, Qpn, RKey, RnrTimer};
use link::{Faults, Link, Packet};

/// The key of a node's only memory region.
pub const R_KEY: RKey = RKey(0x1234);
/// Virtual address of the start of a node's memory.
pub const BASE: u64 = 0x7f00_0000_0000;

/// The shared receive queue of an XRC target.
pub const SRQN: u32 = 0x77;
/// The Q_Key of datagrams.
pub const Q_KEY: QKey = QKey(0x1111_1111);
/// Fill byte of the GRH.
pub const GRH_BYTE: u8 = 0x60;
/// Bytes of the GRH.
pub const GRH_LENGTH: u32 = 40;

/// A receive WQE: a range of the node's memory.
#[derive(Debug, Clone, Copy)]
pub struct Receive {
    pub id: u32,
    pub address: usize,
    pub capacity: u32,
}

/// With pages on demand, one of this many accesses finds its page not present, on average.
const ABSENCE: u64 = 12;

/// One side.
pub struct Node {
    pub qp: Qp,
    pub memory: Vec<u8>,
    /// Local buffers by request id.
    pub buffers: BTreeMap<u32, usize>,
    pub receives: VecDeque<Receive>,
    /// Taken receive WQEs by id.
    pub taken: BTreeMap<u32, Receive>,
    pub completions: Vec<Completion>,
    pub events: Vec<Event>,
    pub statistics: Vec<Statistics>,
    /// Sent packets, for scripts to check.
    pub sent: Vec<Transmit>,
    /// Number of atomics executed here.
    pub atomics: u32,
    /// Keys that the peer has invalidated here.
    pub invalidated: Vec<RKey>,
    /// Executed local operations.
    pub locals: Vec<u32>,
    /// Gathering fails for these requests.
    pub unreadable: Vec<u32>,
    /// Memory operations fail from now on.
    pub broken: bool,
    /// Memory that stops being registered, and when.
    pub vanishing: Option<Vanishing>,
    /// Chooses the accesses whose page is not present: one in [`ABSENCE`].
    pub absent_pages: Option<Rng>,
    pub uses_credits: bool,
    /// Held packets by PSN.
    pub held: BTreeMap<u32, Packet>,
    pub hold_limit: usize,
    /// Number of held packets.
    pub holds: u32,
}

/// A range of memory whose region is removed while traffic flows.
#[derive(Debug, Clone)]
pub struct Vanishing {
    pub range: std::ops::Range<usize>,
    /// Number of accesses before it disappears.
    pub left: u32,
    /// True if an access has found it missing.
    pub missed: bool,
}

/// Configuration of the two queue pairs.
#[derive(Debug, Clone, Copy)]
pub struct Setup {
    pub services: [Service; 2],
    pub mtu: PathMtu,
    pub psn: [Psn; 2],
    pub config: Config,
    pub timeout: u8,
    pub retry_count: u8,
    pub rnr_retry: u8,
    pub rnr_timer: u8,
    pub max_rd_atomic: u8,
    pub max_dest_rd_atomic: u8,
    pub access: RemoteAccess,
    pub uses_credits: bool,
    pub recovery: [Recovery; 2],
    /// Maximum number of packets that a node holds.
    pub hold_limit: usize,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup {
            services: [Service::ReliableConnected; 2],
            mtu: PathMtu::Mtu256,
            psn: [Psn::new(0xff_fffe), Psn::new(0x12_3456)],
            config: Config::default(),
            timeout: 4,
            retry_count: 7,
            rnr_retry: 7,
            rnr_timer: 1,
            max_rd_atomic: 4,
            max_dest_rd_atomic: 4,
            access: RemoteAccess {
                read: true,
                write: true,
                atomic: true,
                flush_global: true,
                flush_persistent: true,
            },
            uses_credits: false,
            recovery: [Recovery::default(); 2],
            hold_limit: usize::MAX,
        }
    }
}

/// Returns the transitions of `side` from RESET to RTS.
pub fn bring_up(setup: &Setup, side: usize) -> [Transition; 3] {
    let update = AttributeUpdate::default();
    [
        Transition::Init(InitAttributes {
            p_key: PKey::DEFAULT,
            access: setup.access,
            port: 1,
            q_key: Q_KEY,
        }),
        Transition::Rtr {
            attributes: RtrAttributes {
                path_mtu: setup.mtu,
                dest_qp: qpn(1 - side),
                rq_psn: setup.psn[1 - side],
                max_dest_rd_atomic: setup.max_dest_rd_atomic,
                min_rnr_timer: RnrTimer::new(setup.rnr_timer),
            },
            update,
        },
        Transition::Rts {
            attributes: RtsAttributes {
                sq_psn: setup.psn[side],
                timeout: LocalAckTimeout::new(setup.timeout),
                retry_count: RetryCount::new(setup.retry_count),
                rnr_retry: RetryCount::new(setup.rnr_retry),
                max_rd_atomic: setup.max_rd_atomic,
            },
            update,
        },
    ]
}

pub fn qpn(side: usize) -> Qpn {
    Qpn::new(0x11 + side as u32)
}

/// Returns the destination of the requests of `side`.
pub fn destination(setup: &Setup, side: usize) -> Destination {
    match setup.services[side] {
        Service::UnreliableDatagram => Destination::Datagram {
            qpn: qpn(1 - side),
            q_key: Q_KEY,
        },
        Service::XrcInitiator => Destination::Xrc { srqn: SRQN },
        _ => Destination::Connected,
    }
}

impl Node {
    fn new(setup: &Setup, side: usize, memory: usize) -> Node {
        let mut qp = Qp::new(qpn(side), setup.services[side], setup.config);
        qp.set_recovery(&setup.recovery[side]);
        for transition in bring_up(setup, side) {
            qp.modify(Instant::ZERO, transition)
                .expect("the way up is legal");
        }
        Node {
            qp,
            memory: vec![0; memory],
            buffers: BTreeMap::new(),
            receives: VecDeque::new(),
            taken: BTreeMap::new(),
            completions: Vec::new(),
            events: Vec::new(),
            statistics: Vec::new(),
            sent: Vec::new(),
            atomics: 0,
            invalidated: Vec::new(),
            locals: Vec::new(),
            unreadable: Vec::new(),
            broken: false,
            vanishing: None,
            absent_pages: None,
            uses_credits: setup.uses_credits,
            held: BTreeMap::new(),
            hold_limit: setup.hold_limit,
            holds: 0,
        }
    }

    pub fn post(&mut self, now: Instant, address: usize, request: SendRequest) {
        self.buffers.insert(request.id, address);
        self.qp.post_send(now, request);
    }

    pub fn post_receive(&mut self, receive: Receive) {
        self.receives.push_back(receive);
        self.report_credits();
    }

    fn report_credits(&mut self) {
        if self.uses_credits {
            self.qp
                .set_receive_credits(Some(self.receives.len() as u32));
        }
    }

    fn range(&self, virtual_address: u64, length: u32) -> Option<std::ops::Range<usize>> {
        let start = usize::try_from(virtual_address.checked_sub(BASE)?).ok()?;
        let end = start.checked_add(length as usize)?;
        (end <= self.memory.len()).then_some(start..end)
    }

    /// Returns true if the region of `length` bytes from `address` on has been removed.
    fn is_gone(&mut self, address: usize, length: u32) -> bool {
        let end = address + length as usize;
        let Some(vanishing) = self
            .vanishing
            .as_mut()
            .filter(|vanishing| address < vanishing.range.end && vanishing.range.start < end)
        else {
            return false;
        };
        vanishing.missed |= vanishing.left == 0;
        vanishing.left = vanishing.left.saturating_sub(1);
        vanishing.missed
    }

    /// Returns true if any access has met removed memory.
    pub fn has_missed_memory(&self) -> bool {
        self.vanishing
            .as_ref()
            .is_some_and(|vanishing| vanishing.missed)
    }

    /// Returns the SRQ number that memory operations for the peer must name.
    fn srqn(&self) -> Option<u32> {
        (self.qp.service() == Service::XrcTarget).then_some(SRQN)
    }

    /// Returns true if a page that the operation accesses is not present this time.
    fn is_absent(&mut self, operation: &MemoryOp) -> bool {
        let is_access = !matches!(
            operation,
            MemoryOp::TakeReceive | MemoryOp::TakeShared { .. } | MemoryOp::Invalidate { .. }
        );
        let pages = self.absent_pages.as_mut().filter(|_| is_access);
        pages.is_some_and(|rng| rng.chance(1, ABSENCE))
    }

    /// Executes a memory operation of this side.
    pub fn execute(&mut self, operation: MemoryOp, payload: &[u8]) -> MemoryAnswer {
        if self.broken {
            return MemoryAnswer::Failed;
        }
        if self.is_absent(&operation) {
            return MemoryAnswer::NotPresent;
        }
        let (start, length) = match operation {
            MemoryOp::Validate {
                r_key,
                virtual_address,
                length,
                access,
                srqn,
            } => {
                let is_flush = matches!(access, Access::Flush { .. });
                assert!((length > 0 || is_flush) && srqn == self.srqn());
                let range = self.range(virtual_address, length);
                let valid =
                    r_key == R_KEY && range.is_some_and(|range| !self.is_gone(range.start, length));
                return if valid {
                    MemoryAnswer::Valid
                } else {
                    MemoryAnswer::Invalid
                };
            }
            MemoryOp::TakeReceive => {
                assert_eq!(self.srqn(), None);
                return self.take_receive();
            }
            MemoryOp::TakeShared { srqn } => {
                assert_eq!(self.srqn(), Some(srqn));
                return self.take_receive();
            }
            MemoryOp::WriteRemote {
                r_key,
                virtual_address,
                length,
                srqn,
            } => {
                assert_eq!((r_key, srqn), (R_KEY, self.srqn()));
                let range = self
                    .range(virtual_address, length)
                    .expect("it was validated");
                (range.start, length)
            }
            MemoryOp::WriteReceive {
                receive,
                offset,
                length,
            } => {
                let receive = self.taken[&receive];
                assert!(offset + length <= receive.capacity);
                (receive.address + offset as usize, length)
            }
            MemoryOp::WriteReadResponse {
                request,
                offset,
                length,
            } => (self.buffers[&request] + offset as usize, length),
            MemoryOp::WriteGrh { receive } => {
                let receive = self.taken[&receive];
                assert!(GRH_LENGTH <= receive.capacity);
                if self.is_gone(receive.address, GRH_LENGTH) {
                    return MemoryAnswer::Failed;
                }
                self.memory[receive.address..][..GRH_LENGTH as usize].fill(GRH_BYTE);
                return MemoryAnswer::Done;
            }
            MemoryOp::Invalidate { r_key, srqn } => {
                assert_eq!(srqn, self.srqn());
                self.invalidated.push(r_key);
                return MemoryAnswer::Done;
            }
            MemoryOp::Flush { r_key, srqn, .. } => {
                assert_eq!((r_key, srqn), (R_KEY, self.srqn()));
                self.atomics += 1;
                return MemoryAnswer::Done;
            }
            MemoryOp::WriteAtomically {
                r_key,
                virtual_address,
                srqn,
            } => {
                assert_eq!((r_key, srqn, payload.len()), (R_KEY, self.srqn(), 8));
                self.atomics += 1;
                let range = self.range(virtual_address, 8).expect("it was validated");
                (range.start, 8)
            }
            MemoryOp::Atomic {
                virtual_address,
                operation,
                srqn,
                ..
            } => {
                assert_eq!(srqn, self.srqn());
                let range = self.range(virtual_address, 8).expect("it was validated");
                if self.is_gone(range.start, 8) {
                    return MemoryAnswer::Failed;
                }
                self.atomics += 1;
                return MemoryAnswer::Atomic(atomic(&mut self.memory[range], operation));
            }
            MemoryOp::WriteAtomicResult { request, value } => {
                let address = self.buffers[&request];
                if self.is_gone(address, 8) {
                    return MemoryAnswer::Failed;
                }
                self.memory[address..][..8].copy_from_slice(&value.to_le_bytes());
                return MemoryAnswer::Done;
            }
        };
        assert!(length > 0);
        assert_eq!(length as usize, payload.len());
        if self.is_gone(start, length) {
            return MemoryAnswer::Failed;
        }
        self.memory[start..start + payload.len()].copy_from_slice(payload);
        MemoryAnswer::Done
    }

    /// Handles a received packet, and held packets that waited for it.
    pub fn receive(&mut self, now: Instant, packet: &Packet) {
        self.process(now, packet);
        while let Some(psn) = self.qp.take_held() {
            let held = self.held.remove(&psn.value());
            self.process(now, &held.expect("a held packet is there"));
        }
        self.forget_passed();
        self.collect();
    }

    fn process(&mut self, now: Instant, packet: &Packet) {
        let length = packet.payload.len() as u32;
        let psn = packet.headers.bth.psn;
        let mut step = self.qp.handle_packet(now, &packet.headers, length);
        loop {
            match step {
                Step::Done => return,
                Step::Memory(operation) => {
                    let answer = self.execute(operation, &packet.payload);
                    step = self.qp.handle_memory(now, answer);
                }
                Step::Hold if self.held.len() < self.hold_limit => {
                    let before = self.held.insert(psn.value(), packet.clone());
                    assert!(before.is_none(), "held once");
                    self.holds += 1;
                    return;
                }
                Step::Hold => return self.qp.drop_held(psn),
                Step::Arrivals => return self.qp.handle_arrivals(now, &packet.payload),
            }
        }
    }

    /// Drops held packets whose PSN was passed: a hostile peer sends such packets.
    fn forget_passed(&mut self) {
        let expected = self.qp.next_receive_psn();
        let passed = |psn: &u32| Psn::new(*psn).is_before(expected);
        self.held.retain(|psn, _| !passed(psn));
    }

    fn take_receive(&mut self) -> MemoryAnswer {
        let Some(receive) = self.receives.pop_front() else {
            return MemoryAnswer::NoReceive;
        };
        self.taken.insert(receive.id, receive);
        self.report_credits();
        MemoryAnswer::Receive {
            id: receive.id,
            capacity: receive.capacity,
        }
    }

    /// Gathers the payload of an outgoing packet; `None` if it cannot be read.
    pub fn gather(&mut self, payload: Payload) -> Option<Vec<u8>> {
        match payload {
            Payload::None => Some(Vec::new()),
            Payload::Request { request, .. } if self.unreadable.contains(&request) => None,
            Payload::Request {
                request,
                offset,
                length,
            } => {
                let start = self.buffers[&request] + offset as usize;
                if self.is_gone(start, length) {
                    return None;
                }
                Some(self.memory[start..start + length as usize].to_vec())
            }
            Payload::ReadResponse {
                r_key,
                virtual_address,
                length,
                srqn,
            } => {
                assert_eq!((r_key, srqn), (R_KEY, self.srqn()));
                let range = self.range(virtual_address, length)?;
                if self.broken || self.is_gone(range.start, length) {
                    return None;
                }
                Some(self.memory[range].to_vec())
            }
            Payload::Arrivals { missing, length } => {
                let mut bitmap = vec![0; length as usize];
                self.qp.write_arrivals(missing, &mut bitmap);
                Some(bitmap)
            }
        }
    }

    /// Executes local operations that are next in order. Returns true if there was one.
    fn execute_locals(&mut self, now: Instant) -> bool {
        let mut worked = false;
        loop {
            let promised = self.qp.has_local();
            let local = self.qp.poll_local();
            assert_eq!(promised, local.is_some(), "has_local is correct");
            let Some(id) = local else { return worked };
            self.locals.push(id);
            self.qp.finish_local(now, id, Ok(()));
            worked = true;
        }
    }

    pub fn collect(&mut self) {
        while let Some(completion) = self.qp.poll_completion() {
            self.completions.push(completion);
        }
        while let Some(event) = self.qp.poll_event() {
            self.events.push(event);
        }
        self.statistics.extend(self.qp.take_statistics());
    }
}

/// Executes an atomic on eight bytes; returns the old value.
pub fn atomic(bytes: &mut [u8], operation: AtomicOperation) -> u64 {
    let original = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    let new = match operation {
        AtomicOperation::CompareSwap { compare, swap } if compare == original => swap,
        AtomicOperation::CompareSwap { .. } => original,
        AtomicOperation::FetchAdd { add } => original.wrapping_add(add),
    };
    bytes.copy_from_slice(&new.to_le_bytes());
    original
}

/// The two sides and the link between them.
pub struct Pair {
    pub nodes: [Node; 2],
    pub link: Link,
    pub now: Instant,
    /// Total number of packets sent by both sides.
    pub packets: u64,
    /// Packets taken from a queue pair before their payload is gathered.
    pub batch: usize,
}

/// Every run that ends takes fewer steps.
const MAX_STEPS: u32 = 400_000;

impl Pair {
    pub fn new(setup: &Setup, faults: Faults, memory: usize, seed: u64) -> Pair {
        Pair {
            nodes: [Node::new(setup, 0, memory), Node::new(setup, 1, memory)],
            link: Link::new(faults, seed),
            now: Instant::ZERO,
            packets: 0,
            batch: 1,
        }
    }

    /// Returns two sides on a link without faults.
    pub fn plain(setup: &Setup) -> Pair {
        Pair::new(setup, Faults::NONE, 1 << 16, 0)
    }

    /// Sends all pending packets of both sides. Returns true if there were any.
    pub fn transmit(&mut self) -> bool {
        let mut worked = false;
        for side in 0..2 {
            let mut budget = MAX_STEPS;
            loop {
                worked |= self.nodes[side].execute_locals(self.now);
                let batch = self.poll_batch(side);
                if batch.is_empty() {
                    break;
                }
                for transmit in batch {
                    self.send(side, transmit);
                }
                worked = true;
                budget -= 1;
                assert!(budget > 0, "a queue pair stops sending");
            }
            self.nodes[side].collect();
        }
        worked
    }

    /// Takes the next packets of one side before they are gathered.
    fn poll_batch(&mut self, side: usize) -> Vec<Transmit> {
        let qp = &mut self.nodes[side].qp;
        let mut batch = Vec::new();
        while batch.len() < self.batch {
            let promised = qp.has_transmit();
            let transmit = qp.poll_transmit(self.now);
            assert_eq!(promised, transmit.is_some(), "has_transmit is correct");
            let Some(transmit) = transmit else { break };
            batch.push(transmit);
        }
        batch
    }

    /// Puts a packet of one side on the link.
    pub fn send(&mut self, side: usize, transmit: Transmit) {
        let node = &mut self.nodes[side];
        self.packets += 1;
        match node.gather(transmit.payload) {
            Some(payload) => {
                let headers = transmit.headers;
                assert!(headers.is_legal(), "{headers:?}");
                assert_eq!((payload.len() + usize::from(headers.bth.pad_count)) % 4, 0);
                node.sent.push(transmit);
                self.link.send(
                    self.now,
                    Packet {
                        to: 1 - side,
                        headers,
                        payload,
                    },
                );
                if let Some(request) = transmit.request {
                    node.qp.packet_left(self.now, request);
                }
            }
            None => {
                let psn = transmit.headers.bth.psn;
                match transmit.payload {
                    Payload::Request { request, .. } => {
                        let status = ferroce_transport::CompletionStatus::LocalProtection;
                        node.qp.fail_send(self.now, request, status);
                    }
                    _ => node.qp.fail_read_response(self.now, psn),
                }
            }
        }
    }

    /// Delivers a packet to its receiver and executes what it requests.
    pub fn deliver(&mut self, packet: &Packet) {
        self.nodes[packet.to].receive(self.now, packet);
    }

    /// Returns the time of the next event.
    pub fn next_event(&self) -> Option<Instant> {
        self.nodes
            .iter()
            .filter_map(|node| node.qp.next_timeout())
            .chain(self.link.next_arrival())
            .min()
    }

    /// Handles all events at the current time, then advances the clock to the next event, but not
    /// beyond `until`. Returns false if there is no event before `until`.
    pub fn step(&mut self, until: Instant) -> bool {
        self.transmit();
        let Some(next) = self.next_event().filter(|next| *next <= until) else {
            return false;
        };
        self.now = self.now.max(next);
        while let Some(packet) = self.link.receive(self.now) {
            self.deliver(&packet);
        }
        for node in &mut self.nodes {
            if node
                .qp
                .next_timeout()
                .is_some_and(|timeout| timeout <= self.now)
            {
                node.qp.handle_timeout(self.now);
                node.collect();
            }
        }
        true
    }

    /// Runs until no event is left.
    pub fn run(&mut self) {
        for _ in 0..MAX_STEPS {
            if !self.step(Instant::MAX) {
                return;
            }
        }
        panic!("the pair does not come to rest");
    }

    /// Runs for `span`, even if nothing happens.
    pub fn run_for(&mut self, span: Duration) {
        let end = self.now + span;
        for _ in 0..MAX_STEPS {
            if !self.step(end) {
                self.now = end;
                return;
            }
        }
        panic!("too much happens in too little time");
    }
}
