//! Random packets, as the bundle for the transmit path and as the frame that the model sends.

use ferroce_model::contexts::path::Path;
use ferroce_rtl::structs;
use ferroce_spec::context::AddressEntry;
use ferroce_spec::wqe::{AddressPath, VLAN_NONE};
use ferroce_units::random::SplitMix64;
use ferroce_wire::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Deth, Extension, IcrcMode, Ieth, Immediate, Opcode, Psn,
    QKey, Qpn, RKey, Reth, TransportHeaders, finish,
};

/// Entries of the GID table.
pub const GIDS: usize = 16;

/// Opcodes of RC, and of UD: with a payload of 1 to 4096 bytes, and without.
const WITH_PAYLOAD: [u8; 20] = [
    0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0d, 0x0e, 0x16, 0x17,
    0x64, 0x64, 0x65, 0x65,
];
const WITHOUT: [u8; 15] = [
    0x04, 0x05, 0x0a, 0x0b, 0x0c, 0x0f, 0x10, 0x11, 0x11, 0x12, 0x13, 0x14, 0x17, 0x64, 0x65,
];

/// A packet with the fields of the bundle.
#[derive(Debug, Clone)]
pub struct Packet {
    pub path: AddressPath,
    pub opcode: u8,
    pub solicited: bool,
    pub ack_request: bool,
    pub dest_qpn: u32,
    pub psn: u32,
    pub address: u64,
    pub r_key: u32,
    pub length: u32,
    pub compare: u64,
    pub immediate: [u8; 4],
    pub aeth: u32,
    pub payload: Vec<u8>,
    pub qp: u8,
}

pub fn bytes<const N: usize>(random: &mut SplitMix64) -> [u8; N] {
    core::array::from_fn(|_| random.number() as u8)
}

/// Returns a GID: every second one is IPv4-mapped.
fn gid(is_v4: bool, random: &mut SplitMix64) -> [u8; 16] {
    let mut gid = bytes::<16>(random);
    if is_v4 {
        gid[..10].fill(0);
        gid[10..12].fill(0xff);
        // Sometimes large addresses, so that the checksum's carries are tested.
        if random.below(2) == 0 {
            gid[12..].iter_mut().for_each(|byte| *byte |= 0xfe);
        }
    }
    gid
}

/// Returns a GID table with IPv4 addresses at even indices.
pub fn gid_table(random: &mut SplitMix64) -> [AddressEntry; GIDS] {
    core::array::from_fn(|index| AddressEntry {
        gid: gid(index % 2 == 0, random),
        mac: bytes(random),
        ..AddressEntry::default()
    })
}

/// Returns a number of payload bytes: small ones, whole ones, any.
fn payload_length(random: &mut SplitMix64) -> usize {
    1 + match random.below(4) {
        0 => random.below(4),
        1 => random.below(200),
        2 => [255, 511, 1023, 4095][random.below(4) as usize],
        _ => random.below(4096),
    } as usize
}

impl Packet {
    pub fn random(random: &mut SplitMix64) -> Self {
        let has_payload = random.below(4) != 0;
        let opcodes: &[u8] = if has_payload { &WITH_PAYLOAD } else { &WITHOUT };
        let length = if has_payload {
            payload_length(random)
        } else {
            0
        };
        let index = random.below(GIDS as u64) as u16;
        let mut path = AddressPath {
            dest_gid: gid(index % 2 == 0, random),
            dest_mac: bytes(random),
            vlan: VLAN_NONE,
            source_gid_index: index,
            udp_source_port: random.number() as u16,
            traffic_class: random.number() as u8,
            hop_limit: random.number() as u8,
            service_level: random.below(16) as u8,
            flow_label: random.below(1 << 20) as u32,
            ..AddressPath::default()
        };
        if random.below(3) == 0 {
            path.vlan = random.below(0xffff) as u16;
        }
        Self {
            path,
            opcode: opcodes[random.below(opcodes.len() as u64) as usize],
            solicited: random.below(2) == 0,
            ack_request: random.below(2) == 0,
            dest_qpn: random.below(1 << 24) as u32,
            psn: random.below(1 << 24) as u32,
            // The high bytes of a datagram's source QPN are reserved.
            address: random.number() & !0xff00_0000,
            r_key: random.number() as u32,
            length: random.number() as u32,
            compare: random.number(),
            immediate: bytes(random),
            aeth: random.number() as u32,
            payload: (0..length).map(|_| random.number() as u8).collect(),
            qp: random.number() as u8,
        }
    }

