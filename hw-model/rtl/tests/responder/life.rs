//! A QP from RTR to RESET: its peer, its receive queue, the model's responder, and the model's
//! actions that the RTL must still make.

use std::collections::VecDeque;

use ferroce_transport::{
    AttributeUpdate, Completion, Config, Event, InitAttributes, MemoryAnswer, MemoryOp, PathMtu,
    Payload, Qp, QpState, ReceiveKind, RemoteAccess, RtrAttributes, Service, Step, Transition,
};
use ferroce_units::Instant;
use ferroce_units::random::SplitMix64;
use ferroce_wire::{Extension, PKey, Psn, QKey, Qpn, RnrTimer};

use crate::memory::{
    KEY_BAD, KEY_GOOD, KEY_HOLES, LOCAL_WRITE, PD, Piece, REMOTE_ATOMIC, REMOTE_READ, REMOTE_WRITE,
    Request, Segment, Words, ranges, translate,
};
use crate::packet::{COMPARE_SWAP, FETCH_ADD, GRH, Packet, READ};
use crate::peer::{MESSAGE_PACKETS_MAX, Peer, datagram};

pub const RESET: u8 = 0;
pub const RTR: u8 = 2;
pub const ERR: u8 = 6;
const OPCODE_RECEIVE: u8 = 0x80;
const OPCODE_RECEIVE_RDMA_IMMEDIATE: u8 = 0x81;
const STATUS_FLUSH: u8 = 5;
const L_KEY_END: u32 = 0xffff_ffff;

/// An answer on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub opcode: u8,
    pub psn: u32,
    /// Syndrome and MSN; a middle packet has none.
    pub aeth: Option<(u8, u32)>,
    /// Of an atomic.
    pub result: Option<u64>,
    pub pieces: Vec<Piece>,
}

/// A completion; a flush completion may name any frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completed {
    pub frame: Option<u16>,
    pub wqe_index: u32,
    pub byte_count: u32,
    pub immediate: [u8; 4],
    /// Opcode of a success, otherwise the status.
    pub result: Result<u8, u8>,
    pub with_immediate: bool,
    pub solicited: bool,
    /// Of a datagram: its sender, and whether its GRH is IPv4.
    pub source: Option<(u32, bool)>,
}

/// Random parameters of a QP, except its packets.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    pub log_mtu: u32,
    pub log_receives: u8,
    pub log_stride: u8,
    pub access: u8,
    pub max_dest_rd_atomic: u8,
    pub min_rnr_timer: u8,
    pub psn: u32,
    pub bad_line: u64,
    /// The Q_Key, if it is a datagram QP.
    pub q_key: Option<u32>,
    /// Few faults, so that the QP works for long.
    pub careful: bool,
}

impl Shape {
    pub fn random(random: &mut SplitMix64) -> Self {
        let careful = random.below(10) == 0;
        let is_datagram = random.below(4) == 0;
        Self {
            careful,
            q_key: is_datagram.then(|| random.number() as u32),
            log_mtu: 8 + random.below(5) as u32,
            log_receives: random.below(5) as u8,
            log_stride: 4 + random.below(5) as u8,
            access: [15, 2, 4, 8][random.below(if careful { 1 } else { 4 }) as usize],
            max_dest_rd_atomic: [16, 4, 2, 1, 0]
                [random.below(if careful { 4 } else { 5 }) as usize],
            min_rnr_timer: random.below(32) as u8,
            // A third of the PSNs wrap soon.
            psn: match random.below(3) {
                // START gives a datagram QP no PSN.
                _ if is_datagram => 0,
                0 => 0xff_fff0 + random.below(16) as u32,
                _ => random.below(1 << 24) as u32,
            },
            bad_line: match random.below(6) {
                0 if !careful => random.below(64) * 64,
                _ => u64::MAX,
            },
        }
    }
}

#[derive(Debug)]
pub struct Life {
    pub qpn: u32,
    pub shape: Shape,
    pub state: u8,
    pub model: Qp,
    pub peer: Peer,
    pub producer: u32,
    pub consumer: u32,
    /// Number of completed receive WQEs.
    pub completed: u32,
    /// WQEs in the ring.
    pub ring: Vec<Vec<Segment>>,
    /// Offset of a line of the ring that cannot be read.
    pub bad_line: u64,
    pub answers: VecDeque<(Answer, u16)>,
    pub completions: VecDeque<Completed>,
    pub events: VecDeque<u8>,
    /// The newest frame that was handed to the responder.
    pub newest: Option<u16>,
    /// True if no packet may come until all answers have been sent.
    pub waits: bool,
    /// Datagrams that were dropped because of their Q_Key, and for lack of a receive WQE.
    pub dropped: [u64; 2],
}

