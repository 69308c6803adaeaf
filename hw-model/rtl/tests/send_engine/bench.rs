//! The environment of the send engine: host memory, memory_unit, tables, transmit, steer, scatter,
//! completion_writer. Every port stalls at random.

use std::collections::{BTreeMap, VecDeque};

use ferroce_rtl::verilated::send_engine::SendEngine;
use ferroce_rtl::{LINE, structs, words};
use ferroce_units::random::SplitMix64;

use crate::bundles::{Answer, Completion, MemoryRequest, Piece, Qp, TxPacket, Writer};
use crate::datagrams;
use crate::peer::{Answers, Peer, rnr_ns};
use crate::program::{KEY_BAD, KEY_WRITABLE, Wqe, content};

pub const STATE_RTS: u8 = 3;
pub const STATE_SQE: u8 = 5;
pub const STATE_ERR: u8 = 6;
const PAGE: u64 = 4096;
/// I/O addresses of local memory differ from virtual ones in these bits.
const TRANSLATION: u64 = 0x35 << 44;
const NS_PER_CYCLE: u64 = 4;
const CYCLES_MAX: u64 = 600_000;
const LOCAL_WRITE: u8 = 1;
/// Maximum cycles from an RNR NAK to the last packet that was begun before it.
const SLACK_CYCLES: u64 = 400;

/// A QP: context, program, and progress.
pub struct Queue {
    pub context: Qp,
    pub program: Vec<Wqe>,
    pub peer: Peer,
    /// Number of WQEs in the ring, and of WQEs known to be done.
    pub posted: usize,
    pub done: usize,
    pub completions: Vec<Completion>,
    pub first_psn: u32,
    pub has_failed: bool,
    /// Limit up to which its program is posted.
    pub post_limit: usize,
    /// Datagrams of it that transmit has reported as sent.
    pub left: usize,
}

impl Queue {
    fn ring_line(&self, index: u32) -> u64 {
        let size = 1u32 << self.context.log_send_blocks;
        self.context.send_base + u64::from(index & (size - 1)) * LINE as u64
    }
}

/// A client of memory_unit: the answers that are pending.
#[derive(Default)]
struct Client {
    answers: VecDeque<(Piece, u8)>,
}

pub struct Bench {
    pub rtl: SendEngine,
    pub random: SplitMix64,
    pub queues: Vec<Queue>,
    pub now_ns: u64,
    pub answers: Answers,
    ring: BTreeMap<u64, [u8; LINE]>,
    memory: BTreeMap<u64, u8>,
    reads: Vec<(u64, u8)>,
    clients: [Client; 2],
    packets: VecDeque<(TxPacket, structs::TxPacket)>,
    /// Transmit's reports of sent packets: QP, and whether the payload could not be read.
    sent: VecDeque<(u8, bool)>,
    /// Virtual addresses whose DMA fails.
    pub unreadable: std::ops::Range<u64>,
    pieces: Vec<Piece>,
    payloads: VecDeque<Vec<Piece>>,
    answer: Option<Answer>,
    is_handed: bool,
    placed: usize,
    has_last: bool,
    frame: u16,
    frames: VecDeque<u16>,
    /// Placed payload, which is in memory when its frame is done.
    placed_bytes: VecDeque<(u16, u64, u8)>,
    frames_done: u16,
    pub wake: VecDeque<u8>,
    pub doorbell_errors: u32,
    /// A port stalls in one of this many cycles; zero: never.
    pub stall: u64,
    /// The ready inputs of this cycle, and whether an answer is offered.
    ready: [u8; 6],
    is_offered: bool,
}

impl Bench {
    pub fn new(seed: u64) -> Self {
        let mut bench = Self {
            rtl: SendEngine::new(),
            random: SplitMix64::new(seed),
            queues: Vec::new(),
            now_ns: 1000,
            answers: Answers::new(),
            ring: BTreeMap::new(),
            memory: BTreeMap::new(),
            reads: Vec::new(),
            clients: Default::default(),
            packets: VecDeque::new(),
            sent: VecDeque::new(),
            unreadable: 0..0,
            pieces: Vec::new(),
            payloads: VecDeque::new(),
            answer: None,
            is_handed: false,
            placed: 0,
            has_last: false,
            frame: 0,
            frames: VecDeque::new(),
            placed_bytes: VecDeque::new(),
            frames_done: 0,
            wake: VecDeque::new(),
            doorbell_errors: 0,
            stall: 3,
            ready: [0; 6],
            is_offered: false,
        };
        bench.rtl.set_rst(1);
        (0..4).for_each(|_| bench.rtl.cycle());
        bench.rtl.set_rst(0);
        bench.rtl.set_gid([1, 2, 3, 4]);
        (0..300).for_each(|_| bench.rtl.cycle());
        bench
    }

