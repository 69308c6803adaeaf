//! Recovery beyond go-back-N on the wire: three reserved bits of the BTH, and the arrival bitmap
//! after the AETH of a NAK.
//!
//! IBTA vol 1, 9.2 reserves seven bits next to AckReq: they are sent as zero and ignored on
//! reception, but the ICRC covers them. Ferroce uses three of them between two Ferroce queue
//! pairs; no other implementation sets or reads them.
//!
//! ```text
//!   bit   31   30   29   28   27 .. 24    23 .. 0
//!        +----+----+----+----+----------+---------+
//!        | A  | S  | O  | M  | reserved |   PSN   |    last word of the BTH
//!        +----+----+----+----+----------+---------+
//! ```
//!
//! - S, selective: the sender of the packet keeps packets that arrive after a gap, and understands
//!   the arrival bitmap.
//! - O, out of order: the sender also places an RDMA WRITE that carries its own address when it
//!   arrives, even before earlier packets. On such a WRITE: this packet may be placed in that way.
//! - M, more: after an RDMA WRITE Only with O, further packets of the same message follow; the MSN
//!   does not count it.
//!
//! A NAK (PSN sequence error) with S carries [`Arrivals`] after its AETH, in the place of the
//! payload: bit 0 (the lowest of the first byte) stands for the PSN after the one of the NAK, bit 1
//! for the next one, and so on; 1 means arrived. It ends with the byte of the newest arrived
//! packet, padded to a multiple of four bytes.

use crate::bth::Bth;
use crate::psn::Psn;

/// Size of the reorder window in packets: the bits of [`Arrivals`] and the missing packet.
///
/// 122 packets of 1,024 bytes fill 100 Gb/s for 10 us, and 488 fill 400 Gb/s.
pub const REORDER_WINDOW_PACKETS: u32 = 512;

const SELECTIVE: u8 = 0x40;
const OUT_OF_ORDER: u8 = 0x20;
const MORE: u8 = 0x10;

/// The three bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RecoveryBits {
    /// S: the sender uses selective repeat.
    pub selective: bool,
    /// O: WRITEs with their own address are placed in any order.
    pub out_of_order: bool,
    /// M: further packets of the message follow.
    pub more: bool,
}

impl RecoveryBits {
    /// Returns the bits of a header.
    #[inline]
    #[must_use]
    pub const fn of(bth: &Bth) -> Self {
        Self {
            selective: bth.reserved7 & SELECTIVE != 0,
            out_of_order: bth.reserved7 & OUT_OF_ORDER != 0,
            more: bth.reserved7 & MORE != 0,
        }
    }

    /// Sets them in a header.
    #[inline]
    pub const fn set_in(self, bth: &mut Bth) {
        bth.reserved7 = if self.selective { SELECTIVE } else { 0 }
            | if self.out_of_order { OUT_OF_ORDER } else { 0 }
            | if self.more { MORE } else { 0 };
    }
}

/// Bitmap of the packets after a missing one that have arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrivals([u8; Self::MAX_LENGTH]);

impl Default for Arrivals {
    fn default() -> Self {
        Self([0; Self::MAX_LENGTH])
    }
}

impl Arrivals {
    /// Maximum bytes of the bitmap.
    pub const MAX_LENGTH: usize = REORDER_WINDOW_PACKETS as usize / 8;

    /// Parses a bitmap; excess bytes are ignored.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Self {
        let mut bits = [0; Self::MAX_LENGTH];
        let length = bytes.len().min(Self::MAX_LENGTH);
        bits[..length].copy_from_slice(&bytes[..length]);
        Self(bits)
    }

    /// Writes the bitmap to `buffer`, limited to the length of `buffer`.
    pub fn emit(&self, buffer: &mut [u8]) {
        let length = buffer.len().min(Self::MAX_LENGTH);
        buffer[..length].copy_from_slice(&self.0[..length]);
        buffer[length..].fill(0);
    }

    /// Records that the packet `behind` PSNs after the missing one has arrived, 1 ..=
    /// [`REORDER_WINDOW_PACKETS`]; other values are ignored.
    pub const fn insert(&mut self, behind: u32) {
        let bit = behind.wrapping_sub(1);
        if bit < REORDER_WINDOW_PACKETS {
            self.0[bit as usize / 8] |= 1 << (bit % 8);
        }
    }

    /// Returns the PSNs that have arrived, in order, given the missing one.
    pub fn psns(&self, missing: Psn) -> impl Iterator<Item = Psn> + '_ {
        let is_set = |bit: &u32| self.0[*bit as usize / 8] & 1 << (bit % 8) != 0;
        (0..REORDER_WINDOW_PACKETS)
            .filter(is_set)
            .map(move |bit| missing.add(bit + 1))
    }

    /// Returns the bytes of a bitmap up to the packet `behind` PSNs after the missing one.
    #[must_use]
    pub const fn length_to(behind: u32) -> u32 {
        let bytes = behind.div_ceil(8).next_multiple_of(4);
        if bytes > Self::MAX_LENGTH as u32 {
            Self::MAX_LENGTH as u32
        } else {
            bytes
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::identifiers::Qpn;
    use crate::opcode::Opcode;

    #[test]
    fn the_bits_lie_beside_ack_request() {
        let mut bth = Bth::new(Opcode(0x11), Qpn::new(7), Psn::new(0x12_3456));
        let bits = RecoveryBits {
            selective: true,
            out_of_order: false,
            more: true,
        };
        bits.set_in(&mut bth);
        let mut bytes = [0; Bth::LENGTH];
        bth.emit(&mut bytes);
        assert_eq!(bytes[8..], [0x50, 0x12, 0x34, 0x56]);
        let parsed = Bth::parse(&bytes).expect("long enough");
        assert_eq!(RecoveryBits::of(&parsed), bits);
        assert!(!parsed.ack_request);
    }

    #[test]
    fn a_bitmap_is_a_multiple_of_four_bytes_and_bounded() {
        assert_eq!([0, 1, 32, 33].map(Arrivals::length_to), [0, 4, 4, 8]);
        assert_eq!(Arrivals::length_to(512), 64);
        assert_eq!(Arrivals::length_to(u32::MAX), 64);
        let mut arrivals = Arrivals::default();
        arrivals.insert(0);
        arrivals.insert(513);
        assert_eq!(arrivals, Arrivals::default());
        let all = Arrivals::parse(&[0xff; 100]);
        assert_eq!(all.psns(Psn::new(0)).count(), 512);
    }

    proptest! {
        #[test]
        fn what_is_emitted_is_parsed(behind: [u16; 8], missing: u32) {
            let missing = Psn::new(missing);
            let mut arrivals = Arrivals::default();
            let mut expected: Vec<u32> = behind.map(|one| u32::from(one) % 512 + 1).to_vec();
            expected.iter().for_each(|one| arrivals.insert(*one));
            expected.sort_unstable();
            expected.dedup();
            let length = Arrivals::length_to(*expected.last().expect("eight")) as usize;
            let mut bytes = vec![0xaa; length];
            arrivals.emit(&mut bytes);
            let parsed: Vec<Psn> = Arrivals::parse(&bytes).psns(missing).collect();
            let expected: Vec<Psn> = expected.iter().map(|one| missing.add(*one)).collect();
            prop_assert_eq!(parsed, expected);
        }
    }
}
