//! The peer: a responder that checks each request packet against the program of its QP.

use std::collections::VecDeque;

use ferroce_spec::wqe::SendOpcode;
use ferroce_units::random::SplitMix64;

use crate::bundles::{Answer, TxPacket};
use crate::program::{ATOMIC_BYTES, Wqe, content};

pub const PSN_MASK: u32 = 0xff_ffff;
pub const ACK: u8 = 0x11;
pub const ACK_SYNDROME: u32 = 0x1f;
const RNR_SYNDROME: u32 = 0x20;
const NAK_SYNDROME: u32 = 0x60;
const DELAY_CYCLES: u64 = 60;

/// Behaviour of the network and the peer.
#[derive(Debug, Clone, Copy, Default)]
pub struct Conduct {
    /// One of this many packets is lost in each direction; zero: none.
    pub loss: u64,
    /// One of this many SENDs finds no receive WQE; zero: none.
    pub rnr: u64,
    /// The refused message, and the syndrome of the answer.
    pub refuse: Option<(usize, u32)>,
    /// First message that is not answered, nor any later one.
    pub silent_from: Option<usize>,
    /// READ with a wrong last response.
    pub garble: Option<usize>,
}

/// A responder.
pub struct Peer {
    qp: u8,
    mtu: u32,
    pub conduct: Conduct,
    expected: u32,
    nak_out: bool,
    msn: u32,
    /// Only messages with packets.
    pub message: usize,
    received: u32,
    since_ack_request: u32,
    is_silent: bool,
    /// While it is silent: the first PSN that it received, how often, and the last time.
    first_silent: Option<u32>,
    pub pass_ns: Vec<u64>,
    /// Number of requested READs, and of READs whose last response has been handled.
    reads_requested: u32,
    pub reads_answered: u32,
    pub max_rd_atomic: u32,
    /// After this cycle, no packet may come before this time, because of an RNR NAK.
    pub silence: Option<(u64, u64)>,
    pub duplicates: u64,
    pub rnr_naks: u64,
    /// Time of each packet that has come.
    pub times_ns: Vec<u64>,
}

/// Returns the time of an RNR NAK with this code (IBTA vol 1, table 45).
pub fn rnr_ns(code: u32) -> u64 {
    const TIMES_10_US: [u64; 32] = [
        65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024,
        1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
    ];
    TIMES_10_US[code as usize] * 10_000
}

/// Checks the fields of a READ or an atomic.
fn check_request(wqe: &Wqe, packet: &TxPacket) {
    if !wqe.is_atomic() {
        assert_eq!((packet.opcode, packet.length), (0x0c, wqe.length));
        return;
    }
    let (swap_add, compare) = wqe.operands;
    let is_swap = wqe.opcode == SendOpcode::COMPARE_SWAP;
    assert_eq!(packet.opcode, if is_swap { 0x13 } else { 0x14 });
    let sent = u64::from(packet.length) << 32 | u64::from(packet.swap_add_low);
    assert_eq!(sent, swap_add);
    assert_eq!(packet.compare, if is_swap { compare } else { 0 });
}

/// Answers in flight, in order, with the cycle in which they arrive.
pub type Answers = VecDeque<(u64, Answer)>;

impl Peer {
    pub fn new(qp: u8, mtu: u32, first_psn: u32, conduct: Conduct) -> Self {
        Self {
            qp,
            mtu,
            conduct,
            expected: first_psn,
            nak_out: false,
            msn: 0,
            message: 0,
            received: 0,
            since_ack_request: 0,
            is_silent: false,
            first_silent: None,
            pass_ns: Vec::new(),
            reads_requested: 0,
            reads_answered: 0,
            max_rd_atomic: 0,
            silence: None,
            duplicates: 0,
            rnr_naks: 0,
            times_ns: Vec::new(),
        }
    }