    pub fn is_v4(&self) -> bool {
        self.path.source_gid_index % 2 == 0
    }

    /// Returns the `tx_packet_t`.
    pub fn bundle(&self) -> [u32; 19] {
        let little = |bytes: &[u8]| {
            let bytes = bytes.iter().rev();
            bytes.fold(0, |all, byte| all << 8 | u64::from(*byte))
        };
        let path = &self.path;
        let gid_word = |n: usize| little(&path.dest_gid[4 * n..4 * n + 4]) as u32;
        let path = structs::Path {
            dest_gid: core::array::from_fn(gid_word),
            dest_mac: little(&path.dest_mac),
            vlan: path.vlan,
            source_gid_index: path.source_gid_index as u8,
            udp_source_port: path.udp_source_port,
            traffic_class: path.traffic_class,
            hop_limit: path.hop_limit,
            service_level: path.service_level,
            flow_label: path.flow_label,
        };
        let packet = structs::TxPacket {
            path,
            opcode: self.opcode,
            solicited: self.solicited,
            ack_request: self.ack_request,
            dest_qpn: self.dest_qpn,
            psn: self.psn,
            address: self.address,
            r_key: self.r_key,
            length: self.length,
            compare: self.compare,
            immediate: u32::from_le_bytes(self.immediate),
            aeth: self.aeth,
            payload_bytes: self.payload.len() as u16,
            qp: self.qp,
        };
        packet.into()
    }

    fn aeth(&self) -> Aeth {
        Aeth::parse(&self.aeth.to_be_bytes()).expect("four bytes")
    }

    fn headers(&self) -> TransportHeaders {
        let bth = Bth {
            solicited: self.solicited,
            ack_request: self.ack_request,
            ..Bth::new(
                Opcode(self.opcode),
                Qpn::new(self.dest_qpn),
                Psn::new(self.psn),
            )
        };
        let reth = Reth {
            virtual_address: self.address,
            r_key: RKey(self.r_key),
            dma_length: self.length,
        };
        let immediate = Immediate(self.immediate);
        let source_qp = Qpn::new(self.address as u32);
        let deth = Deth::new(QKey((self.address >> 32) as u32), source_qp);
        let extension = match self.opcode {
            0x64 => Extension::Deth(deth),
            0x65 => Extension::DethImmediate(deth, immediate),
            0x06 | 0x0a | 0x0c => Extension::Reth(reth),
            0x0b => Extension::RethImmediate(reth, immediate),
            0x03 | 0x05 | 0x09 => Extension::Immediate(immediate),
            0x16 | 0x17 => Extension::Invalidate(Ieth {
                r_key: RKey(u32::from_be_bytes(self.immediate)),
            }),
            0x0d | 0x0f..=0x11 => Extension::Aeth(self.aeth()),
            0x12 => Extension::AtomicAck(
                self.aeth(),
                AtomicAckEth {
                    original: self.address,
                },
            ),
            0x13 | 0x14 => Extension::AtomicEth(AtomicEth {
                virtual_address: self.address,
                r_key: RKey(self.r_key),
                swap_or_add: u64::from(self.length) << 32 | u64::from(self.aeth),
                compare: self.compare,
            }),
            _ => Extension::None,
        };
        TransportHeaders::new(bth, extension).expect("the opcode has this extension")
    }

    /// Returns the frame of the model's packetizer.
    pub fn frame(&self, gids: &[AddressEntry; GIDS], identification: u16) -> Vec<u8> {
        let source = &gids[usize::from(self.path.source_gid_index)];
        let path = Path::new(source, &self.path).expect("the GIDs are of the same version");
        let headers = self.headers();
        let mut frame = vec![0; path.template.frame_length(&headers, self.payload.len())];
        let template = &path.template;
        let layout = template.emit(&headers, self.payload.len(), identification, &mut frame);
        frame[layout.payload()].copy_from_slice(&self.payload);
        finish(&mut frame, &layout, IcrcMode::Computed);
        frame
    }
}