    fn is_ready(&mut self) -> u8 {
        u8::from(self.stall == 0 || self.random.below(self.stall) != 0)
    }

    /// Executes a command of the command engine.
    pub fn control(&mut self, op: u64, qp: u8, psn: u32) {
        let words = Writer::default()
            .put(psn.into(), 24)
            .put(qp.into(), 8)
            .put(op, 2);
        let [low, high] = words.words();
        self.rtl.set_control(u64::from(high) << 32 | u64::from(low));
        self.rtl.set_control_valid(1);
        let limit = self.rtl.cycles() + CYCLES_MAX;
        loop {
            self.rtl.settle();
            let is_done = self.rtl.control_ready() != 0;
            self.step();
            assert!(self.rtl.cycles() < limit, "the control does not end");
            if is_done {
                break;
            }
        }
        self.rtl.set_control_valid(0);
        self.rtl.settle();
    }

    /// Writes WQEs into the ring while there is room, and rings the doorbell.
    pub fn post(&mut self, qp: u8) -> bool {
        let queue = &mut self.queues[usize::from(qp)];
        let first = queue.posted;
        let more = 1 + self.random.below(4) as usize;
        while queue.posted < queue.post_limit.min(first + more) {
            let wqe = &queue.program[queue.posted];
            let oldest = &queue.program[queue.done.min(queue.posted)];
            let end = wqe.index.wrapping_add(wqe.blocks);
            if end.wrapping_sub(oldest.index) > 1 << queue.context.log_send_blocks {
                break;
            }
            let bytes = wqe.bytes();
            for (i, line) in bytes.chunks_exact(LINE).enumerate() {
                let iova = queue.ring_line(wqe.index.wrapping_add(i as u32));
                self.ring.insert(iova, line.try_into().expect("a line"));
            }
            queue.posted += 1;
        }
        if queue.posted == first {
            return false;
        }
        let last = &queue.program[queue.posted - 1];
        let producer = last.index.wrapping_add(last.blocks);
        self.ring_doorbell(qp, producer);
        true
    }

    pub fn ring_doorbell(&mut self, qp: u8, producer: u32) {
        self.rtl.set_doorbell_valid(1);
        self.rtl.set_doorbell_qp(qp);
        self.rtl.set_doorbell_index(producer);
        loop {
            self.rtl.settle();
            let is_taken = self.rtl.doorbell_ready() != 0;
            self.step();
            if is_taken {
                break;
            }
        }
        self.rtl.set_doorbell_valid(0);
        self.step();
    }

    /// Runs one cycle of all parts.
    pub fn step(&mut self) {
        self.offer();
        self.rtl.set_now_ns(self.now_ns);
        self.rtl.settle();
        self.take_dma();
        let handed = (self.take_memory(0), self.take_memory(1));
        self.take_transmit();
        self.take_answer();
        self.take_completion();
        if self.rtl.fail_valid() != 0 {
            let qp = self.rtl.fail_qp();
            let context = &mut self.queues[usize::from(qp)].context;
            assert_eq!(self.rtl.fail_sends() != 0, context.q_key.is_some());
            context.state = match context.q_key {
                Some(_) => STATE_SQE,
                None => STATE_ERR,
            };
            self.wake.push_back(qp);
        }
        self.doorbell_errors += u32::from(self.rtl.doorbell_error());
        let looked_at = (self.rtl.requester_qp_index(), self.rtl.completer_qp_index());
        self.rtl.cycle();
        for (client, taken) in [handed.0, handed.1].into_iter().enumerate() {
            if taken {
                self.clients[client].answers.pop_front();
            }
        }
        let context = |bench: &Self, qp: u8| bench.queues.get(usize::from(qp)).map(|q| q.context);
        if let Some(qp) = context(self, looked_at.0) {
            self.rtl.set_requester_qp(qp.words());
        }
        if let Some(qp) = context(self, looked_at.1) {
            self.rtl.set_completer_qp(qp.words());
        }
        self.now_ns += NS_PER_CYCLE;
    }