impl Life {
    pub fn new(qpn: u32, shape: Shape) -> Self {
        Self {
            qpn,
            shape,
            state: RTR,
            model: model(qpn, &shape),
            peer: Peer::new(shape.psn, shape.log_mtu, shape.careful),
            producer: 0,
            consumer: 0,
            completed: 0,
            ring: vec![Vec::new(); 1 << shape.log_receives],
            bad_line: shape.bad_line,
            answers: VecDeque::new(),
            completions: VecDeque::new(),
            events: VecDeque::new(),
            newest: None,
            waits: false,
            dropped: [0; 2],
        }
    }

    pub fn is_quiet(&self) -> bool {
        self.answers.is_empty() && self.completions.is_empty() && self.events.is_empty()
    }

    pub fn next_packet(&mut self, random: &mut SplitMix64) -> Packet {
        match self.shape.q_key {
            Some(q_key) => datagram(q_key, random),
            None => self.peer.packet(self.answers.is_empty(), random),
        }
    }

    /// Writes receive WQEs into the ring; returns the producer index.
    pub fn post(&mut self, random: &mut SplitMix64) -> u32 {
        let free = self.completed.wrapping_add(1 << self.shape.log_receives);
        let room = free.wrapping_sub(self.producer);
        let count = random.below(u64::from(room) + 1) as u32;
        let most = 1 << (self.shape.log_stride - 4);
        for index in self.producer..self.producer + count {
            let segments = (0..random.below(most + 1)).map(|_| segment(random));
            let mut segments: Vec<Segment> = segments.collect();
            if self.shape.careful {
                // The last one holds the longest message.
                segments.truncate(most as usize - 1);
                segments
                    .iter_mut()
                    .for_each(|segment| segment.l_key = KEY_GOOD);
                segments.push(Segment {
                    address: random.number() >> 8,
                    length: MESSAGE_PACKETS_MAX << self.shape.log_mtu,
                    l_key: KEY_GOOD,
                });
            }
            if self.shape.q_key.is_some() && random.below(6) > 0 {
                // It holds any datagram.
                segments.truncate(most as usize - 1);
                segments.push(Segment {
                    length: 5000,
                    ..segment(random)
                });
            }
            let slot = index as usize % self.ring.len();
            self.ring[slot] = segments;
        }
        self.producer + count
    }

    /// Returns the bytes at `offset` of the ring, and whether they are readable.
    pub fn line(&self, offset: u64) -> ([u8; 64], bool) {
        let mut line = [0; 64];
        for (at, chunk) in (offset..).step_by(16).zip(line.chunks_exact_mut(16)) {
            let slot = (at >> self.shape.log_stride) as usize % self.ring.len();
            let number = (at % (1 << self.shape.log_stride) / 16) as usize;
            let segments = &self.ring[slot];
            let segment = segments.get(number).copied();
            let end = number == segments.len();
            let l_key = segment.map_or(if end { L_KEY_END } else { KEY_GOOD }, |s| s.l_key);
            chunk[..8].copy_from_slice(&segment.map_or(7, |s| s.address).to_le_bytes());
            chunk[8..12].copy_from_slice(&segment.map_or(9999, |s| s.length).to_le_bytes());
            chunk[12..].copy_from_slice(&l_key.to_le_bytes());
        }
        (line, offset != self.bad_line)
    }

    /// Handles a packet in the model; returns the pieces of its payload. `words` is the memory of
    /// atomics.
    pub fn handle(&mut self, packet: &Packet, frame: u16, words: &mut Words) -> Vec<Piece> {
        let headers = packet.headers(self.qpn);
        let mut placed = Vec::new();
        let mut step = self
            .model
            .handle_packet(Instant::ZERO, &headers, packet.payload.into());
        while let Step::Memory(operation) = step {
            let answer = self.execute(operation, packet, &mut placed, words);
            step = self.model.handle_memory(Instant::ZERO, answer);
        }
        self.collect(packet, frame);
        if !packet.is_datagram() {
            self.peer
                .advance(packet, self.model.next_receive_psn().value());
        }
        if let Some(statistics) = self.model.take_statistics() {
            self.dropped[0] += u64::from(statistics.q_key_violations);
            self.dropped[1] += u64::from(statistics.no_receive_drops);
        }
        placed
    }