    fn answer(
        &self,
        random: &mut SplitMix64,
        cycle: u64,
        answers: &mut Answers,
        (opcode, psn, syndrome): (u8, u32, u32),
        payload: Vec<u8>,
    ) {
        if self.is_silent || self.conduct.loss != 0 && random.below(self.conduct.loss) == 0 {
            return;
        }
        let answer = Answer {
            number: 0,
            opcode,
            qp: self.qp,
            psn: psn & PSN_MASK,
            aeth: syndrome << 24 | self.msn,
            payload,
        };
        answers.push_back((cycle + random.below(DELAY_CYCLES), answer));
    }

    /// Handles a request packet.
    pub fn receive(
        &mut self,
        random: &mut SplitMix64,
        (cycle, now_ns): (u64, u64),
        messages: &[&Wqe],
        (packet, payload): (TxPacket, Vec<u8>),
        answers: &mut Answers,
    ) {
        self.times_ns.push(now_ns);
        let silent_from = self.conduct.silent_from;
        self.is_silent = silent_from.is_some_and(|from| self.message >= from);
        if self.is_silent && packet.psn == *self.first_silent.get_or_insert(packet.psn) {
            self.pass_ns.push(now_ns);
        }
        let has_losses = self.conduct.loss != 0;
        if let Some((cycles, ns)) = self.silence.filter(|_| !has_losses) {
            assert!(
                cycle < cycles || now_ns >= ns,
                "before the time of the RNR NAK is over"
            );
        }
        self.since_ack_request += 1;
        assert!(
            self.since_ack_request <= 16,
            "no packet asks for an acknowledge"
        );
        if packet.ack_request {
            self.since_ack_request = 0;
        }
        if random.below(64) == 0 {
            // An answer to no request.
            let psn = self.expected.wrapping_add(0x40_0000);
            self.answer(random, cycle, answers, (ACK, psn, ACK_SYNDROME), Vec::new());
        }
        if self.conduct.loss != 0 && random.below(self.conduct.loss) == 0 {
            return;
        }
        let ahead = packet.psn.wrapping_sub(self.expected) & PSN_MASK;
        if ahead == 0 {
            self.execute(random, cycle, messages, (&packet, &payload), answers);
        } else if ahead < 0x80_0000 {
            if !std::mem::replace(&mut self.nak_out, true) {
                let nak = (ACK, self.expected, NAK_SYNDROME);
                self.answer(random, cycle, answers, nak, Vec::new());
            }
        } else {
            self.duplicates += 1;
            if matches!(packet.opcode, 0x0c | 0x13 | 0x14) {
                self.respond(random, cycle, &packet, answers);
            } else {
                let ack = (ACK, self.expected.wrapping_sub(1), ACK_SYNDROME);
                self.answer(random, cycle, answers, ack, Vec::new());
            }
        }
    }

    fn execute(
        &mut self,
        random: &mut SplitMix64,
        cycle: u64,
        messages: &[&Wqe],
        (packet, payload): (&TxPacket, &[u8]),
        answers: &mut Answers,
    ) {
        let wqe = messages[self.message];
        if let Some((_, syndrome)) = self.conduct.refuse.filter(|(at, _)| *at == self.message) {
            self.nak_out = true;
            self.answer(
                random,
                cycle,
                answers,
                (ACK, packet.psn, syndrome),
                Vec::new(),
            );
            return;
        }
        let is_first = self.received == 0;
        let takes_receive = wqe.takes_receive() && !wqe.is_write() && is_first;
        if takes_receive && self.conduct.rnr != 0 && random.below(self.conduct.rnr) == 0 {
            self.nak_out = true;
            self.rnr_naks += 1;
            let rnr = (ACK, packet.psn, RNR_SYNDROME | (1 + random.below(3) as u32));
            self.answer(random, cycle, answers, rnr, Vec::new());
            return;
        }
        self.nak_out = false;
        if self.conduct.loss == 0 {
            let reads = self.reads_requested - self.reads_answered;
            assert!(!wqe.fence || !is_first || reads == 0, "a fence was passed");
            assert!(
                !wqe.fetches() || reads < self.max_rd_atomic,
                "too many READs"
            );
        }
        if wqe.fetches() {
            self.reads_requested += 1;
            check_request(wqe, packet);
            assert_eq!((packet.address, packet.r_key), wqe.remote);
            assert!(packet.ack_request && payload.is_empty());
            self.msn += 1;
            let count = self.respond(random, cycle, packet, answers);
            self.expected = (self.expected + count) & PSN_MASK;
            self.message += 1;
            return;
        }
        let is_last = self.check_data(wqe, packet, payload);
        self.expected = (self.expected + 1) & PSN_MASK;
        self.received += payload.len() as u32;
        if is_last {
            self.message += 1;
            self.msn += 1;
            self.received = 0;
        }
        if packet.ack_request {
            self.answer(
                random,
                cycle,
                answers,
                (ACK, packet.psn, ACK_SYNDROME),
                Vec::new(),
            );
        }
    }

