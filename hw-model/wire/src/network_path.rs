//! The layers below the transport: Ethernet, IP and UDP of a connection.

use crate::address::{Gid, Mac};
use crate::error::{Error, NotRoce};
use crate::ethernet::{EtherType, EthernetHeader};
use crate::ipv4::Ipv4Header;
use crate::ipv6::Ipv6Header;
use crate::udp::UdpHeader;

/// The IP header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ip {
    /// IPv4
    V4(Ipv4Header),
    /// IPv6
    V6(Ipv6Header),
}

/// The version of IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IpVersion {
    /// IPv4
    V4,
    /// IPv6
    V6,
}

impl Ip {
    /// Returns the header between two GIDs: IPv4 if both are IPv4-mapped, IPv6 otherwise.
    pub fn between(source: Gid, destination: Gid, traffic_class: u8, hop_limit: u8) -> Self {
        match (source.to_ipv4(), destination.to_ipv4()) {
            (Some(source), Some(destination)) => Self::V4(Ipv4Header {
                traffic_class,
                identification: 0,
                dont_fragment: true,
                ttl: hop_limit,
                source,
                destination,
            }),
            _ => Self::V6(Ipv6Header {
                traffic_class,
                flow_label: 0,
                hop_limit,
                source: source.to_ipv6(),
                destination: destination.to_ipv6(),
            }),
        }
    }

    /// Returns the version.
    #[inline]
    pub const fn version(&self) -> IpVersion {
        match self {
            Self::V4(_) => IpVersion::V4,
            Self::V6(_) => IpVersion::V6,
        }
    }

    /// Returns the bytes of the header on the wire.
    #[inline]
    pub const fn length(&self) -> usize {
        match self {
            Self::V4(_) => Ipv4Header::LENGTH,
            Self::V6(_) => Ipv6Header::LENGTH,
        }
    }

    /// Returns the EtherType for the frame.
    #[inline]
    pub const fn ether_type(&self) -> EtherType {
        match self {
            Self::V4(_) => EtherType::IPV4,
            Self::V6(_) => EtherType::IPV6,
        }
    }

    /// Returns the source address as a GID.
    pub fn source_gid(&self) -> Gid {
        match self {
            Self::V4(v4) => Gid::from_ipv4(v4.source),
            Self::V6(v6) => Gid(v6.source.octets()),
        }
    }

    /// Returns the destination address as a GID.
    pub fn destination_gid(&self) -> Gid {
        match self {
            Self::V4(v4) => Gid::from_ipv4(v4.destination),
            Self::V6(v6) => Gid(v6.destination.octets()),
        }
    }

    /// Returns DSCP and ECN.
    #[inline]
    pub const fn traffic_class(&self) -> u8 {
        match self {
            Self::V4(v4) => v4.traffic_class,
            Self::V6(v6) => v6.traffic_class,
        }
    }

    /// Returns the time to live or hop limit.
    #[inline]
    pub const fn hop_limit(&self) -> u8 {
        match self {
            Self::V4(v4) => v4.ttl,
            Self::V6(v6) => v6.hop_limit,
        }
    }

    /// Parses the header at the start of `bytes`; also returns the length of its payload in bytes.
    #[inline]
    pub(crate) fn parse(ether_type: EtherType, bytes: &[u8]) -> Result<(Self, usize), Error> {
        match ether_type {
            EtherType::IPV4 => Ipv4Header::parse(bytes).map(|(v4, length)| (Self::V4(v4), length)),
            EtherType::IPV6 => Ipv6Header::parse(bytes).map(|(v6, length)| (Self::V6(v6), length)),
            EtherType(other) => Err(Error::NotRoce(NotRoce::EtherType(other))),
        }
    }
}

/// The addresses of a station.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Station {
    /// Ethernet
    pub mac: Mac,
    /// IP
    pub gid: Gid,
}

/// The headers below the transport, which are the same for all packets of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetworkPath {
    /// Ethernet
    pub ethernet: EthernetHeader,
    /// IP
    pub ip: Ip,
    /// UDP
    pub udp: UdpHeader,
}

impl NetworkPath {
    /// Returns an untagged path with hop limit 64 and traffic class 0.
    pub fn new(source: Station, destination: Station, udp: UdpHeader) -> Self {
        const HOP_LIMIT: u8 = 64;
        let ethernet = EthernetHeader {
            destination: destination.mac,
            source: source.mac,
            vlan: None,
        };
        Self {
            ethernet,
            ip: Ip::between(source.gid, destination.gid, 0, HOP_LIMIT),
            udp,
        }
    }

    /// Returns the bytes of the three headers on the wire.
    #[inline]
    pub const fn length(&self) -> usize {
        self.ethernet.length() + self.ip.length() + UdpHeader::LENGTH
    }
}
