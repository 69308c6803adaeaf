//! A requester: packets of random messages, usually valid, sometimes repeated, lost or damaged.

use std::collections::VecDeque;

use ferroce_units::random::SplitMix64;

use crate::memory::{KEY_BAD, KEY_GOOD, KEY_HOLES, KEY_READ};
use crate::packet::{
    ATOMIC_WRITE, COMPARE_SWAP, DATAGRAM, DATAGRAM_IMMEDIATE, FETCH_ADD, FLUSH, Packet, READ,
    WRITE_FIRST,
};

/// Packets that may be repeated.
const HISTORY: usize = 8;
/// Packets of a message.
pub const MESSAGE_PACKETS_MAX: u32 = 6;

#[derive(Debug)]
pub struct Peer {
    /// PSN of the next new packet.
    psn: u32,
    log_mtu: u32,
    careful: bool,
    message: VecDeque<Packet>,
    history: VecDeque<Packet>,
}

impl Peer {
    pub fn new(psn: u32, log_mtu: u32, careful: bool) -> Self {
        Self {
            psn,
            log_mtu,
            careful,
            message: VecDeque::new(),
            history: VecDeque::new(),
        }
    }

    /// Returns a packet. `quiet`: the QP has no work in progress.
    pub fn packet(&mut self, quiet: bool, random: &mut SplitMix64) -> Packet {
        if self.message.is_empty() {
            self.message = self.messages(random);
        }
        let mut packet = self.message[0];
        packet.psn = self.psn;
        match random.below(if self.careful { 4000 } else { 400 }) % 1000 {
            0..=19 if !self.history.is_empty() => self.repeated(quiet, random).unwrap_or(packet),
            20..=39 => {
                packet.psn = (packet.psn + 1 + random.below(5) as u32) & 0xff_ffff;
                packet
            }
            40 => {
                let opcodes = [
                    0,
                    1,
                    2,
                    3,
                    4,
                    5,
                    6,
                    7,
                    8,
                    9,
                    10,
                    11,
                    12,
                    0x13,
                    0x14,
                    0x16,
                    0x17,
                    FLUSH,
                    ATOMIC_WRITE,
                ];
                packet.opcode = opcodes[random.below(opcodes.len() as u64) as usize];
                packet
            }
            41 => {
                packet.payload = random.below(4097) as u16;
                packet
            }
            42 => {
                packet.length = match random.below(2) {
                    0 => 0x8000_0001 + random.below(1000) as u32,
                    _ => random.below(8 << self.log_mtu) as u32,
                };
                packet
            }
            // The first packet of a WRITE, or the next one, carries all that was announced.
            43..=62 if packet.opcode == WRITE_FIRST => {
                packet.length = (1 + random.below(2) as u32) << self.log_mtu;
                packet
            }
            63 | 64 => {
                packet.opcode = [FLUSH, ATOMIC_WRITE][random.below(2) as usize];
                packet
            }
            _ => packet,
        }
    }

    /// Records that the responder now expects `psn`.
    pub fn advance(&mut self, packet: &Packet, psn: u32) {
        if psn == self.psn {
            return;
        }
        self.psn = psn;
        self.message.pop_front();
        self.history.push_back(*packet);
        if self.history.len() > HISTORY {
            self.history.pop_front();
        }
        // When a READ or an atomic is answered, packets that were acknowledged before it are not
        // sent again.
        if packet.opcode == READ || packet.is_atomic() {
            self.history.drain(..self.history.len() - 1);
        }
    }

    /// An earlier packet; for a READ, perhaps only the rest of it.
    fn repeated(&self, quiet: bool, random: &mut SplitMix64) -> Option<Packet> {
        let mut packet = self.history[random.below(self.history.len() as u64) as usize];
        if packet.opcode != READ {
            return Some(packet);
        }
        let skipped = random.below(u64::from(packet.psns(self.log_mtu))) as u32;
        packet.psn = (packet.psn + skipped) & 0xff_ffff;
        packet.address = packet
            .address
            .wrapping_add(u64::from(skipped << self.log_mtu));
        packet.length -= skipped << self.log_mtu;
        quiet.then_some(packet)
    }