    /// Sets the inputs of a cycle.
    fn offer(&mut self) {
        let ready = [0; 6].map(|_| self.is_ready());
        self.ready = ready;
        self.rtl.set_read_ready(ready[0]);
        self.rtl.set_requester_request_ready(ready[1]);
        self.rtl.set_completer_request_ready(ready[2]);
        self.rtl.set_packet_ready(ready[3]);
        self.rtl.set_piece_ready(ready[4]);
        self.rtl.set_place_ready(ready[5]);
        self.rtl.set_line_valid(0);
        if !self.reads.is_empty() && self.random.below(8) == 0 {
            let (iova, index) = self
                .reads
                .swap_remove(self.random.below(self.reads.len() as u64) as usize);
            let line = self.ring.get(&iova);
            self.rtl.set_line_valid(1);
            self.rtl.set_line_error(u8::from(line.is_none()));
            self.rtl.set_line_index(index);
            self.rtl.set_line_data(words(line.unwrap_or(&[0; LINE]), 0));
        }
        // Answers that are offered to memory_unit's clients stay until they are taken.
        let (piece, fault) = self.clients[0].answers.front().copied().unwrap_or_default();
        self.rtl
            .set_requester_answer_valid(u8::from(!self.clients[0].answers.is_empty()));
        self.rtl.set_requester_answer(piece.words());
        self.rtl.set_requester_answer_fault(fault);
        let (piece, fault) = self.clients[1].answers.front().copied().unwrap_or_default();
        self.rtl
            .set_completer_answer_valid(u8::from(!self.clients[1].answers.is_empty()));
        self.rtl.set_completer_answer(piece.words());
        self.rtl.set_completer_answer_fault(fault);
        self.offer_answer();
        let sent = self.sent.pop_front();
        self.rtl.set_sent_valid(u8::from(sent.is_some()));
        let (qp, is_spoiled) = sent.unwrap_or_default();
        if sent.is_some() && !is_spoiled {
            self.queues[usize::from(qp)].left += 1;
        }
        self.rtl.set_payload_error(u8::from(is_spoiled));
        self.rtl.set_payload_error_qp(qp);
        let wake = self.wake.pop_front();
        self.rtl.set_wake_valid(u8::from(wake.is_some()));
        self.rtl.set_wake_qp(wake.unwrap_or(0));
        if !self.frames.is_empty() && self.random.below(8) == 0 {
            self.frames_done = self.frames.pop_front().expect("it is not empty");
            while let Some((_, address, byte)) = self
                .placed_bytes
                .pop_front_if(|(frame, ..)| *frame == self.frames_done)
            {
                self.memory.insert(address, byte);
            }
        }
        self.rtl.set_frames_done(self.frames_done);
    }

    /// Offers the answer of steer.
    fn offer_answer(&mut self) {
        let is_due = self
            .answers
            .front()
            .is_some_and(|(at, _)| *at <= self.rtl.cycles());
        if self.answer.is_none() && is_due {
            let (_, mut answer) = self.answers.pop_front().expect("it is due");
            self.frame = self.frame.wrapping_add(1);
            answer.number = self.frame;
            self.placed = 0;
            self.has_last = false;
            self.is_handed = false;
            self.rtl.set_answer(answer.words());
            self.answer = Some(answer);
        }
        self.is_offered = self.answer.is_some() && !self.is_handed;
        self.rtl.set_answer_valid(u8::from(self.is_offered));
    }

    fn take_dma(&mut self) {
        if self.rtl.read_valid() != 0 && self.ready[0] != 0 {
            self.reads
                .push((self.rtl.read_iova(), self.rtl.read_index()));
        }
    }