    /// Checks a packet of a SEND or WRITE; returns true for the last one.
    fn check_data(&self, wqe: &Wqe, packet: &TxPacket, payload: &[u8]) -> bool {
        let left = wqe.length - self.received;
        let (is_first, is_last) = (self.received == 0, left <= self.mtu);
        assert_eq!(payload.len() as u32, left.min(self.mtu));
        let at = self.received as usize;
        assert!(
            payload == &wqe.payload[at..at + payload.len()],
            "wrong payload"
        );
        let operation = if wqe.is_write() { 6 } else { 0 };
        let immediate = u8::from(wqe.has_immediate());
        let opcode = match (is_first, is_last) {
            (true, true) if wqe.opcode == SendOpcode::SEND_INVALIDATE => 0x17,
            (false, true) if wqe.opcode == SendOpcode::SEND_INVALIDATE => 0x16,
            (true, true) => operation + 4 + immediate,
            (false, true) => operation + 2 + immediate,
            (true, false) => operation,
            (false, false) => operation + 1,
        };
        assert_eq!(packet.opcode, opcode);
        let solicited = wqe.solicited && is_last && wqe.takes_receive();
        assert_eq!(
            (packet.solicited, packet.ack_request || !is_last),
            (solicited, true)
        );
        if wqe.is_write() && is_first {
            assert_eq!((packet.address, packet.r_key), wqe.remote);
            assert_eq!(packet.length, wqe.length);
        }
        let mut immediate = wqe.immediate;
        if wqe.opcode == SendOpcode::SEND_INVALIDATE {
            immediate.reverse();
        }
        if is_last {
            assert_eq!(packet.immediate.to_le_bytes(), immediate);
        }
        is_last
    }

    /// Sends the responses to a READ or an atomic, whose result is the content of its address;
    /// returns their number.
    fn respond(
        &self,
        random: &mut SplitMix64,
        cycle: u64,
        packet: &TxPacket,
        answers: &mut Answers,
    ) -> u32 {
        let is_atomic = packet.opcode != 0x0c;
        let length = if is_atomic {
            ATOMIC_BYTES
        } else {
            packet.length
        };
        let count = length.div_ceil(self.mtu).max(1);
        if self.is_silent {
            return count;
        }
        for i in 0..count {
            let (begin, end) = (i * self.mtu, length.min((i + 1) * self.mtu));
            let bytes = (begin..end).map(|at| content(packet.address.wrapping_add(at.into())));
            let opcode = match (i == 0, i + 1 == count) {
                _ if is_atomic => 0x12,
                (true, true) => 0x10,
                (true, false) => 0x0d,
                (false, true) => 0x0f,
                (false, false) => 0x0e,
            };
            let mut response = (opcode, packet.psn.wrapping_add(i), ACK_SYNDROME);
            let mut bytes: Vec<u8> = bytes.collect();
            if i + 1 == count && self.conduct.garble == Some(self.message) {
                match random.below(3) {
                    _ if is_atomic => response.0 = 0x10,
                    0 => bytes.push(0),
                    1 => response.0 = if count == 1 { 0x0d } else { 0x0e },
                    _ => response.0 = 0x12,
                }
            }
            self.answer(random, cycle, answers, response, bytes);
        }
        count
    }
}