    fn messages(&self, random: &mut SplitMix64) -> VecDeque<Packet> {
        let mtu = 1u32 << self.log_mtu;
        let length = match random.below(8) {
            0 => 0,
            1 => random.below(4) as u32 * mtu,
            2 => random.below(u64::from(MESSAGE_PACKETS_MAX * mtu)) as u32,
            _ => random.below(u64::from(mtu)) as u32,
        };
        let r_key = match random.below(64) {
            _ if self.careful => KEY_GOOD,
            0 => KEY_BAD,
            1 => KEY_READ,
            2 => KEY_HOLES,
            _ => KEY_GOOD,
        };
        let base = Packet {
            opcode: READ,
            psn: 0,
            solicited: random.below(2) == 0,
            ack_request: true,
            address: random.number() >> 8,
            r_key,
            length,
            immediate: (random.number() as u32).to_le_bytes(),
            ..Packet::default()
        };
        let write = match random.below(11) {
            0..=4 => false,
            5..=8 => true,
            9 => return [base].into(),
            _ => return [atomic(base, random)].into(),
        };
        let ending = match random.below(if write { 10 } else { 1000 }) {
            0 if !write => Ending::Invalidate,
            0..=3 => Ending::Immediate,
            _ => Ending::Plain,
        };
        cut(base, write, ending, mtu, random)
    }
}

/// Returns an atomic on one of few words, nearly always aligned.
fn atomic(base: Packet, random: &mut SplitMix64) -> Packet {
    let operand = |random: &mut SplitMix64| match random.below(3) {
        0 => random.number(),
        _ => random.below(2),
    };
    Packet {
        opcode: [COMPARE_SWAP, FETCH_ADD][random.below(2) as usize],
        address: 0x7_0000 + 8 * random.below(4) + u64::from(random.below(64) == 0),
        length: 0,
        swap_add: operand(random),
        compare: operand(random),
        ..base
    }
}

/// Returns a datagram to a QP with this Q_Key, sometimes with another one, or longer than the MTU.
pub fn datagram(q_key: u32, random: &mut SplitMix64) -> Packet {
    let payload = match random.below(16) {
        0 => 4097 + random.below(4000),
        1 => 4096,
        2..=4 => 0,
        5..=10 => random.below(200),
        _ => random.below(4097),
    };
    Packet {
        opcode: [DATAGRAM, DATAGRAM_IMMEDIATE][random.below(2) as usize],
        psn: random.below(1 << 24) as u32,
        solicited: random.below(2) == 0,
        ack_request: random.below(2) == 0,
        immediate: (random.number() as u32).to_le_bytes(),
        payload: payload as u16,
        q_key: match random.below(16) {
            0 => q_key ^ 1 << random.below(32),
            _ => q_key,
        },
        source_qpn: random.below(1 << 24) as u32,
        is_v6: random.below(2) == 0,
        ..Packet::default()
    }
}

#[derive(Debug, Clone, Copy)]
enum Ending {
    Plain,
    Immediate,
    Invalidate,
}

fn cut(
    base: Packet,
    write: bool,
    ending: Ending,
    mtu: u32,
    random: &mut SplitMix64,
) -> VecDeque<Packet> {
    let packets = base.length.div_ceil(mtu).max(1);
    let first = if write { 6 } else { 0 };
    let packet = |index: u32| {
        let last = index + 1 == packets;
        let opcode = match (index == 0, last, ending) {
            (true, false, _) => first,
            (false, false, _) => first + 1,
            (false, true, Ending::Plain) => first + 2,
            (false, true, Ending::Immediate) => first + 3,
            (false, true, Ending::Invalidate) => 0x16,
            (true, true, Ending::Plain) => first + 4,
            (true, true, Ending::Immediate) => first + 5,
            (true, true, Ending::Invalidate) => 0x17,
        };
        Packet {
            opcode,
            solicited: base.solicited && last,
            ack_request: last || random.below(4) == 0,
            payload: (base.length - index * mtu).min(mtu) as u16,
            ..base
        }
    };
    (0..packets).map(packet).collect()
}
