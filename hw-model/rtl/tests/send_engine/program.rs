//! Random programs of send WQEs, and the contents of their messages.

use ferroce_rtl::LINE;
use ferroce_spec::cqe::CqeOpcode;
use ferroce_spec::wqe::{AddressPath, DatagramSegment, SendOpcode};
use ferroce_units::random::{SplitMix64, mixed};
use zerocopy::IntoBytes;

/// Local keys: with and without local write rights, and one that is refused.
pub const KEY_WRITABLE: u32 = 0x101;
pub const KEY_READABLE: u32 = 0x100;
pub const KEY_BAD: u32 = 0xbad0;

/// Bytes of the result of an atomic.
pub const ATOMIC_BYTES: u32 = 8;

/// Returns a byte of local or remote memory.
pub fn content(address: u64) -> u8 {
    (mixed(address >> 3) >> (8 * (address & 7))) as u8
}

#[derive(Debug, Clone)]
pub struct Segment {
    pub address: u64,
    pub length: u32,
    pub key: u32,
}

/// A WQE, and its expected result.
#[derive(Debug, Clone)]
pub struct Wqe {
    pub index: u32,
    pub blocks: u32,
    pub opcode: SendOpcode,
    pub signaled: bool,
    pub solicited: bool,
    pub fence: bool,
    pub segments: Vec<Segment>,
    pub is_inline: bool,
    pub length: u32,
    /// Only for a SEND or WRITE.
    pub payload: Vec<u8>,
    pub immediate: [u8; 4],
    pub remote: (u64, u32),
    /// Of an atomic: the value to swap in or to add, and the one to compare with.
    pub operands: (u64, u64),
    /// The index that software has written.
    pub written_index: u32,
    pub datagram: Option<Datagram>,
}

/// The destination of a datagram.
#[derive(Debug, Clone, Copy)]
pub struct Datagram {
    pub q_key: u32,
    pub dest_qpn: u32,
    pub path: AddressPath,
}

impl Wqe {
    /// Returns true for a READ or an atomic.
    pub fn fetches(&self) -> bool {
        self.opcode == SendOpcode::RDMA_READ || self.is_atomic()
    }

    pub fn is_atomic(&self) -> bool {
        is_atomic(self.opcode)
    }

    pub fn is_nop(&self) -> bool {
        self.opcode == SendOpcode::NOP
    }

    pub fn is_write(&self) -> bool {
        matches!(
            self.opcode,
            SendOpcode::RDMA_WRITE | SendOpcode::RDMA_WRITE_IMMEDIATE
        )
    }

    pub fn has_immediate(&self) -> bool {
        matches!(
            self.opcode,
            SendOpcode::SEND_IMMEDIATE | SendOpcode::RDMA_WRITE_IMMEDIATE
        )
    }

    pub fn takes_receive(&self) -> bool {
        !self.is_nop() && !self.fetches() && self.opcode != SendOpcode::RDMA_WRITE
    }

    /// Returns the CqeOpcode.
    pub fn cqe_opcode(&self) -> u8 {
        match self.opcode {
            SendOpcode::NOP => 8,
            SendOpcode::RDMA_READ => 3,
            SendOpcode::COMPARE_SWAP => CqeOpcode::COMPARE_SWAP.0,
            SendOpcode::FETCH_ADD => CqeOpcode::FETCH_ADD.0,
            _ if self.is_write() => 2,
            _ => 1,
        }
    }

    /// Returns the bytes of the WQE in the ring.
    pub fn bytes(&self) -> Vec<u8> {
        let flags = u32::from(self.signaled) << 8
            | u32::from(self.solicited) << 9
            | u32::from(self.fence) << 10
            | u32::from(self.is_inline) << 11;
        let count = if self.is_inline {
            0
        } else {
            self.segments.len() as u32
        };
        let word = u32::from(self.opcode.0) | flags | self.blocks << 16 | count << 24;
        let mut bytes = word.to_le_bytes().to_vec();
        bytes.extend(self.written_index.to_le_bytes());
        bytes.extend(self.immediate);
        bytes.extend([0; 4]);
        if let Some(datagram) = self.datagram {
            let segment = DatagramSegment {
                q_key: datagram.q_key,
                dest_qpn: datagram.dest_qpn,
                path: datagram.path,
            };
            bytes.extend(segment.as_bytes());
        }
        if self.fetches() || self.is_write() {
            bytes.extend(self.remote.0.to_le_bytes());
            bytes.extend(self.remote.1.to_le_bytes());
            bytes.extend([0; 4]);
        }
        if self.is_atomic() {
            bytes.extend(self.operands.0.to_le_bytes());
            bytes.extend(self.operands.1.to_le_bytes());
        }
        if self.is_inline {
            bytes.extend(self.length.to_le_bytes());
            bytes.extend(&self.payload);
        } else {
            for segment in &self.segments {
                bytes.extend(segment.address.to_le_bytes());
                bytes.extend(segment.length.to_le_bytes());
                bytes.extend(segment.key.to_le_bytes());
            }
        }
        bytes.resize(self.blocks as usize * LINE, 0);
        bytes
    }
}

fn is_atomic(opcode: SendOpcode) -> bool {
    matches!(opcode, SendOpcode::COMPARE_SWAP | SendOpcode::FETCH_ADD)
}