    /// Acts as memory_unit: takes a request of a client; returns true if its oldest answer is
    /// taken.
    fn take_memory(&mut self, client: usize) -> bool {
        let (is_taken, request, is_request) = match client {
            0 => (
                self.rtl.requester_answer_ready() != 0,
                MemoryRequest::read(&self.rtl.requester_request()),
                self.rtl.requester_request_valid() != 0 && self.ready[1] != 0,
            ),
            _ => (
                self.rtl.completer_answer_ready() != 0,
                MemoryRequest::read(&self.rtl.completer_request()),
                self.rtl.completer_request_valid() != 0 && self.ready[2] != 0,
            ),
        };
        let is_taken = is_taken && !self.clients[client].answers.is_empty();
        if is_request {
            let answers = self.translate(client, request);
            self.clients[client].answers.extend(answers);
        }
        is_taken
    }

    fn translate(&mut self, client: usize, request: MemoryRequest) -> Vec<(Piece, u8)> {
        let qp = request.qpn as usize - 0x100;
        assert_eq!(request.pd, self.queues[qp].context.pd);
        assert_eq!(request.rights, if client == 1 { LOCAL_WRITE } else { 0 });
        assert!(!request.check_only && request.length > 0);
        let is_refused = request.key == KEY_BAD || client == 1 && request.key != KEY_WRITABLE;
        let mut pieces = Vec::new();
        let (mut address, mut left) = (request.address, u64::from(request.length));
        while left > 0 {
            let bytes = left.min(PAGE - address % PAGE);
            left -= bytes;
            let piece = Piece {
                iova: address ^ TRANSLATION,
                bytes: bytes as u32,
                last: left == 0,
            };
            pieces.push((piece, 0));
            address += bytes;
        }
        if is_refused {
            pieces.pop();
            let piece = Piece {
                last: true,
                ..Piece::default()
            };
            pieces.push((piece, 1 + self.random.below(7) as u8));
        }
        pieces
    }

    /// Returns a byte of payload: of local memory, or of a ring.
    fn byte(&self, iova: u64) -> u8 {
        match self.ring.get(&(iova & !63)) {
            Some(line) => line[iova as usize % LINE],
            None => content(iova ^ TRANSLATION),
        }
    }

    fn take_transmit(&mut self) {
        if self.rtl.piece_valid() != 0 && self.ready[4] != 0 {
            let piece = Piece::read(&self.rtl.piece());
            assert!(
                piece.iova % PAGE + u64::from(piece.bytes) <= PAGE,
                "it leaves the page"
            );
            self.pieces.push(piece);
            if piece.last {
                self.payloads.push_back(std::mem::take(&mut self.pieces));
            }
        }
        if self.rtl.packet_valid() != 0 && self.ready[3] != 0 {
            let words = self.rtl.packet();
            self.packets
                .push_back((TxPacket::read(&words), words.into()));
        }
        let Some((packet, whole)) = self.packets.front().copied() else {
            return;
        };
        let payload = match packet.payload_bytes {
            0 => Vec::new(),
            _ => match self.payloads.pop_front() {
                Some(payload) => payload,
                None => return,
            },
        };
        self.packets.pop_front();
        let bytes = payload
            .iter()
            .flat_map(|p| p.iova..p.iova + u64::from(p.bytes));
        let is_spoiled = bytes
            .clone()
            .any(|iova| self.unreadable.contains(&(iova ^ TRANSLATION)));
        let bytes: Vec<u8> = bytes.map(|iova| self.byte(iova)).collect();
        self.sent.push_back((packet.qp, is_spoiled));
        if is_spoiled {
            let queue = &mut self.queues[usize::from(packet.qp)];
            // A datagram is not sent again.
            queue.peer.message += usize::from(queue.context.q_key.is_some());
            return;
        }
        assert_eq!(bytes.len() as u32, packet.payload_bytes);
        let queue = &mut self.queues[usize::from(packet.qp)];
        if let Some(q_key) = queue.context.q_key {
            datagrams::check(queue, q_key, &whole, &bytes);
            return;
        }
        assert_eq!(packet.dest_qpn, queue.context.dest_qpn);
        let messages: Vec<&Wqe> = queue.program.iter().filter(|wqe| !wqe.is_nop()).collect();
        let now = (self.rtl.cycles(), self.now_ns);
        queue.peer.max_rd_atomic = queue.context.max_rd_atomic.into();
        queue.peer.receive(
            &mut self.random,
            now,
            &messages,
            (packet, bytes),
            &mut self.answers,
        );
    }

