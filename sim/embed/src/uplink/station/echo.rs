//! Answers to ping: ICMP echo (RFC 792) and ICMPv6 echo (RFC 4443, 4.1).

use std::net::Ipv4Addr;

use ferroce_wire::{EtherType, EthernetHeader, Gid};
use zerocopy::byteorder::big_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::checksum::checksum;
use super::ipv6::{ICMP_HEADER_LENGTH, Icmpv6, icmpv6};
use super::{Station, ethernet};

const ICMP: u8 = 1;
const ECHO_REQUEST: u8 = 8;
const ECHO_REPLY: u8 = 0;
const ECHO_REQUEST_V6: u8 = 128;
const ECHO_REPLY_V6: u8 = 129;
const VERSION_4_WITHOUT_OPTIONS: u8 = 0x45;
/// "More fragments" and the offset: both zero in a whole packet.
const FRAGMENT_MASK: u16 = 0x3fff;
const HOP_LIMIT: u8 = 64;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawIpv4 {
    version_length: u8,
    traffic_class: u8,
    total_length: U16,
    identification: U16,
    flags_offset: U16,
    ttl: u8,
    protocol: u8,
    checksum: U16,
    source: [u8; 4],
    destination: [u8; 4],
}

const IPV4_LENGTH: usize = size_of::<RawIpv4>();
const _: () = assert!(IPV4_LENGTH == 20);

/// Returns the answer to an echo request for one of the station's IPv4 addresses.
pub fn answer_ipv4(us: &Station<'_>, header: &EthernetHeader, packet: &[u8]) -> Option<Vec<u8>> {
    let (raw, _) = RawIpv4::ref_from_prefix(packet).ok()?;
    let source = Ipv4Addr::from(raw.source);
    let is_echo = raw.version_length == VERSION_4_WITHOUT_OPTIONS
        && raw.protocol == ICMP
        && raw.flags_offset.get() & FRAGMENT_MASK == 0
        && checksum(&[&packet[..IPV4_LENGTH]]) == 0
        && us.owns(Gid::from_ipv4(raw.destination.into()))
        && super::is_host(source)
        && !header.source.is_multicast();
    let message = packet.get(IPV4_LENGTH..usize::from(raw.total_length.get()))?;
    let is_sound = message.len() >= ICMP_HEADER_LENGTH && checksum(&[message]) == 0;
    if !is_echo || !is_sound || message[..2] != [ECHO_REQUEST, 0] {
        return None;
    }
    let mut message = message.to_vec();
    message[0] = ECHO_REPLY;
    message[2..4].fill(0);
    let sum = checksum(&[&message]);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut answer = RawIpv4 {
        version_length: VERSION_4_WITHOUT_OPTIONS,
        traffic_class: raw.traffic_class,
        total_length: raw.total_length,
        identification: U16::ZERO,
        flags_offset: U16::ZERO,
        ttl: HOP_LIMIT,
        protocol: ICMP,
        checksum: U16::ZERO,
        source: raw.destination,
        destination: raw.source,
    };
    answer.checksum = U16::new(checksum(&[answer.as_bytes()]));
    let body = [answer.as_bytes(), &message];
    Some(ethernet(us.mac, header.source, EtherType::IPV4, &body))
}

/// Returns the answer to an echo request for one of the station's IPv6 addresses.
pub fn answer_ipv6(us: &Station<'_>, header: &EthernetHeader, packet: &[u8]) -> Option<Vec<u8>> {
    let packet = Icmpv6::parse(packet)?;
    let is_echo = packet.message[..2] == [ECHO_REQUEST_V6, 0]
        && us.owns(Gid(packet.destination.octets()))
        && !packet.source.is_multicast()
        && !packet.source.is_unspecified()
        && !header.source.is_multicast();
    if !is_echo {
        return None;
    }
    let mut message = packet.message.to_vec();
    message[0] = ECHO_REPLY_V6;
    let answer = icmpv6(packet.destination, packet.source, HOP_LIMIT, &message);
    Some(ethernet(us.mac, header.source, EtherType::IPV6, &[&answer]))
}
