//! Base transport header (IBTA vol 1, 9.2): in every packet.

use zerocopy::byteorder::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::codec;
use crate::error::Error;
use crate::identifiers::{PKey, Qpn};
use crate::opcode::Opcode;
use crate::psn::Psn;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawBth {
    opcode: u8,
    /// SE (1 bit), M (1), pad count (2), transport header version (4)
    flags: u8,
    p_key: U16,
    /// FECN (1), BECN (1), reserved (6), destination QP (24)
    congestion_dest_qp: U32,
    /// AckReq (1), reserved (7), PSN (24)
    ack_psn: U32,
}

const _: () = assert!(size_of::<RawBth>() == Bth::LENGTH);

const SOLICITED: u8 = 0x80;
const MIGRATION: u8 = 0x40;
const FECN: u32 = 0x8000_0000;
const BECN: u32 = 0x4000_0000;
const ACK_REQUEST: u32 = 0x8000_0000;

/// Returns the number of pad bytes that align a payload of `length` bytes to a multiple of four.
#[inline]
pub const fn pad_count(length: usize) -> u8 {
    (length.wrapping_neg() & 3) as u8
}

/// The base transport header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bth {
    /// Opcode
    pub opcode: Opcode,
    /// SE: the responder shall raise a completion event for this message
    pub solicited: bool,
    /// M: the connection is in the migrated state
    pub migration: bool,
    /// Bytes of padding after the payload, 0 ..= 3
    pub pad_count: u8,
    /// TVer: 4 bits, currently 0
    pub header_version: u8,
    /// Partition
    pub p_key: PKey,
    /// Forward congestion notification
    pub fecn: bool,
    /// Backward congestion notification
    pub becn: bool,
    /// Destination queue pair
    pub dest_qp: Qpn,
    /// A: the requester requests an acknowledge
    pub ack_request: bool,
    /// Packet sequence number
    pub psn: Psn,
    /// Six reserved bits next to FECN and BECN; sent as zero, kept when received
    pub reserved6: u8,
    /// Seven reserved bits next to AckReq; sent as zero, kept when received
    pub reserved7: u8,
}

impl Bth {
    /// Bytes on the wire.
    pub const LENGTH: usize = 12;

    /// Returns a header in the default partition with all flags clear.
    #[inline]
    pub const fn new(opcode: Opcode, dest_qp: Qpn, psn: Psn) -> Self {
        Self {
            opcode,
            solicited: false,
            migration: false,
            pad_count: 0,
            header_version: 0,
            p_key: PKey::DEFAULT,
            fecn: false,
            becn: false,
            dest_qp,
            ack_request: false,
            psn,
            reserved6: 0,
            reserved7: 0,
        }
    }

    /// Reads the header at the start of `bytes`. Every bit pattern is accepted.
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`]
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let raw: &RawBth = codec::view(bytes, "BTH")?;
        let congestion_dest_qp = raw.congestion_dest_qp.get();
        let ack_psn = raw.ack_psn.get();
        Ok(Self {
            opcode: Opcode(raw.opcode),
            solicited: raw.flags & SOLICITED != 0,
            migration: raw.flags & MIGRATION != 0,
            pad_count: raw.flags >> 4 & 0x3,
            header_version: raw.flags & 0xf,
            p_key: PKey(raw.p_key.get()),
            fecn: congestion_dest_qp & FECN != 0,
            becn: congestion_dest_qp & BECN != 0,
            dest_qp: Qpn::new(congestion_dest_qp),
            ack_request: ack_psn & ACK_REQUEST != 0,
            psn: Psn::new(ack_psn),
            reserved6: (congestion_dest_qp >> 24) as u8 & 0x3f,
            reserved7: (ack_psn >> 24) as u8 & 0x7f,
        })
    }

    /// Writes the header to the start of `buffer`. Excess bits of a field are cut off.
    ///
    /// # Panics
    ///
    /// If the buffer is shorter than [`Bth::LENGTH`].
    #[inline]
    pub fn emit(&self, buffer: &mut [u8]) {
        let flags = flag(self.solicited, u32::from(SOLICITED)) as u8
            | flag(self.migration, u32::from(MIGRATION)) as u8
            | (self.pad_count & 0x3) << 4
            | self.header_version & 0xf;
        let congestion_dest_qp = flag(self.fecn, FECN)
            | flag(self.becn, BECN)
            | u32::from(self.reserved6 & 0x3f) << 24
            | self.dest_qp.value();
        let ack_psn = flag(self.ack_request, ACK_REQUEST)
            | u32::from(self.reserved7 & 0x7f) << 24
            | self.psn.value();
        let raw = RawBth {
            opcode: self.opcode.0,
            flags,
            p_key: U16::new(self.p_key.0),
            congestion_dest_qp: U32::new(congestion_dest_qp),
            ack_psn: U32::new(ack_psn),
        };
        codec::write(&raw, buffer);
    }
}

#[inline]
const fn flag(set: bool, bit: u32) -> u32 {
    if set { bit } else { 0 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SAMPLE: [u8; 12] = [
        0x04, 0xb0, 0xff, 0xff, 0x40, 0x00, 0x00, 0x11, 0x80, 0xff, 0xff, 0xfa,
    ];

    fn sample() -> Bth {
        Bth {
            solicited: true,
            pad_count: 3,
            becn: true,
            ack_request: true,
            ..Bth::new(Opcode(0x04), Qpn::new(0x11), Psn::new(0xff_fffa))
        }
    }

    #[test]
    fn deconstructs() {
        assert_eq!(Bth::parse(&SAMPLE), Ok(sample()));
    }

    #[test]
    fn constructs() {
        let mut buffer = [0xaa; 12];
        sample().emit(&mut buffer);
        assert_eq!(buffer, SAMPLE);
    }

    #[test]
    fn refuses_a_short_buffer() {
        let error = Error::Truncated {
            header: "BTH",
            needed: 12,
            available: 11,
        };
        assert_eq!(Bth::parse(&SAMPLE[..11]), Err(error));
    }

    #[test]
    fn pad_completes_four_bytes() {
        assert_eq!(
            [0, 1, 2, 3, 4, 5, 4096].map(pad_count),
            [0, 3, 2, 1, 0, 3, 0]
        );
    }

    proptest! {
        #[test]
        fn keeps_every_bit(bytes: [u8; 12]) {
            let mut buffer = [0; 12];
            Bth::parse(&bytes).expect("long enough").emit(&mut buffer);
            prop_assert_eq!(buffer, bytes);
        }
    }
}
