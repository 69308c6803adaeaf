//! The responder against the model's: requests of random peers, with repeated, lost or damaged
//! packets, and keys and receive WQEs that fail. Both must give the same answers, pieces,
//! completions and events.

mod atomics;
mod bits;
mod life;
mod memory;
mod memory_port;
mod packet;
mod peer;

use std::collections::{BTreeMap, VecDeque};

use bits::{pack, unpack};
use ferroce_rtl::seeds::for_each_seed;
use ferroce_rtl::verilated::responder::Responder;
use ferroce_rtl::words;
use ferroce_units::random::SplitMix64;
use life::{Answer, Completed, ERR, Life, RESET, RTR, Shape};
use memory::{PD, Piece, Words};
use memory_port::{MemoryPort, unpack_piece};
use packet::{ATOMIC_WRITE, FLUSH, Packet, READ};

const SEEDS: u64 = 12;
const PACKETS_PER_SEED: usize = 2000;
/// Maximum cycles until all work in progress has ended.
const CYCLES_MAX: u64 = 200_000;
/// Maximum cycles from taking a doorbell to the check of its QP.
const DOORBELL_CYCLES: u64 = 20;
const QPS: usize = 4;
const QPN_BASE: u32 = 0x100;
const RING_BASE: u64 = 1 << 40;
const CQN: u8 = 0x5a;
const CONTROL_START: u128 = 0;
const CONTROL_FORGET: u128 = 1;
const CONTROL_QUERY: u128 = 2;

/// A frame with payload to be placed.
#[derive(Debug)]
struct Frame {
    number: u16,
    payload: u16,
    expected: Vec<Piece>,
    placed: Vec<Piece>,
    ended: bool,
}

/// A request of the command engine.
#[derive(Debug, Clone, Copy)]
struct Control {
    op: u128,
    qp: usize,
}

struct Bench {
    rtl: Responder,
    random: SplitMix64,
    lives: Vec<Life>,
    pace: u64,
    packet: Option<(usize, Packet)>,
    busy: bool,
    frames: VecDeque<Frame>,
    number: u16,
    frames_done: u16,
    doorbell: Option<(usize, u32)>,
    doorbell_errors: [u32; 2],
    /// Datagrams that the responder has counted as dropped, and the model's counts of earlier
    /// lives.
    dropped: [u64; 2],
    dropped_before: [u64; 2],
    /// Cycle at which the last taken doorbell has certainly been handled.
    doorbell_looked_at: u64,
    control: Option<Control>,
    wakes: VecDeque<usize>,
    looked: usize,
    reads: Vec<(u64, u8)>,
    /// The memory of atomics: the model's and the card's, and the line that the card reads.
    words: [Words; 2],
    atomic_read: Option<u64>,
    memory: [MemoryPort; 2],
    tx_packet: Option<(usize, Answer, bool)>,
    tx_pieces: Vec<Piece>,
    /// Packets in transmit: QP, PSN, and whether they have payload.
    unsent: VecDeque<(usize, u32, bool)>,
    cqes: BTreeMap<u8, u32>,
    events: BTreeMap<u8, u32>,
    counts: BTreeMap<&'static str, u64>,
}

impl Bench {
    fn new(seed: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        let lives = (0..QPS as u32).map(|i| Life::new(QPN_BASE + i, Shape::random(&mut random)));
        let lives = lives.collect();
        let mut rtl = Responder::new();
        rtl.set_rst(1);
        rtl.cycle();
        rtl.set_rst(0);
        rtl.settle();
        Self {
            rtl,
            pace: 1 + random.below(4),
            random,
            lives,
            packet: None,
            busy: false,
            frames: VecDeque::new(),
            number: 0,
            frames_done: 0,
            doorbell: None,
            doorbell_errors: [0; 2],
            dropped: [0; 2],
            dropped_before: [0; 2],
            doorbell_looked_at: 0,
            control: None,
            wakes: VecDeque::new(),
            looked: 0,
            reads: Vec::new(),
            words: Default::default(),
            atomic_read: None,
            memory: [MemoryPort::default(), MemoryPort::default()],
            tx_packet: None,
            tx_pieces: Vec::new(),
            unsent: VecDeque::new(),
            cqes: BTreeMap::new(),
            events: BTreeMap::new(),
            counts: BTreeMap::new(),
        }
    }

    fn count(&mut self, what: &'static str, amount: u64) {
        *self.counts.entry(what).or_default() += amount;
    }