    fn take_answer(&mut self) {
        if self.rtl.place_valid() != 0 && self.ready[5] != 0 {
            let piece = Piece::read(&self.rtl.place());
            let answer = self.answer.as_ref().expect("a place without an answer");
            assert!(self.is_handed && !self.has_last && !answer.payload.is_empty());
            self.has_last = piece.last;
            for i in 0..u64::from(piece.bytes) {
                let byte = answer.payload[self.placed];
                let address = (piece.iova + i) ^ TRANSLATION;
                self.placed_bytes.push_back((answer.number, address, byte));
                self.placed += 1;
            }
            let is_drop = self.rtl.place_drop() != 0;
            assert!(!piece.last || is_drop || self.placed == answer.payload.len());
            if piece.last {
                self.frames.push_back(answer.number);
            }
        }
        if self.is_offered && self.rtl.answer_ready() != 0 {
            self.is_handed = true;
            // steer announces a frame without payload.
            let answer = self.answer.as_ref().expect("it is offered");
            if answer.payload.is_empty() {
                self.frames.push_back(answer.number);
            }
        }
        if self.rtl.answer_done() != 0 {
            let answer = self.answer.take().expect("an answer was under way");
            assert_eq!(
                self.has_last,
                !answer.payload.is_empty(),
                "one run of places"
            );
            let peer = &mut self.queues[usize::from(answer.qp)].peer;
            peer.reads_answered += u32::from(matches!(answer.opcode, 0x0f | 0x10 | 0x12));
            if answer.opcode == 0x11 && answer.aeth >> 29 == 1 {
                let code = answer.aeth >> 24 & 0x1f;
                let until_ns = self.now_ns + rnr_ns(code);
                peer.silence = Some((self.rtl.cycles() + SLACK_CYCLES, until_ns));
            }
        }
    }

    /// completion_writer: waits for the payload of the frame.
    fn take_completion(&mut self) {
        if self.rtl.completion_valid() == 0 {
            self.rtl.set_completion_ready(0);
            return;
        }
        let completion = Completion::read(&self.rtl.completion());
        let is_written = self.frames_done.wrapping_sub(completion.frame) < 0x8000;
        let is_ready = is_written && self.random.below(4) != 0;
        self.rtl.set_completion_ready(u8::from(is_ready));
        self.rtl.settle();
        if !is_ready {
            return;
        }
        let queue = &mut self.queues[completion.qpn as usize - 0x100];
        assert_eq!(completion.cqn, queue.context.send_cqn);
        let wqe = queue.program[queue.done..queue.posted]
            .iter()
            .position(|wqe| wqe.index == completion.wqe_index);
        let at = queue.done + wqe.expect("a CQE of a WQE that is not done");
        if completion.status == 0 {
            let wqe = &queue.program[at];
            assert!(wqe.signaled && !queue.has_failed);
            assert_eq!(completion.opcode, wqe.cqe_opcode());
            assert_eq!(completion.byte_count, wqe.length);
            let begun = queue.program[..=at].iter().filter(|wqe| !wqe.is_nop());
            let is_datagram = queue.context.q_key.is_some();
            assert!(!is_datagram || begun.count() <= queue.left, "not sent yet");
        }
        // Earlier WQEs have succeeded without a CQE; otherwise there would be one.
        let before = &queue.program[queue.done..at];
        assert!(before.iter().all(|wqe| !wqe.signaled) && (before.is_empty() || !queue.has_failed));
        let succeeded = at + usize::from(completion.status == 0);
        let reads: Vec<Wqe> = queue.program[queue.done..succeeded]
            .iter()
            .filter(|wqe| wqe.fetches())
            .cloned()
            .collect();
        queue.has_failed |= completion.status != 0;
        queue.done = at + 1;
        queue.completions.push(completion);
        reads.iter().for_each(|wqe| self.check_read(wqe));
    }

    /// The data of a READ is in memory.
    fn check_read(&self, wqe: &Wqe) {
        let local = wqe
            .segments
            .iter()
            .flat_map(|s| s.address..s.address + u64::from(s.length));
        for (i, address) in local.enumerate() {
            let byte = content(wqe.remote.0.wrapping_add(i as u64));
            assert_eq!(
                self.memory.get(&address),
                Some(&byte),
                "byte {i} of {wqe:?}"
            );
        }
    }