const OPCODES: [SendOpcode; 12] = [
    SendOpcode::NOP,
    SendOpcode::SEND,
    SendOpcode::SEND,
    SendOpcode::SEND_IMMEDIATE,
    SendOpcode::SEND_INVALIDATE,
    SendOpcode::RDMA_WRITE,
    SendOpcode::RDMA_WRITE,
    SendOpcode::RDMA_WRITE_IMMEDIATE,
    SendOpcode::RDMA_READ,
    SendOpcode::RDMA_READ,
    SendOpcode::COMPARE_SWAP,
    SendOpcode::FETCH_ADD,
];

fn random_length(random: &mut SplitMix64, mtu: u32) -> u32 {
    match random.below(12) {
        0 => 0,
        1 => mtu * (1 + random.below(4) as u32),
        2 => (mtu * 40).min(40_000) + random.below(100) as u32,
        3..6 => 1 + random.below(64) as u32,
        _ => random.below(6 * u64::from(mtu)) as u32,
    }
}

/// Splits `length` bytes into up to 16 segments, some of them empty. No two overlap.
fn random_segments(random: &mut SplitMix64, base: u64, length: u32, key: u32) -> Vec<Segment> {
    let count = match random.below(3) {
        0 => 1 + random.below(16) as usize,
        _ => 1,
    };
    let mut cuts: Vec<u32> = (1..count)
        .map(|_| random.below(u64::from(length) + 1) as u32)
        .collect();
    cuts.sort_unstable();
    cuts.push(length);
    let mut begin = 0;
    let segment = |(i, end): (usize, &u32)| {
        let address = base + ((i as u64) << 20) + random.below(0x1fff);
        let length = end - std::mem::replace(&mut begin, *end);
        Segment {
            address,
            length,
            key,
        }
    };
    cuts.iter().enumerate().map(segment).collect()
}

/// Returns WQE `number` of QP `qp`; its first block has `index`.
pub fn random_wqe(random: &mut SplitMix64, (qp, number): (u64, u64), index: u32, mtu: u32) -> Wqe {
    let opcode = OPCODES[random.below(OPCODES.len() as u64) as usize];
    let fetches = opcode == SendOpcode::RDMA_READ || is_atomic(opcode);
    let is_nop = opcode == SendOpcode::NOP;
    let is_inline = !fetches && !is_nop && random.below(4) == 0;
    let length = match (is_nop, is_inline) {
        (true, _) => 0,
        _ if is_atomic(opcode) => ATOMIC_BYTES,
        (_, true) => random.below(513) as u32,
        _ => random_length(random, mtu),
    };
    let base = 1 << 40 | qp << 36 | number << 25;
    let key = if fetches { KEY_WRITABLE } else { KEY_READABLE };
    let segments = if is_inline || is_nop || length == 0 && random.below(2) == 0 {
        Vec::new()
    } else {
        random_segments(random, base, length, key)
    };
    let payload = if is_inline {
        (0..length).map(|_| random.number() as u8).collect()
    } else {
        segments
            .iter()
            .flat_map(|s| (0..u64::from(s.length)).map(|i| content(s.address + i)))
            .collect()
    };
    let mut wqe = Wqe {
        index,
        blocks: 0,
        opcode,
        signaled: random.below(2) == 0,
        solicited: random.below(2) == 0,
        fence: random.below(8) == 0,
        segments,
        is_inline,
        length,
        payload,
        immediate: (random.number() as u32).to_le_bytes(),
        remote: (random.number() >> 11 << 3, random.number() as u32),
        operands: (random.number(), random.number()),
        written_index: index,
        datagram: None,
    };
    let least = wqe_bytes(&wqe).div_ceil(LINE) as u32;
    wqe.blocks = (least + u32::from(random.below(4) == 0)).min(10);
    wqe
}

/// Returns a WQE of a datagram of at most 4096 bytes, or a NOP.
pub fn random_datagram(random: &mut SplitMix64, place: (u64, u64), index: u32) -> Wqe {
    let mut wqe = loop {
        let wqe = random_wqe(random, place, index, 700);
        let is_send = [SendOpcode::SEND, SendOpcode::SEND_IMMEDIATE].contains(&wqe.opcode);
        if wqe.length <= 4096 && (is_send || wqe.is_nop()) {
            break wqe;
        }
    };
    wqe.datagram = (!wqe.is_nop()).then(|| Datagram {
        q_key: random.number() as u32,
        dest_qpn: random.below(1 << 24) as u32,
        path: AddressPath {
            dest_gid: core::array::from_fn(|_| 1 + random.below(255) as u8),
            dest_mac: core::array::from_fn(|_| random.number() as u8),
            vlan: random.number() as u16,
            source_gid_index: random.below(16) as u16,
            udp_source_port: random.number() as u16,
            traffic_class: random.number() as u8,
            hop_limit: random.number() as u8,
            service_level: random.below(16) as u8,
            flow_label: random.below(1 << 20) as u32,
            ..AddressPath::default()
        },
    });
    wqe.blocks = wqe_bytes(&wqe).div_ceil(LINE) as u32;
    wqe
}

fn wqe_bytes(wqe: &Wqe) -> usize {
    let head = if wqe.datagram.is_some() {
        16 + DatagramSegment::SIZE
    } else if wqe.is_atomic() {
        48
    } else if wqe.fetches() || wqe.is_write() {
        32
    } else {
        16
    };
    head + if wqe.is_inline {
        4 + wqe.payload.len()
    } else {
        16 * wqe.segments.len()
    }
}