    fn is_ready(&mut self) -> bool {
        self.random.below(self.pace) == 0
    }

    /// Returns `qp_t` of a QP.
    fn qp(&self, index: usize) -> [u32; 17] {
        let Some(life) = self.lives.get(index) else {
            return [0; 17];
        };
        let shape = &life.shape;
        pack(&[
            (1, 1),
            (life.state.into(), 3),
            ((shape.log_mtu - 7).into(), 3),
            (shape.q_key.is_some().into(), 1),
            (shape.q_key.unwrap_or(0).into(), 32),
            (PD.into(), 24),
            (0, 8),
            (CQN.into(), 8),
            (0, 64),
            ((RING_BASE * (index as u64 + 1)).into(), 64),
            (0, 5),
            (shape.log_receives.into(), 5),
            (shape.log_stride.into(), 4),
            (shape.access.into(), 4),
            (0x99, 24),
            (0, 11),
            (shape.min_rnr_timer.into(), 5),
            (0, 5),
            (shape.max_dest_rd_atomic.into(), 5),
            (index as u128, 128),
            (0, 128),
        ])
    }
}

/// Runs one clock cycle: inputs, handshakes, edge.
impl Bench {
    fn cycle(&mut self) {
        self.set_inputs();
        self.rtl.settle();
        self.take_packet();
        self.take_control();
        self.take_memory();
        self.take_atomics();
        self.take_places();
        self.take_answers();
        self.take_results();
        self.looked = self.rtl.qp_index().into();
        self.rtl.cycle();
        self.doorbell_errors[1] += u32::from(self.rtl.doorbell_error());
        self.dropped[0] += u64::from(self.rtl.count_q_key_violation());
        self.dropped[1] += u64::from(self.rtl.count_no_receive());
    }

    fn set_inputs(&mut self) {
        let qp = self.qp(self.looked);
        self.rtl.set_qp(qp);
        self.rtl.set_frames_done(self.frames_done);
        self.rtl
            .set_packet_valid(u8::from(self.packet.is_some() && !self.busy));
        if let Some((index, packet)) = self.packet.filter(|_| !self.busy) {
            let words = packet.pack(self.number.wrapping_add(1), self.lives[index].qpn);
            self.rtl.set_packet(words);
            let qp = self.qp(index);
            self.rtl.set_packet_qp(qp);
        }
        self.rtl
            .set_doorbell_valid(u8::from(self.doorbell.is_some()));
        if let Some((index, value)) = self.doorbell {
            self.rtl.set_doorbell_qp(index as u8);
            self.rtl.set_doorbell_index(value);
        }
        self.rtl.set_control_valid(u8::from(self.control.is_some()));
        if let Some(Control { op, qp }) = self.control {
            let psn = self.lives[qp].shape.psn.into();
            let [low, high] = pack(&[(op, 2), (qp as u128, 8), (psn, 24)]);
            self.rtl.set_control(u64::from(high) << 32 | u64::from(low));
        }
        let wake = self.wakes.pop_front();
        self.rtl.set_wake_valid(u8::from(wake.is_some()));
        self.rtl.set_wake_qp(wake.unwrap_or(0) as u8);
        self.set_lines();
        self.set_atomics();
        self.set_ready();
    }

    fn set_lines(&mut self) {
        let ready = self.is_ready();
        self.rtl.set_read_ready(u8::from(ready));
        let deliver = !self.reads.is_empty() && self.random.below(4) == 0;
        self.rtl.set_line_valid(u8::from(deliver));
        if deliver {
            let which = self.random.below(self.reads.len() as u64) as usize;
            let (iova, index) = self.reads.swap_remove(which);
            let life = &self.lives[(iova / RING_BASE) as usize - 1];
            let (line, readable) = life.line(iova % RING_BASE);
            self.rtl.set_line_data(words(&line, 0));
            self.rtl.set_line_error(u8::from(!readable));
            self.rtl.set_line_index(index);
        }
    }

