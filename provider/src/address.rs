//! Converts `ibv_ah_attr` to the path for the NIC's headers.

use ferroce_driver::AddressVector;
use ferroce_platform::host::GidEntry;

use crate::abi::{ibv_ah_attr, ibv_gid, ibv_global_route};
use crate::errno::{Errno, ONE_PORT, at_most};

/// Flow labels have 20 bits.
const FLOW_LABEL_MASK: u32 = 0xf_ffff;
/// Smallest UDP source port of RoCEv2: the upper two bits are set, as for all ephemeral ports.
const UDP_SOURCE_PORT_MIN: u16 = 0xc000;
/// Beginning of IPv4-mapped addresses (RFC 4291, 2.5.5.2).
const MAPPED_PREFIX: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
/// Time to live if the program leaves it zero, which no router would forward.
const DEFAULT_HOP_LIMIT: u8 = 64;

/// Information about the host for parsing an address.
pub trait Neighbours {
    /// Returns the number of entries of the GID table.
    fn gid_count(&self) -> usize;
    /// Returns true if the entry at an index of the GID table is valid.
    fn has_gid(&self, index: usize) -> bool;
    /// Returns the MAC address of the next hop to a GID; `None` when there is no answer for it.
    fn resolve_mac(&self, gid: [u8; 16]) -> Option<[u8; 6]>;
}

/// Parses an address. RoCE has no local identifiers, so a global route is required (IBTA annex
/// A17).
///
/// `flow_seed` spreads the flows of address vectors without a flow label over UDP source ports.
pub fn parse(
    attr: &ibv_ah_attr,
    flow_seed: u32,
    host: &dyn Neighbours,
) -> Result<AddressVector, Errno> {
    let route = &attr.grh;
    if attr.is_global == 0 {
        let right = "1, RoCE needs a GRH (ibverbs programs: -g or --gid-idx)";
        return Err(Errno::wrong("ah_attr.is_global", attr.is_global, right));
    }
    if attr.port_num != 1 {
        return Err(Errno::wrong("ah_attr.port_num", attr.port_num, ONE_PORT));
    }
    let last = (host.gid_count() as u64).saturating_sub(1);
    at_most("ah_attr.grh.sgid_index", route.sgid_index, last)?;
    if !host.has_gid(route.sgid_index.into()) {
        let reason = "the entry of the GID table at ah_attr.grh.sgid_index is empty";
        return Err(Errno::INVALID.because(reason));
    }
    if route.dgid.raw == [0; 16] {
        return Err(Errno::INVALID.because("ah_attr.grh.dgid is zero"));
    }
    let dest_mac = multicast_mac(&route.dgid.raw)
        .or_else(|| host.resolve_mac(route.dgid.raw))
        .ok_or_else(|| Errno::unreachable(route.dgid.raw))?;
    let flow_label = route.flow_label & FLOW_LABEL_MASK;
    Ok(AddressVector {
        dest_gid: route.dgid.raw,
        dest_mac,
        source_gid_index: u16::from(route.sgid_index),
        traffic_class: route.traffic_class,
        hop_limit: if route.hop_limit == 0 {
            DEFAULT_HOP_LIMIT
        } else {
            route.hop_limit
        },
        flow_label,
        udp_source_port: udp_source_port(if flow_label == 0 {
            flow_seed
        } else {
            flow_label
        }),
        service_level: attr.sl & 0xf,
        vlan: None,
        static_rate: attr.static_rate,
    })
}

/// Converts a path back, for `ibv_query_qp`.
pub fn describe(path: &AddressVector, port: u8) -> ibv_ah_attr {
    let mut attr = ibv_ah_attr {
        grh: ibv_global_route {
            dgid: ibv_gid { raw: path.dest_gid },
            flow_label: path.flow_label,
            sgid_index: path.source_gid_index.to_le_bytes()[0],
            hop_limit: path.hop_limit,
            traffic_class: path.traffic_class,
        },
        dlid: 0,
        sl: path.service_level,
        src_path_bits: 0,
        static_rate: path.static_rate,
        is_global: 0,
        port_num: port,
    };
    attr.is_global = u8::from(path.dest_gid != [0; 16]);
    attr
}