    /// Prints the state of all QPs before a test fails.
    fn report(&self) {
        let valid = [
            self.rtl.read_valid(),
            self.rtl.requester_request_valid(),
            self.rtl.completer_request_valid(),
            self.rtl.packet_valid(),
            self.rtl.piece_valid(),
            self.rtl.place_valid(),
            self.rtl.completion_valid(),
            self.rtl.deadline_valid(),
            self.rtl.idle(),
        ];
        println!(
            "valid {valid:?}, answer {:?}, {} ahead",
            self.answer,
            self.answers.len()
        );
        println!("frames done {}, {:?}", self.frames_done, self.frames);
        for queue in &self.queues {
            let next = queue.program.get(queue.done);
            println!("posted {}, done {}: {next:?}", queue.posted, queue.done);
            println!("{:?}, message {}", queue.context, queue.peer.message);
        }
    }

    fn is_quiet(&self) -> bool {
        self.rtl.idle() != 0
            && self.answers.is_empty()
            && self.answer.is_none()
            && self.packets.is_empty()
            && self.sent.is_empty()
            && self.frames.is_empty()
            && self.wake.is_empty()
    }

    /// Runs until every program is done, or no further event is possible. When all is quiet, the
    /// clock jumps to the next deadline.
    pub fn run(&mut self) {
        let limit = self.rtl.cycles() + CYCLES_MAX;
        loop {
            if self.rtl.cycles() >= limit {
                self.report();
                panic!("it does not end");
            }
            self.step();
            if self.random.below(40) == 0 {
                let qp = self.random.below(self.queues.len() as u64) as u8;
                self.post(qp);
            }
            if self.is_quiet() {
                let mut posted = false;
                for qp in 0..self.queues.len() {
                    posted |= self.post(qp as u8);
                }
                if posted {
                    continue;
                }
                if self.rtl.deadline_valid() == 0 {
                    return;
                }
                self.now_ns = self.now_ns.max(self.rtl.deadline_ns());
            }
        }
    }

    /// Runs for a cycle. When all is quiet, the clock jumps to the next deadline.
    pub fn advance(&mut self) {
        self.step();
        if self.is_quiet() && self.rtl.deadline_valid() != 0 {
            self.now_ns = self.now_ns.max(self.rtl.deadline_ns());
        }
    }

    /// Creates a QP in RTS.
    pub fn start(&mut self, queue: Queue) {
        let qp = self.queues.len() as u8;
        let psn = queue.first_psn;
        self.queues.push(queue);
        self.control(0, qp, psn);
    }

    /// Moves a QP through RESET, and back to RTS with another program. Packets in flight to it are
    /// lost, because steer would drop them.
    pub fn restart(&mut self, qp: u8, queue: Queue) {
        self.queues[usize::from(qp)].context.state = 0;
        self.wake.push_back(qp);
        while self.answer.as_ref().is_some_and(|answer| answer.qp == qp) {
            self.step();
        }
        self.answers.retain(|(_, answer)| answer.qp != qp);
        self.control(1, qp, 0);
        assert!(
            self.packets.iter().all(|(packet, _)| packet.qp != qp),
            "a packet is under way"
        );
        assert_eq!(self.query(qp), (0, 0, 0, 0));
        self.answers.retain(|(_, answer)| answer.qp != qp);
        let psn = queue.first_psn;
        self.queues[usize::from(qp)] = queue;
        self.control(0, qp, psn);
    }

    /// Returns the results of QUERY: next PSN, oldest PSN, producer and fetch index.
    pub fn query(&mut self, qp: u8) -> (u32, u32, u32, u32) {
        let words = Writer::default().put(0, 24).put(qp.into(), 8).put(2, 2);
        let [low, high] = words.words();
        self.rtl.set_control(u64::from(high) << 32 | u64::from(low));
        self.rtl.set_control_valid(1);
        loop {
            self.rtl.settle();
            if self.rtl.control_ready() != 0 {
                break;
            }
            self.step();
        }
        let answer = (
            self.rtl.query_send_psn(),
            self.rtl.query_unacknowledged_psn(),
            self.rtl.query_producer(),
            self.rtl.query_fetched(),
        );
        self.step();
        self.rtl.set_control_valid(0);
        self.step();
        answer
    }
}