    fn set_ready(&mut self) {
        for (port, memory) in self.memory.iter_mut().enumerate() {
            let offer = memory.offer(&mut self.random);
            let (piece, fault) = offer.unwrap_or(([0; 3], 0));
            let ready = self.random.below(self.pace) == 0;
            match port {
                0 => {
                    self.rtl.set_answer_valid(u8::from(offer.is_some()));
                    self.rtl.set_answer(piece);
                    self.rtl.set_answer_fault(fault);
                    self.rtl.set_request_ready(u8::from(ready));
                }
                _ => {
                    self.rtl
                        .set_response_answer_valid(u8::from(offer.is_some()));
                    self.rtl.set_response_answer(piece);
                    self.rtl.set_response_answer_fault(fault);
                    self.rtl.set_response_request_ready(u8::from(ready));
                }
            }
        }
        let mut ready = || u8::from(self.random.below(self.pace) == 0);
        self.rtl.set_place_ready(ready());
        self.rtl.set_completion_ready(ready());
        self.rtl.set_event_ready(ready());
        let (packet, piece) = (ready(), ready());
        self.rtl
            .set_tx_packet_ready(packet & u8::from(self.tx_packet.is_none()));
        self.rtl.set_tx_piece_ready(piece);
        let sends = ready() == 1;
        let sent = if sends { self.unsent.pop_front() } else { None };
        self.rtl.set_sent_valid(u8::from(sent.is_some()));
        let fails = sent.is_some_and(|(qp, psn, is_read)| is_read && self.fails_to_read(qp, psn));
        self.rtl.set_payload_error_valid(u8::from(fails));
        self.rtl
            .set_payload_error_qp(sent.map_or(0, |sent| sent.0 as u8));
    }

    /// Makes the payload of a QP's newest response unreadable, if the QP has no other work in
    /// progress.
    fn fails_to_read(&mut self, qp: usize, psn: u32) -> bool {
        let is_named = self.unsent.iter().any(|sent| sent.0 == qp)
            || self.packet.is_some_and(|packet| packet.0 == qp);
        let life = &mut self.lives[qp];
        let is_next = life.answers.is_empty() && life.state == RTR && !is_named;
        let fails = is_next && self.random.below(20) == 0;
        if fails {
            life.fail_read_response(psn, self.frames_done);
            life.waits = true;
            self.count("payload errors", 1);
        }
        fails
    }

    fn take_packet(&mut self) {
        if self.rtl.packet_valid() == 1 && self.rtl.packet_ready() == 1 {
            let (index, packet) = self.packet.expect("it is offered");
            self.busy = true;
            self.lives[index].newest = Some(self.number.wrapping_add(1));
            self.number = self.number.wrapping_add(1);
            let number = self.number;
            let life = &mut self.lives[index];
            let expected = life.handle(&packet, number, &mut self.words[0]);
            let reads = life
                .answers
                .iter()
                .filter(|(_, frame)| *frame == number)
                .count();
            life.waits |= (packet.opcode == READ || packet.is_atomic()) && reads > 0;
            let fails = life.model.state() == ferroce_transport::QpState::Err;
            life.waits &= fails || self.random.below(2) == 0 || life.shape.max_dest_rd_atomic < 16;
            self.frames.push_back(Frame {
                number,
                payload: packet.written(),
                expected,
                placed: Vec::new(),
                ended: packet.written() == 0,
            });
            self.count("packets", 1);
            self.count("atomics", packet.is_atomic().into());
            if matches!(packet.opcode, FLUSH | ATOMIC_WRITE) {
                self.count("FLUSH and ATOMIC WRITE", 1);
            }
        }
        if self.rtl.done() == 1 {
            assert!(self.busy, "a packet was handed over");
            self.busy = false;
            self.packet = None;
            let frame = self.frames.back().expect("the packet's");
            assert!(frame.ended, "the run of {frame:?} has ended");
        }
    }

    fn take_control(&mut self) {
        if self.rtl.doorbell_valid() == 1 && self.rtl.doorbell_ready() == 1 {
            let (index, value) = self.doorbell.take().expect("it is offered");
            self.doorbell_looked_at = self.rtl.cycles() + DOORBELL_CYCLES;
            let life = &mut self.lives[index];
            let ahead = value.wrapping_sub(life.consumer);
            let is_right = ahead <= 1 << life.shape.log_receives
                && ahead >= life.producer.wrapping_sub(life.consumer);
            if is_right {
                life.producer = value;
            } else {
                self.doorbell_errors[0] += 1;
            }
            let life = &mut self.lives[index];
            if life.model.state() == ferroce_transport::QpState::Err {
                life.flush();
            }
        }
        if self.rtl.control_ready() == 1 {
            let Control { op, qp } = self.control.take().expect("it is offered");
            self.end_control(op, qp);
        }
    }

