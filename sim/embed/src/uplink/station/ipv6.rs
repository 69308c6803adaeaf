//! ICMPv6 messages in IPv6 packets (RFC 8200, RFC 4443).

use std::net::Ipv6Addr;

use ferroce_wire::{Ipv6Header, internet_checksum};

/// The protocol number of ICMPv6.
const ICMPV6: u8 = 58;
/// Bytes of type, code and checksum, with which each message starts.
pub const ICMP_HEADER_LENGTH: usize = 4;

/// An ICMPv6 message and its IPv6 header.
#[derive(Debug, Clone, Copy)]
pub struct Icmpv6<'a> {
    /// The header
    pub ip: Ipv6Header,
    /// From the type on; at least [`ICMP_HEADER_LENGTH`] bytes, with a valid checksum.
    pub message: &'a [u8],
}

impl<'a> Icmpv6<'a> {
    /// Parses a packet. `None` if it is something else, or invalid. Extension headers are not
    /// supported.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (ip, message) = Ipv6Header::parse_protocol(ICMPV6, bytes)?;
        let is_sound = message.len() >= ICMP_HEADER_LENGTH
            && icmpv6_checksum(ip.source, ip.destination, message) == 0;
        is_sound.then_some(Self { ip, message })
    }
}

/// Builds the IPv6 packet around a message, and fills in its checksum.
pub fn icmpv6(source: Ipv6Addr, destination: Ipv6Addr, hop_limit: u8, message: &[u8]) -> Vec<u8> {
    let header = Ipv6Header {
        traffic_class: 0,
        flow_label: 0,
        hop_limit,
        source,
        destination,
    };
    let mut packet = vec![0; Ipv6Header::LENGTH];
    header.emit_protocol(ICMPV6, message.len(), &mut packet);
    packet.extend_from_slice(message);
    let message = &mut packet[Ipv6Header::LENGTH..];
    message[2..4].fill(0);
    let sum = icmpv6_checksum(source, destination, message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// Returns the checksum of an ICMPv6 message, which covers a pseudo-header (RFC 8200, 8.1).
fn icmpv6_checksum(source: Ipv6Addr, destination: Ipv6Addr, message: &[u8]) -> u16 {
    internet_checksum(&[
        &source.octets(),
        &destination.octets(),
        &(message.len() as u32).to_be_bytes(),
        &u32::from(ICMPV6).to_be_bytes(),
        message,
    ])
}
