//! The fields of a frame that a switch uses: priority, flow, and ECN field.

use ferroce_units::random::mixed;
use ferroce_wire::internet_checksum;

/// Both MAC addresses.
const ADDRESSES_BYTES: usize = 12;
const VLAN_BYTES: usize = 4;
const ETHER_TYPE_BYTES: usize = 2;
const VLAN: [u8; 2] = [0x81, 0x00];
const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];

/// IPv4 without options, as in RoCEv2.
const IPV4_BYTES: usize = 20;
const IPV4_CHECKSUM: std::ops::Range<usize> = 10..12;
const IPV4_ADDRESSES: std::ops::Range<usize> = 12..20;
const IPV6_BYTES: usize = 40;
const IPV6_ADDRESSES: std::ops::Range<usize> = 8..40;
/// Source and destination port of UDP.
const PORTS_BYTES: usize = 4;

/// The two ECN bits of the traffic class (RFC 3168): zero means not ECN-capable.
const ECN_MASK: u8 = 0b11;
/// Congestion experienced.
const ECN_MARKED: u8 = 0b11;
/// Shift of the priority in the traffic class, for cards and switches that trust the DSCP and map
/// it to priority DSCP / 8.
const PRIORITY_SHIFT: u32 = 5;

/// Location of the IP header in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ip {
    V4(usize),
    V6(usize),
}

impl Ip {
    fn of(frame: &[u8]) -> Option<Self> {
        let ether_type = |at: usize| frame.get(at..at + ETHER_TYPE_BYTES);
        let at = if ether_type(ADDRESSES_BYTES)? == VLAN {
            ADDRESSES_BYTES + VLAN_BYTES
        } else {
            ADDRESSES_BYTES
        };
        let header = at + ETHER_TYPE_BYTES;
        let (ip, length) = match ether_type(at)? {
            kind if kind == IPV4 => (Self::V4(header), IPV4_BYTES),
            kind if kind == IPV6 => (Self::V6(header), IPV6_BYTES),
            _ => return None,
        };
        (frame.len() >= header + length + PORTS_BYTES).then_some(ip)
    }

    fn traffic_class(self, frame: &[u8]) -> u8 {
        match self {
            Self::V4(at) => frame[at + 1],
            Self::V6(at) => frame[at] << 4 | frame[at + 1] >> 4,
        }
    }
}

/// The fields that a switch uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Class {
    /// Priority, 0 to 7.
    pub priority: u8,
    /// True if the packet is ECN-capable.
    pub can_be_marked: bool,
    /// Hash of addresses and ports: the same for all packets of a flow.
    pub flow: u64,
}

impl Class {
    /// Returns the fields of a frame. A frame that is not an IP packet has the lowest priority.
    pub fn of(frame: &[u8]) -> Self {
        let Some(ip) = Ip::of(frame) else {
            return Self {
                priority: 0,
                can_be_marked: false,
                flow: 0,
            };
        };
        let class = ip.traffic_class(frame);
        let (addresses, ports) = match ip {
            Ip::V4(at) => (IPV4_ADDRESSES, at + IPV4_BYTES),
            Ip::V6(at) => (IPV6_ADDRESSES, at + IPV6_BYTES),
        };
        let (Ip::V4(at) | Ip::V6(at)) = ip;
        let addresses = &frame[at + addresses.start..at + addresses.end];
        let ports = &frame[ports..ports + PORTS_BYTES];
        Self {
            priority: class >> PRIORITY_SHIFT,
            can_be_marked: class & ECN_MASK != 0,
            flow: hash(addresses.iter().chain(ports)),
        }
    }
}

/// Returns a hash of bytes.
fn hash<'a>(bytes: impl Iterator<Item = &'a u8>) -> u64 {
    let mut hash = 0;
    let mut word = 0;
    for (index, byte) in (1..).zip(bytes) {
        word = word << 8 | u64::from(*byte);
        if index % 8 == 0 {
            hash = mixed(hash ^ word);
            word = 0;
        }
    }
    mixed(hash ^ word)
}

/// Marks a frame with congestion experienced. The ICRC does not cover the field (IBTA annex A17).
pub fn mark(frame: &mut [u8]) {
    match Ip::of(frame) {
        None => {}
        Some(Ip::V6(at)) => frame[at + 1] |= ECN_MARKED << 4,
        Some(Ip::V4(at)) => {
            let header = &mut frame[at..at + IPV4_BYTES];
            header[1] |= ECN_MARKED;
            header[IPV4_CHECKSUM].fill(0);
            let checksum = internet_checksum(&[header]).to_be_bytes();
            header[IPV4_CHECKSUM].copy_from_slice(&checksum);
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns a frame over IPv4 with this traffic class and UDP source port.
    pub fn frame(traffic_class: u8, source_port: u16, length: usize) -> Vec<u8> {
        let mut frame = vec![0; length];
        frame[12..14].copy_from_slice(&IPV4);
        let ip = &mut frame[14..34];
        ip[0] = 0x45;
        ip[1] = traffic_class;
        ip[12..16].copy_from_slice(&[10, 0, 0, 1]);
        ip[16..20].copy_from_slice(&[10, 0, 0, 2]);
        let checksum = internet_checksum(&[ip]).to_be_bytes();
        frame[24..26].copy_from_slice(&checksum);
        frame[34..36].copy_from_slice(&source_port.to_be_bytes());
        frame
    }

    #[test]
    fn the_dscp_is_the_priority_and_the_ports_are_the_flow() {
        let first = Class::of(&frame(106, 1000, 100));
        assert_eq!((first.priority, first.can_be_marked), (3, true));
        let second = Class::of(&frame(192, 1000, 2000));
        assert_eq!((second.priority, second.can_be_marked), (6, false));
        assert_eq!(first.flow, second.flow);
        assert_ne!(first.flow, Class::of(&frame(106, 1001, 100)).flow);
    }

    #[test]
    fn a_marked_header_is_valid() {
        let mut bytes = frame(2, 7, 100);
        mark(&mut bytes);
        assert_eq!(bytes[15] & ECN_MASK, ECN_MARKED);
        assert_eq!(internet_checksum(&[&bytes[14..34]]), 0);
    }

    #[test]
    fn what_is_not_ip_passes_unmarked() {
        let mut bytes = vec![0xff; 20];
        mark(&mut bytes);
        assert_eq!(bytes, [0xff; 20]);
        assert!(!Class::of(&bytes).can_be_marked);
        for length in 0..46 {
            mark(&mut frame(2, 7, 100)[..length]);
        }
    }
}
