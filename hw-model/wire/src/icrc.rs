//! Invariant CRC: protects the fields that no switch or router may change.
//!
//! It is Ethernet's CRC-32 over eight bytes of ones (the InfiniBand link header, which RoCEv2
//! lacks), the IP, UDP and transport headers, payload and pad. Fields that may change on the way
//! are hashed as ones: traffic class, time to live and header checksum of IPv4; traffic class, flow
//! label and hop limit of IPv6; the UDP checksum; and the byte of the BTH with FECN and BECN (IBTA
//! annex A17). On the wire its least significant byte comes first.

use crc32fast::Hasher;

use crate::bth::Bth;
use crate::ipv4;
use crate::ipv6::{self, Ipv6Header};
use crate::layout::{FrameLayout, ICRC_LENGTH};
use crate::network_path::IpVersion;
use crate::udp::{self, UdpHeader};

/// Bytes of the ICRC on the wire.
pub const LENGTH: usize = ICRC_LENGTH;

/// The CRC of eight bytes of ones.
const CRC_OF_ONES: u32 = 0x2144_df1c;

/// Frames up to this length are hashed in one call from a masked copy, which is cheaper than two
/// updates of the CRC.
const COPY_LIMIT: usize = 192;

/// Maximum length of the headers with masked fields: from IP to BTH.
const MASKED_LENGTH: usize = Ipv6Header::LENGTH + UdpHeader::LENGTH + Bth::LENGTH;

/// The byte of the BTH with FECN, BECN and six reserved bits
const BTH_CONGESTION: usize = 4;

/// Computes the ICRC of a frame with this layout.
///
/// # Panics
///
/// If the frame is shorter than the layout.
#[inline]
pub fn compute(frame: &[u8], layout: &FrameLayout) -> u32 {
    let covered = &frame[layout.ip()..layout.icrc().start];
    let bth = layout.bth() - layout.ip();
    let mut hasher = Hasher::new_with_initial(CRC_OF_ONES);
    if covered.len() <= COPY_LIMIT {
        let mut copy = [0; COPY_LIMIT];
        copy[..covered.len()].copy_from_slice(covered);
        mask(&mut copy, layout.ip_version(), bth);
        hasher.update(&copy[..covered.len()]);
    } else {
        let masked_length = bth + Bth::LENGTH;
        let mut copy = [0; MASKED_LENGTH];
        copy[..masked_length].copy_from_slice(&covered[..masked_length]);
        mask(&mut copy, layout.ip_version(), bth);
        hasher.update(&copy[..masked_length]);
        hasher.update(&covered[masked_length..]);
    }
    hasher.finalize()
}

/// Overwrites the fields that may change on the way with ones; `packet` starts with the IP header.
#[inline]
fn mask(packet: &mut [u8], version: IpVersion, bth: usize) {
    match version {
        IpVersion::V4 => {
            packet[ipv4::field::TRAFFIC_CLASS] = 0xff;
            packet[ipv4::field::TTL] = 0xff;
            packet[ipv4::field::CHECKSUM].fill(0xff);
        }
        IpVersion::V6 => {
            packet[0] |= 0x0f; // the upper half of the traffic class; the version stays
            packet[1..4].fill(0xff);
            packet[ipv6::field::HOP_LIMIT] = 0xff;
        }
    }
    packet[bth - UdpHeader::LENGTH..bth][udp::field::CHECKSUM].fill(0xff);
    packet[bth + BTH_CONGESTION] = 0xff;
}

/// Returns the ICRC in a frame.
#[inline]
pub(crate) fn read(frame: &[u8], layout: &FrameLayout) -> u32 {
    let mut bytes = [0; LENGTH];
    bytes.copy_from_slice(&frame[layout.icrc()]);
    u32::from_le_bytes(bytes)
}

/// Writes an ICRC into a frame.
#[inline]
pub(crate) fn write(frame: &mut [u8], layout: &FrameLayout, icrc: u32) {
    frame[layout.icrc()].copy_from_slice(&icrc.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn initial_value_is_the_crc_of_eight_ones() {
        assert_eq!(crc32fast::hash(&[0xff; 8]), CRC_OF_ONES);
    }
}