    fn execute(
        &mut self,
        operation: MemoryOp,
        packet: &Packet,
        placed: &mut Vec<Piece>,
        words: &mut Words,
    ) -> MemoryAnswer {
        match operation {
            MemoryOp::Validate { length, .. } => {
                let rights = match packet.opcode {
                    READ => REMOTE_READ,
                    COMPARE_SWAP | FETCH_ADD => REMOTE_ATOMIC,
                    _ => REMOTE_WRITE,
                };
                let request = self.request(packet.r_key, rights, packet.address, length, true);
                match translate(&request).1 {
                    None => MemoryAnswer::Valid,
                    Some(_) => MemoryAnswer::Invalid,
                }
            }
            MemoryOp::Atomic {
                r_key,
                virtual_address,
                operation,
                ..
            } => {
                let request = self.request(r_key.0, REMOTE_ATOMIC, virtual_address, 8, false);
                match &translate(&request) {
                    (pieces, None) => match words.execute(pieces[0].0, operation) {
                        Some(original) => MemoryAnswer::Atomic(original),
                        None => MemoryAnswer::Failed,
                    },
                    _ => MemoryAnswer::Failed,
                }
            }
            MemoryOp::TakeReceive => self.take(packet),
            MemoryOp::WriteRemote {
                r_key,
                virtual_address,
                length,
                ..
            } => {
                let request = self.request(r_key.0, REMOTE_WRITE, virtual_address, length, false);
                place(&[request], placed)
            }
            // The card places GRH and payload together.
            MemoryOp::WriteGrh { receive } => {
                let grh = self.place(receive, 0, GRH.into(), &mut Vec::new());
                self.place(receive, 0, packet.written().into(), placed);
                grh
            }
            MemoryOp::WriteReceive {
                receive,
                offset,
                length,
            } if packet.is_datagram() => self.place(receive, offset, length, &mut Vec::new()),
            MemoryOp::WriteReceive {
                receive,
                offset,
                length,
            } => self.place(receive, offset, length, placed),
            // The card has no windows.
            MemoryOp::Invalidate { .. } => MemoryAnswer::Failed,
            other => panic!("{other:?} is not of this card"),
        }
    }

    /// Writes to the segments of a receive WQE.
    fn place(
        &self,
        receive: u32,
        offset: u32,
        length: u32,
        placed: &mut Vec<Piece>,
    ) -> MemoryAnswer {
        let list = &self.ring[receive as usize % self.ring.len()];
        let requests: Vec<Request> = ranges(list, offset, length)
            .iter()
            .map(|s| self.request(s.l_key, LOCAL_WRITE, s.address, s.length, false))
            .collect();
        place(&requests, placed)
    }

    fn take(&mut self, packet: &Packet) -> MemoryAnswer {
        if self.consumer == self.producer {
            return MemoryAnswer::NoReceive;
        }
        let id = self.consumer;
        let line = u64::from(id % self.ring.len() as u32) << self.shape.log_stride;
        let lines = 1u64 << self.shape.log_stride.saturating_sub(6);
        let readable = (0..lines).all(|i| self.line((line & !63) + 64 * i).1);
        if packet.is_send() && !readable {
            return MemoryAnswer::ReceiveError;
        }
        self.consumer += 1;
        let list = &self.ring[id as usize % self.ring.len()];
        let capacity = list
            .iter()
            .fold(0u32, |sum, s| sum.saturating_add(s.length));
        MemoryAnswer::Receive { id, capacity }
    }

    fn request(&self, key: u32, rights: u8, address: u64, length: u32, check: bool) -> Request {
        Request {
            key,
            pd: PD,
            qpn: self.qpn,
            rights,
            address,
            length,
            check_only: check,
        }
    }

    /// Takes all outputs of the model.
    fn collect(&mut self, packet: &Packet, frame: u16) {
        while let Some(transmit) = self.model.poll_transmit(Instant::ZERO) {
            let (bth, psn) = (transmit.headers.bth, transmit.headers.bth.psn);
            let mut pieces = Vec::new();
            if let Payload::ReadResponse {
                r_key,
                virtual_address,
                length,
                ..
            } = transmit.payload
            {
                let request = self.request(r_key.0, REMOTE_READ, virtual_address, length, false);
                let (read, fault) = translate(&request);
                if fault.is_some() {
                    self.model.fail_read_response(Instant::ZERO, psn);
                    continue;
                }
                pieces = read;
            }
            let (aeth, result) = match transmit.headers.extension {
                Extension::Aeth(aeth) => (Some(aeth), None),
                Extension::AtomicAck(aeth, result) => (Some(aeth), Some(result.original)),
                _ => (None, None),
            };
            let answer = Answer {
                opcode: bth.opcode.0,
                psn: psn.value(),
                aeth: aeth.map(|aeth| (aeth.syndrome.to_byte(), aeth.msn.value())),
                result,
                pieces,
            };
            self.answers.push_back((answer, frame));
        }
        while let Some(completion) = self.model.poll_completion() {
            self.completions
                .push_back(completed(&completion, packet, frame));
        }
        while let Some(event) = self.model.poll_event() {
            self.events.extend(event_code(event));
        }
        if self.model.state() == QpState::Err {
            self.flush();
        }
    }

