//! The path to a peer: everything below the transport, built once.

use ferroce_spec::context::AddressEntry;
use ferroce_spec::wqe::{AddressPath, VLAN_NONE};
use ferroce_wire::{
    EthernetHeader, Gid, Ip, Mac, NetworkPath, PathTemplate, Qpn, UdpHeader, VlanTag,
};

use crate::ports::port::Route;

/// The path of a connected queue pair or of the last datagram: its headers as a template, and the
/// peer's address.
#[derive(Debug, Clone)]
pub struct Path {
    /// Headers below the transport, to be patched for each packet.
    pub template: PathTemplate,
    mac: Mac,
    /// GID of the peer: the only source from which packets are accepted.
    pub peer: Gid,
    /// GID of this end.
    pub local: Gid,
    /// IPv4 identification of the next packet.
    pub identification: u16,
}

impl Path {
    /// Builds the path from a GID table entry to a destination; `None` if the entry is empty or the
    /// IP versions differ.
    pub fn new(source: &AddressEntry, path: &AddressPath) -> Option<Self> {
        if !Self::connects(source, path) {
            return None;
        }
        let (local, peer) = (Gid(source.gid), Gid(path.dest_gid));
        let udp = UdpHeader {
            source_port: path.udp_source_port,
            checksum: 0,
        };
        let mut ip = Ip::between(local, peer, path.traffic_class, path.hop_limit);
        if let Ip::V6(v6) = &mut ip {
            v6.flow_label = path.flow_label;
        }
        let mac = Mac(path.dest_mac);
        let ethernet = EthernetHeader {
            destination: mac,
            source: Mac(source.mac),
            vlan: (path.vlan != VLAN_NONE).then(|| VlanTag::from_bits(path.vlan)),
        };
        let template = PathTemplate::new(&NetworkPath { ethernet, ip, udp });
        Some(Self {
            template,
            mac,
            peer,
            local,
            identification: 0,
        })
    }

    /// Returns true if there is a path from a GID table entry to a destination.
    pub fn connects(source: &AddressEntry, path: &AddressPath) -> bool {
        let (local, peer) = (Gid(source.gid), Gid(path.dest_gid));
        let same_version = local.to_ipv4().is_some() == peer.to_ipv4().is_some();
        source.gid != [0; 16] && path.dest_gid != [0; 16] && same_version
    }

    /// Returns the route of a packet to `qpn`.
    #[inline]
    pub fn route(&self, qpn: Qpn) -> Route {
        Route {
            mac: self.mac,
            gid: self.peer,
            qpn,
        }
    }
}