    fn end_control(&mut self, op: u128, index: usize) {
        let life = &self.lives[index];
        if op == CONTROL_QUERY {
            let psn = life.model.next_receive_psn().value();
            assert_eq!(self.rtl.query_receive_psn(), psn, "QUERY");
            assert_eq!(self.rtl.query_message_sequence(), life.model.msn().value());
            self.count("queries", 1);
        } else if op == CONTROL_FORGET {
            let is_sent = self.unsent.iter().all(|packet| packet.0 != index);
            assert!(
                is_sent && life.placed_by(self.frames_done),
                "FORGET waits for {life:?}"
            );
            let before = self.dropped_before.iter_mut().zip(life.dropped);
            before.for_each(|(sum, more)| *sum += more);
            let shape = Shape::random(&mut self.random);
            self.lives[index] = Life::new(QPN_BASE + index as u32, shape);
            self.control = Some(Control {
                op: CONTROL_START,
                qp: index,
            });
            self.count("lives", 1);
        }
    }

    fn take_memory(&mut self) {
        if self.rtl.read_valid() == 1 && self.rtl.read_ready() == 1 {
            assert_eq!(self.rtl.read_iova() % 64, 0);
            self.reads
                .push((self.rtl.read_iova(), self.rtl.read_index()));
        }
        if self.rtl.request_valid() == 1 && self.rtl.request_ready() == 1 {
            self.memory[0].take(&self.rtl.request());
        }
        if self.rtl.answer_valid() == 1 && self.rtl.answer_ready() == 1 {
            self.memory[0].pop();
        }
        if self.rtl.response_request_valid() == 1 && self.rtl.response_request_ready() == 1 {
            self.memory[1].take(&self.rtl.response_request());
        }
        if self.rtl.response_answer_valid() == 1 && self.rtl.response_answer_ready() == 1 {
            self.memory[1].pop();
        }
    }

    fn take_places(&mut self) {
        if self.rtl.place_valid() == 1 && self.rtl.place_ready() == 1 {
            let (piece, last) = unpack_piece(&self.rtl.place());
            let is_drop = self.rtl.place_drop() == 1;
            let frame = self.frames.back_mut().expect("a frame is worked on");
            assert!(!frame.ended, "one run for {frame:?}");
            frame.ended = last;
            if !is_drop {
                frame.placed.push(piece);
            }
            if last {
                assert_eq!(frame.placed, frame.expected, "{frame:?}");
                let bytes: u32 = frame
                    .placed
                    .iter()
                    .map(|(_, bytes)| u32::from(*bytes))
                    .sum();
                assert_eq!(is_drop, bytes != frame.payload.into(), "{frame:?}");
                self.count("pieces", 1);
            }
        }
        let slow = self.random.below(8) == 0;
        if let Some(frame) = self.frames.front().filter(|frame| frame.ended && slow) {
            self.frames_done = frame.number;
            if self.frames.len() > 1 || !self.busy {
                self.frames.pop_front();
            }
        }
    }

    fn take_answers(&mut self) {
        if self.rtl.tx_piece_valid() == 1 && self.rtl.tx_piece_ready() == 1 {
            let (piece, last) = unpack_piece(&self.rtl.tx_piece());
            self.tx_pieces.push(piece);
            if let Some((.., complete)) = self.tx_packet.as_mut().filter(|_| last) {
                *complete = true;
            } else if last {
                self.tx_pieces.push((u64::MAX, 0)); // the packet comes later
            }
        }
        if self.rtl.tx_packet_valid() == 1 && self.rtl.tx_packet_ready() == 1 {
            let (qp, mut answer, bytes) = unpack_packet(&self.rtl.tx_packet());
            if matches!(answer.opcode, 0x0e) {
                answer.aeth = None;
            }
            let complete = bytes == 0 || self.tx_pieces.last() == Some(&(u64::MAX, 0));
            if bytes > 0 && complete {
                self.tx_pieces.pop();
            }
            self.tx_packet = Some((qp, answer, complete));
        }
        if let Some((qp, mut answer, _)) = self.tx_packet.take_if(|packet| packet.2) {
            answer.pieces = std::mem::take(&mut self.tx_pieces);
            self.unsent
                .push_back((qp, answer.psn, !answer.pieces.is_empty()));
            let life = &mut self.lives[qp];
            let expected = life.answers.pop_front();
            let Some((expected, frame)) = expected else {
                panic!("QP {qp} has nothing to say, but {answer:x?}");
            };
            assert_eq!(answer, expected, "QP {qp} {life:x?}");
            let is_read = answer.opcode != 0x11;
            let behind = self.frames_done.wrapping_sub(frame);
            assert!(!is_read || behind < 0x8000, "READ before frame {frame}");
            life.waits &= !life.answers.is_empty();
            self.count(if is_read { "responses" } else { "acknowledges" }, 1);
        }
    }

