//! IPv6 around ICMPv6 (RFC 8200). RoCE has its own in `ferroce-wire`.

use std::net::Ipv6Addr;

use zerocopy::byteorder::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::checksum::icmpv6_checksum;

/// The protocol number of ICMPv6.
pub const ICMPV6: u8 = 58;
/// Bytes of type, code and checksum, with which each message starts.
pub const ICMP_HEADER_LENGTH: usize = 4;
const VERSION_6: u32 = 6 << 28;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawIpv6 {
    version_class_flow: U32,
    payload_length: U16,
    next_header: u8,
    hop_limit: u8,
    source: [u8; 16],
    destination: [u8; 16],
}

const _: () = assert!(size_of::<RawIpv6>() == 40);

/// An ICMPv6 message and its IPv6 header.
#[derive(Debug, Clone, Copy)]
pub struct Icmpv6<'a> {
    /// Source address
    pub source: Ipv6Addr,
    /// Destination address
    pub destination: Ipv6Addr,
    /// Hop limit
    pub hop_limit: u8,
    /// From the type on; at least [`ICMP_HEADER_LENGTH`] bytes, with a valid checksum.
    pub message: &'a [u8],
}

impl<'a> Icmpv6<'a> {
    /// Parses a packet. `None` if it is something else, or invalid. Extension headers are not
    /// supported.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (raw, payload) = RawIpv6::ref_from_prefix(bytes).ok()?;
        let is_ours = raw.version_class_flow.get() >> 28 == 6 && raw.next_header == ICMPV6;
        let message = payload.get(..usize::from(raw.payload_length.get()))?;
        let (source, destination) = (raw.source.into(), raw.destination.into());
        let is_sound = is_ours
            && message.len() >= ICMP_HEADER_LENGTH
            && icmpv6_checksum(source, destination, message) == 0;
        is_sound.then_some(Self {
            source,
            destination,
            hop_limit: raw.hop_limit,
            message,
        })
    }
}

/// Builds the IPv6 packet around a message, and fills in its checksum.
pub fn icmpv6(source: Ipv6Addr, destination: Ipv6Addr, hop_limit: u8, message: &[u8]) -> Vec<u8> {
    let header = RawIpv6 {
        version_class_flow: U32::new(VERSION_6),
        payload_length: U16::new(message.len() as u16),
        next_header: ICMPV6,
        hop_limit,
        source: source.octets(),
        destination: destination.octets(),
    };
    let mut message = message.to_vec();
    message[2..4].fill(0);
    let sum = icmpv6_checksum(source, destination, &message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    [header.as_bytes(), &message].concat()
}