/// Addresses of a received datagram.
pub struct Route {
    pub source: [u8; 16],
    pub destination: [u8; 16],
    pub traffic_class: u8,
    pub flow_label: u32,
}

/// Returns the addresses in the forty bytes in front of a datagram: an IPv6 header, or twenty
/// unused bytes and an IPv4 header (IBTA annex A17.4.5.1).
pub fn received(header: &[u8; 40]) -> Route {
    if header[20] == 0x45 && header[0] >> 4 != 6 {
        return Route {
            source: mapped(&header[32..36]),
            destination: mapped(&header[36..40]),
            traffic_class: header[21],
            flow_label: 0,
        };
    }
    let word = u32::from_be_bytes([header[0], header[1], header[2], header[3]]);
    let class = word.to_be_bytes();
    Route {
        source: gid(&header[8..24]),
        destination: gid(&header[24..40]),
        traffic_class: class[0] << 4 | class[1] >> 4,
        flow_label: word & FLOW_LABEL_MASK,
    }
}

/// Returns the path back to the sender of a datagram, from the forty bytes in front of it
/// (`ibv_init_ah_from_wc`).
pub fn reply(header: &[u8; 40], gids: &[GidEntry]) -> Result<ibv_ah_attr, Errno> {
    let route = received(header);
    let index = gids
        .iter()
        .position(|entry| entry.gid == route.destination)
        .or_else(|| answering_gid(&route.destination, gids))
        .ok_or(Errno::INVALID.because("the datagram was not for a GID of this host"))?;
    Ok(ibv_ah_attr {
        grh: ibv_global_route {
            dgid: ibv_gid { raw: route.source },
            flow_label: route.flow_label,
            sgid_index: u8::try_from(index).map_err(|_| Errno::INVALID)?,
            hop_limit: u8::MAX,
            traffic_class: route.traffic_class,
        },
        dlid: 0,
        // In a completion, `sl` encodes the kind of header; the frame had no service level.
        sl: 0,
        src_path_bits: 0,
        static_rate: 0,
        is_global: 1,
        port_num: 1,
    })
}

/// Returns the index of the source GID for an answer to a multicast message: one of the group's
/// address family.
fn answering_gid(group: &[u8; 16], gids: &[GidEntry]) -> Option<usize> {
    if !is_multicast(group) {
        return None;
    }
    let is_mapped = |gid: &[u8; 16]| gid.starts_with(&MAPPED_PREFIX);
    gids.iter()
        .position(|entry| is_mapped(&entry.gid) == is_mapped(group))
}

/// Returns true if a GID is a multicast group: an IPv6 multicast address, or an IPv4-mapped one.
pub fn is_multicast(gid: &[u8; 16]) -> bool {
    gid[0] == 0xff || gid.starts_with(&MAPPED_PREFIX) && gid[12] & 0xf0 == 0xe0
}

/// Returns the Ethernet address of a multicast group: RFC 2464 for IPv6, RFC 1112 for IPv4.
fn multicast_mac(gid: &[u8; 16]) -> Option<[u8; 6]> {
    match gid[0] {
        _ if !is_multicast(gid) => None,
        0xff => Some([0x33, 0x33, gid[12], gid[13], gid[14], gid[15]]),
        _ => Some([0x01, 0x00, 0x5e, gid[13] & 0x7f, gid[14], gid[15]]),
    }
}

/// Returns the GID in sixteen bytes of a header.
fn gid(bytes: &[u8]) -> [u8; 16] {
    let mut gid = [0; 16];
    gid.copy_from_slice(bytes);
    gid
}