    fn take_results(&mut self) {
        if self.rtl.completion_valid() == 1 && self.rtl.completion_ready() == 1 {
            let (qp, frame, mut completed) = unpack_completion(&self.rtl.completion());
            let life = &mut self.lives[qp];
            let expected = life.completions.pop_front();
            if expected.is_some_and(|expected| expected.frame.is_some()) {
                completed.frame = Some(frame);
            }
            assert_eq!(Some(completed), expected, "completion of QP {qp}");
            life.completed = completed.wqe_index + 1;
            let status = completed.result.err().unwrap_or(0);
            *self.cqes.entry(status).or_default() += 1;
        }
        if self.rtl.event_valid() == 1 && self.rtl.event_ready() == 1 {
            let data = self.rtl.event_data();
            let (kind, number) = ((data >> 24 & 0xff) as u8, data as u32 & 0xff_ffff);
            let life = &mut self.lives[(number - QPN_BASE) as usize];
            assert_eq!(Some(kind), life.events.pop_front(), "event of {number:#x}");
            *self.events.entry(kind).or_default() += 1;
        }
        if self.rtl.fail_valid() == 1 {
            let index = usize::from(self.rtl.fail_qp());
            let life = &mut self.lives[index];
            assert_eq!(
                life.model.state(),
                ferroce_transport::QpState::Err,
                "QP {index}"
            );
            if life.state != RESET {
                life.state = ERR;
            }
            self.wakes.push_back(index);
        }
    }
}

fn unpack_packet(words: &[u32]) -> (usize, Answer, u16) {
    let [
        gid,
        _,
        opcode,
        _,
        dest_qpn,
        psn,
        address,
        _,
        _,
        aeth,
        bytes,
        qp,
    ] = unpack(words, [128, 128, 8, 2, 24, 24, 64, 128, 32, 32, 13, 8]);
    assert_eq!((dest_qpn, gid), (0x99, qp));
    let aeth = aeth as u32;
    let answer = Answer {
        opcode: opcode as u8,
        psn: psn as u32,
        aeth: Some(((aeth >> 24) as u8, aeth & 0xff_ffff)),
        result: (opcode == 0x12).then_some(address as u64),
        pieces: Vec::new(),
    };
    (qp as usize, answer, bytes as u16)
}

fn unpack_completion(words: &[u32]) -> (usize, u16, Completed) {
    let [
        cqn,
        frame,
        qpn,
        wqe_index,
        byte_count,
        immediate,
        opcode,
        status,
        _,
        flags,
        source_qpn,
        with_grh,
        is_ipv4,
    ] = unpack(words, [8, 16, 24, 32, 32, 32, 8, 8, 8, 3, 24, 1, 1]);
    assert_eq!((cqn, flags & 2), (CQN.into(), 0));
    assert!(with_grh == 1 || (source_qpn, is_ipv4) == (0, 0));
    let completed = Completed {
        frame: None,
        wqe_index: wqe_index as u32,
        byte_count: byte_count as u32,
        immediate: (immediate as u32).to_le_bytes(),
        result: match status as u8 {
            0 => Ok(opcode as u8),
            status => Err(status),
        },
        with_immediate: flags & 4 != 0,
        solicited: flags & 1 != 0,
        source: (with_grh == 1).then_some((source_qpn as u32, is_ipv4 == 1)),
    };
    assert!(opcode & 0x80 != 0);
    ((qpn as u32 - QPN_BASE) as usize, frame as u16, completed)
}