    /// In ERR, posted receive WQEs complete.
    pub fn flush(&mut self) {
        while self.consumer != self.producer {
            self.completions.push_back(Completed {
                frame: None,
                wqe_index: self.consumer,
                byte_count: 0,
                immediate: [0; 4],
                result: Err(STATUS_FLUSH),
                with_immediate: false,
                solicited: false,
                source: None,
            });
            self.consumer += 1;
        }
    }

    /// Handles a read error of the payload of the response `psn`.
    pub fn fail_read_response(&mut self, psn: u32, frame: u16) {
        self.model.fail_read_response(Instant::ZERO, Psn::new(psn));
        self.collect(&Packet::default(), frame);
    }

    /// Returns true if the payload of all frames is written once the payload of frame `frames_done`
    /// is. Must be called within 2^15 frames.
    pub fn placed_by(&self, frames_done: u16) -> bool {
        let behind = |newest| frames_done.wrapping_sub(newest) < 0x8000;
        self.newest.is_none_or(behind)
    }

    /// Moves the QP to ERR, like the command engine.
    pub fn fail(&mut self, frame: u16) {
        self.state = ERR;
        self.model
            .modify(Instant::ZERO, Transition::Err)
            .expect("RTR goes to ERR");
        self.collect(&Packet::default(), frame);
    }
}

/// Returns a random segment. Some keys fail, always or sometimes.
fn segment(random: &mut SplitMix64) -> Segment {
    Segment {
        address: random.number() >> 8,
        length: match random.below(6) {
            0 => 0,
            1 => random.below(100) as u32,
            2 => 0x8000_0000,
            _ => random.below(20_000) as u32,
        },
        l_key: match random.below(60) {
            0 => KEY_BAD,
            1 => KEY_HOLES,
            _ => KEY_GOOD,
        },
    }
}

fn place(requests: &[Request], placed: &mut Vec<Piece>) -> MemoryAnswer {
    for request in requests {
        let (pieces, fault) = translate(request);
        placed.extend(pieces);
        if fault.is_some() {
            return MemoryAnswer::Failed;
        }
    }
    MemoryAnswer::Done
}

fn completed(completion: &Completion, packet: &Packet, frame: u16) -> Completed {
    let Completion::Receive {
        receive,
        status,
        operation,
        byte_length,
        immediate,
        solicited,
        source,
        with_grh,
        ..
    } = *completion
    else {
        panic!("nothing is sent");
    };
    let opcode = match operation {
        ReceiveKind::Send => OPCODE_RECEIVE,
        ReceiveKind::RdmaWriteImmediate => OPCODE_RECEIVE_RDMA_IMMEDIATE,
    };
    let is_flushed = status as u8 == STATUS_FLUSH;
    Completed {
        frame: (!is_flushed).then_some(frame),
        wqe_index: receive,
        byte_count: byte_length,
        immediate: immediate.map_or([0; 4], |immediate| immediate.0),
        result: match status as u8 {
            0 => Ok(opcode),
            other => Err(other),
        },
        with_immediate: immediate.is_some(),
        solicited,
        source: source
            .filter(|_| with_grh)
            .map(|qpn| (qpn.value(), !packet.is_v6)),
    }
}

fn event_code(event: Event) -> Option<u8> {
    match event {
        Event::CommunicationEstablished => Some(0x0b),
        Event::RequestError => Some(0x09),
        Event::AccessError => Some(0x0a),
        Event::Fatal => Some(0x08),
        Event::SqDrained | Event::LastWqeReached => None,
    }
}

fn model(qpn: u32, shape: &Shape) -> Qp {
    let config = Config {
        // Only ACKs that the peer requests.
        ack_coalesce: u32::MAX,
        ..Config::default()
    };
    let service = match shape.q_key {
        Some(_) => Service::UnreliableDatagram,
        None => Service::ReliableConnected,
    };
    let mut qp = Qp::new(Qpn::new(qpn), service, config);
    let access = RemoteAccess {
        write: shape.access & REMOTE_WRITE != 0,
        read: shape.access & REMOTE_READ != 0,
        atomic: shape.access & REMOTE_ATOMIC != 0,
        ..RemoteAccess::default()
    };
    let init = InitAttributes {
        p_key: PKey::DEFAULT,
        access,
        port: 1,
        q_key: QKey(shape.q_key.unwrap_or(0)),
    };
    let attributes = RtrAttributes {
        path_mtu: PathMtu::from_number(shape.log_mtu - 7).expect("1 to 5"),
        dest_qp: Qpn::new(0x99),
        rq_psn: Psn::new(shape.psn),
        max_dest_rd_atomic: shape.max_dest_rd_atomic,
        min_rnr_timer: RnrTimer::new(shape.min_rnr_timer),
    };
    let update = AttributeUpdate::default();
    let up = [
        Transition::Init(init),
        Transition::Rtr { attributes, update },
    ];
    for transition in up {
        qp.modify(Instant::ZERO, transition).expect("the way up");
    }
    qp
}
