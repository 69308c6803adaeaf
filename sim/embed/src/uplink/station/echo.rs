//! Answers to ping: ICMP echo (RFC 792) and ICMPv6 echo (RFC 4443, 4.1).

use ferroce_wire::{EtherType, EthernetHeader, Gid, Ipv4Header, internet_checksum};

use super::ipv6::{ICMP_HEADER_LENGTH, Icmpv6, icmpv6};
use super::{Station, ethernet};

const ICMP: u8 = 1;
const ECHO_REQUEST: u8 = 8;
const ECHO_REPLY: u8 = 0;
const ECHO_REQUEST_V6: u8 = 128;
const ECHO_REPLY_V6: u8 = 129;
const HOP_LIMIT: u8 = 64;

/// Returns the answer to an echo request for one of the station's IPv4 addresses.
pub fn answer_ipv4(us: &Station<'_>, header: &EthernetHeader, packet: &[u8]) -> Option<Vec<u8>> {
    let (ip, message) = Ipv4Header::parse_protocol(ICMP, packet)?;
    let is_echo = us.owns(Gid::from_ipv4(ip.destination))
        && super::is_host(ip.source)
        && !header.source.is_multicast();
    let is_sound = message.len() >= ICMP_HEADER_LENGTH && internet_checksum(&[message]) == 0;
    if !is_echo || !is_sound || message[..2] != [ECHO_REQUEST, 0] {
        return None;
    }
    let mut message = message.to_vec();
    message[0] = ECHO_REPLY;
    message[2..4].fill(0);
    let sum = internet_checksum(&[&message]);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let answer = Ipv4Header {
        traffic_class: ip.traffic_class,
        identification: 0,
        dont_fragment: false,
        ttl: HOP_LIMIT,
        source: ip.destination,
        destination: ip.source,
    };
    let mut bytes = [0; Ipv4Header::LENGTH];
    answer.emit_protocol(ICMP, message.len(), &mut bytes);
    let body = [&bytes[..], &message];
    Some(ethernet(us.mac, header.source, EtherType::IPV4, &body))
}

/// Returns the answer to an echo request for one of the station's IPv6 addresses.
pub fn answer_ipv6(us: &Station<'_>, header: &EthernetHeader, packet: &[u8]) -> Option<Vec<u8>> {
    let packet = Icmpv6::parse(packet)?;
    let is_echo = packet.message[..2] == [ECHO_REQUEST_V6, 0]
        && us.owns(Gid(packet.ip.destination.octets()))
        && !packet.ip.source.is_multicast()
        && !packet.ip.source.is_unspecified()
        && !header.source.is_multicast();
    if !is_echo {
        return None;
    }
    let mut message = packet.message.to_vec();
    message[0] = ECHO_REPLY_V6;
    let answer = icmpv6(packet.ip.destination, packet.ip.source, HOP_LIMIT, &message);
    Some(ethernet(us.mac, header.source, EtherType::IPV6, &[&answer]))
}