/// External events.
impl Bench {
    fn act(&mut self) {
        let index = self.random.below(QPS as u64) as usize;
        let is_controlled = self.control.is_some_and(|control| control.qp == index);
        let life = &mut self.lives[index];
        if is_controlled {
            return;
        }
        let is_open = life.state != ERR && !life.waits;
        match self.random.below(12) {
            0 if self.control.is_none() && life.state == ERR => self.forget(index),
            1 if self.control.is_none() && self.random.below(8) == 0 => {
                let op = CONTROL_QUERY;
                self.control = Some(Control { op, qp: index });
            }
            2 | 3 if self.doorbell.is_none() => {
                let wrong = life.state != ERR && self.random.below(20) == 0;
                let value = match (wrong, self.random.below(2)) {
                    (true, 0) => life.producer.wrapping_sub(1),
                    (true, _) => life.consumer.wrapping_add(1 << 20),
                    _ => life.post(&mut self.random),
                };
                self.doorbell = Some((index, value));
            }
            4 if is_open && self.packet.is_none() && self.random.below(100) == 0 => {
                life.fail(self.number);
                self.wakes.push_back(index);
            }
            // A QP for datagrams never waits: without a limit it would get most packets.
            _ if is_open && life.shape.q_key.is_some() && self.random.below(12) > 0 => {}
            _ if is_open && self.packet.is_none() => {
                self.packet = Some((index, life.next_packet(&mut self.random)));
            }
            _ => {}
        }
    }

    /// Moves the QP to RESET, whatever its work in progress.
    fn forget(&mut self, index: usize) {
        let life = &mut self.lives[index];
        let is_named = self.doorbell.is_some_and(|(qp, _)| qp == index)
            || self.packet.is_some_and(|(qp, _)| qp == index);
        let is_named = is_named || self.rtl.cycles() < self.doorbell_looked_at;
        if is_named || (self.random.below(2) == 0 && !life.is_quiet()) {
            return;
        }
        life.state = RESET;
        let op = CONTROL_FORGET;
        self.control = Some(Control { op, qp: index });
    }

    fn start(&mut self) {
        for qp in 0..QPS {
            let op = CONTROL_START;
            self.control = Some(Control { op, qp });
            self.run_until(|bench| bench.control.is_none());
        }
    }

    fn run_until(&mut self, is_done: impl Fn(&Self) -> bool) {
        let limit = self.rtl.cycles() + CYCLES_MAX;
        while !is_done(self) {
            self.cycle();
            assert!(self.rtl.cycles() < limit, "it does not end");
        }
    }

    fn is_idle(&self) -> bool {
        let quiet = self.packet.is_none() && self.doorbell.is_none() && self.control.is_none();
        quiet && self.wakes.is_empty() && self.tx_packet.is_none() && self.rtl.idle() == 1
    }
}

#[test]
fn random_requests_get_the_answers_of_the_model() {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    let mut cqes: BTreeMap<u8, u32> = BTreeMap::new();
    let mut events: BTreeMap<u8, u32> = BTreeMap::new();
    for_each_seed(SEEDS, |seed| {
        let mut bench = Bench::new(seed);
        bench.start();
        while bench.counts.get("packets").copied().unwrap_or(0) < PACKETS_PER_SEED as u64 {
            bench.act();
            bench.cycle();
        }
        bench.run_until(Bench::is_idle);
        for life in &bench.lives {
            assert!(life.is_quiet(), "{life:x?} has more to say");
        }
        let mut dropped = bench.dropped_before;
        for life in &bench.lives {
            (0..2).for_each(|n| dropped[n] += life.dropped[n]);
        }
        assert_eq!(bench.dropped, dropped, "Q_Key, no receive WQE");
        bench.count("wrong Q_Keys", dropped[0]);
        bench.count("no receive WQE", dropped[1]);
        assert_eq!(bench.doorbell_errors[0], bench.doorbell_errors[1]);
        bench.count("cycles", bench.rtl.cycles());
        bench.count("doorbell errors", bench.doorbell_errors[0].into());
        for (name, count) in bench.counts {
            *counts.entry(name).or_default() += count;
        }
        for (status, count) in bench.cqes {
            *cqes.entry(status).or_default() += count;
        }
        for (kind, count) in bench.events {
            *events.entry(kind).or_default() += count;
        }
    });
    println!("{counts:?}, CQEs by status {cqes:?}, events by type {events:?}");
    assert!(counts.contains_key("FLUSH and ATOMIC WRITE"));
    assert!(counts["atomics"] > 0);
    assert!(counts["wrong Q_Keys"] > 0 && counts["no receive WQE"] > 0);
    // Success, length, protection, flush, access, invalid request.
    for status in [0, 1, 4, 5, 8, 9] {
        assert!(cqes.contains_key(&status), "no CQE has status {status}");
    }
    // QP_FATAL, QP_REQUEST_ERROR, QP_ACCESS_ERROR, COMMUNICATION_ESTABLISHED.
    for kind in [8, 9, 10, 11] {
        assert!(events.contains_key(&kind), "no event has type {kind}");
    }
}
