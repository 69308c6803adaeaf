//! Request packets, in the formats of the receive buffer and of the model.

use ferroce_wire::{
    AtomicEth, Bth, Deth, Extension, Feth, FlushRange, Ieth, Immediate, Opcode, PKey, Psn, QKey,
    Qpn, RKey, Reth, TransportHeaders,
};

use crate::bits::pack;

pub const WRITE_FIRST: u8 = 0x06;
pub const READ: u8 = 0x0c;
pub const COMPARE_SWAP: u8 = 0x13;
pub const FETCH_ADD: u8 = 0x14;
/// IBTA annex A19.
pub const FLUSH: u8 = 0x1c;
pub const ATOMIC_WRITE: u8 = 0x1d;
/// A datagram, without and with immediate data.
pub const DATAGRAM: u8 = 0x64;
pub const DATAGRAM_IMMEDIATE: u8 = 0x65;
/// Bytes of the GRH in front of a datagram.
pub const GRH: u16 = 40;

/// A request packet.
#[derive(Debug, Clone, Copy, Default)]
pub struct Packet {
    pub opcode: u8,
    pub psn: u32,
    pub solicited: bool,
    pub ack_request: bool,
    pub address: u64,
    pub r_key: u32,
    pub length: u32,
    pub immediate: [u8; 4],
    pub payload: u16,
    /// Operands of an atomic.
    pub swap_add: u64,
    pub compare: u64,
    /// The DETH of a datagram.
    pub q_key: u32,
    pub source_qpn: u32,
    pub is_v6: bool,
}

impl Packet {
    pub fn is_send(&self) -> bool {
        matches!(self.opcode, 0..=5 | 0x16 | 0x17) || self.is_datagram()
    }

    pub fn is_datagram(&self) -> bool {
        matches!(self.opcode, DATAGRAM | DATAGRAM_IMMEDIATE)
    }

    /// Returns the bytes that it writes: a datagram also its GRH.
    pub fn written(&self) -> u16 {
        self.payload + if self.is_datagram() { GRH } else { 0 }
    }

    /// Number of PSNs that it uses.
    pub fn psns(&self, log_mtu: u32) -> u32 {
        match self.opcode {
            READ if self.length > 0 => ((self.length - 1) >> log_mtu) + 1,
            _ => 1,
        }
    }

    pub fn is_atomic(&self) -> bool {
        matches!(self.opcode, COMPARE_SWAP | FETCH_ADD)
    }

    /// Returns the headers for the model. It executes an ATOMIC WRITE, which the card lacks, if the
    /// queue pair permits WRITEs: it gets a FLUSH instead, which both of them refuse.
    pub fn headers(&self, qpn: u32) -> TransportHeaders {
        let opcode = match self.opcode {
            ATOMIC_WRITE => FLUSH,
            other => other,
        };
        let (virtual_address, r_key) = (self.address, RKey(self.r_key));
        let reth = Reth {
            virtual_address,
            r_key,
            dma_length: self.length,
        };
        let immediate = Immediate(self.immediate);
        let deth = Deth::new(QKey(self.q_key), Qpn::new(self.source_qpn));
        let extension = match opcode {
            DATAGRAM => Extension::Deth(deth),
            DATAGRAM_IMMEDIATE => Extension::DethImmediate(deth, immediate),
            0x03 | 0x05 | 0x09 => Extension::Immediate(immediate),
            0x06 | 0x0a | 0x0c => Extension::Reth(reth),
            0x0b => Extension::RethImmediate(reth, immediate),
            FLUSH => Extension::Flush(Feth::new(&[Feth::GLOBAL], FlushRange::Range), reth),
            COMPARE_SWAP | FETCH_ADD => Extension::AtomicEth(AtomicEth {
                virtual_address,
                r_key,
                swap_or_add: self.swap_add,
                compare: self.compare,
            }),
            0x16 | 0x17 => Extension::Invalidate(Ieth { r_key }),
            _ => Extension::None,
        };
        let bth = Bth {
            opcode: Opcode(opcode),
            solicited: self.solicited,
            migration: false,
            pad_count: self.payload.wrapping_neg() as u8 & 3,
            header_version: 0,
            p_key: PKey::DEFAULT,
            fecn: false,
            becn: false,
            dest_qp: Qpn::new(qpn),
            ack_request: self.ack_request,
            psn: Psn::new(self.psn),
            reserved6: 0,
            reserved7: 0,
        };
        TransportHeaders { bth, extension }
    }

    /// Returns the packet as `rx_packet_t`.
    pub fn pack(&self, number: u16, qpn: u32) -> [u32; 16] {
        let address = match self.is_datagram() {
            true => u64::from(self.q_key) << 32 | u64::from(self.source_qpn),
            false => self.address,
        };
        let (length, aeth) = match self.is_atomic() {
            true => ((self.swap_add >> 32) as u32, self.swap_add as u32),
            false => (self.length, 0),
        };
        pack(&[
            (number.into(), 16),
            (self.opcode.into(), 8),
            (self.solicited.into(), 1),
            (self.ack_request.into(), 1),
            (0xffff, 16),
            (qpn.into(), 24),
            (self.psn.into(), 24),
            (self.is_v6.into(), 1),
            (0, 128),
            (address.into(), 64),
            (self.r_key.into(), 32),
            (length.into(), 32),
            (self.compare.into(), 64),
            (aeth.into(), 32),
            (u32::from_le_bytes(self.immediate).into(), 32),
            (self.written().into(), 13),
        ])
    }
}