/// Returns the GID of an IPv4 address, mapped to IPv6.
fn mapped(bytes: &[u8]) -> [u8; 16] {
    let mut gid = [0; 16];
    gid[..12].copy_from_slice(&MAPPED_PREFIX);
    gid[12..].copy_from_slice(bytes);
    gid
}

/// Returns the UDP source port of a flow label, folded like `ibv_flow_label_to_udp_sport` of
/// verbs.h.
pub fn udp_source_port(flow_label: u32) -> u16 {
    let folded = (flow_label & 0x3fff) ^ ((flow_label & FLOW_LABEL_MASK) >> 14);
    (folded as u16 & !UDP_SOURCE_PORT_MIN) | UDP_SOURCE_PORT_MIN
}

/// Returns the flow label of a connection without one: the product of its QPNs, folded to 20 bits
/// like Linux.
pub fn flow_seed(qpn: u32, dest_qpn: u32) -> u32 {
    let mut product = u64::from(qpn) * u64::from(dest_qpn);
    product ^= product >> 20;
    product ^= product >> 40;
    (product as u32) & FLOW_LABEL_MASK
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_back_is_read_from_both_headers() {
        let ours = mapped(&[10, 0, 0, 1]);
        let gids = [GidEntry {
            gid: ours,
            mac: [2; 6],
            interface: "lo".into(),
        }];
        let mut header = [0; 40];
        header[20] = 0x45;
        header[21] = 0x60;
        header[32..36].copy_from_slice(&[10, 0, 0, 2]);
        header[36..40].copy_from_slice(&[10, 0, 0, 1]);
        let attr = reply(&header, &gids).expect("an IPv4 header");
        assert_eq!(attr.grh.dgid.raw, mapped(&[10, 0, 0, 2]));
        assert_eq!(
            (attr.grh.traffic_class, attr.grh.sgid_index, attr.sl),
            (0x60, 0, 0)
        );
        let mut header = [0; 40];
        header[..4].copy_from_slice(&0x6ab1_2345_u32.to_be_bytes());
        header[8] = 0xfe;
        header[24..40].copy_from_slice(&ours);
        let attr = reply(&header, &gids).expect("an IPv6 header");
        assert_eq!(
            (attr.grh.traffic_class, attr.grh.flow_label),
            (0xab, 0x1_2345)
        );
        header[39] = 9;
        assert!(reply(&header, &gids).is_err(), "not our address");
    }

    #[test]
    fn groups_have_ethernet_addresses_and_are_answered_from_their_family() {
        let all_hosts = mapped(&[239, 129, 2, 3]);
        assert_eq!(multicast_mac(&all_hosts), Some([1, 0, 0x5e, 1, 2, 3]));
        let mut group = [0; 16];
        (group[0], group[1], group[15]) = (0xff, 0x0e, 7);
        assert_eq!(multicast_mac(&group), Some([0x33, 0x33, 0, 0, 0, 7]));
        assert_eq!(multicast_mac(&mapped(&[10, 0, 0, 1])), None);
        let entry = |gid| GidEntry {
            gid,
            mac: [2; 6],
            interface: "lo".into(),
        };
        let mut link_local = [0; 16];
        link_local[0] = 0xfe;
        let gids = [entry(link_local), entry(mapped(&[10, 0, 0, 1]))];
        assert_eq!(answering_gid(&all_hosts, &gids), Some(1));
        assert_eq!(answering_gid(&group, &gids), Some(0));
        assert_eq!(answering_gid(&mapped(&[10, 0, 0, 9]), &gids), None);
    }

    #[test]
    fn source_ports_are_ephemeral_and_follow_the_flow_label() {
        assert_eq!(udp_source_port(0), 0xc000);
        assert_eq!(udp_source_port(0x0_1234), 0xd234);
        assert_eq!(udp_source_port(0xf_ffff), 0xc000 | (0x3fff ^ 0x3f));
        assert!(flow_seed(0xff_ffff, 0xff_fffe) <= FLOW_LABEL_MASK);
    }
}
