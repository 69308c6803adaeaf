//! A whole RoCEv2 frame: parse, emit, and where its parts lie.

use core::ops::Range;

use crate::address::{Gid, Mac};
use crate::bth::{Bth, pad_count};
use crate::error::{Error, NotRoce};
use crate::ethernet::{EtherType, EthernetHeader};
use crate::headers::TransportHeaders;
use crate::icrc;
use crate::ipv4::Ipv4Header;
use crate::ipv6::Ipv6Header;
use crate::path::PathTemplate;
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
    /// The header between two GIDs: IPv4 if both are IPv4-mapped, IPv6 otherwise.
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

    /// Version
    #[inline]
    pub const fn version(&self) -> IpVersion {
        match self {
            Self::V4(_) => IpVersion::V4,
            Self::V6(_) => IpVersion::V6,
        }
    }

    /// Bytes of the header on the wire.
    #[inline]
    pub const fn length(&self) -> usize {
        match self {
            Self::V4(_) => Ipv4Header::LENGTH,
            Self::V6(_) => Ipv6Header::LENGTH,
        }
    }

    /// The EtherType of the frame around it.
    #[inline]
    pub const fn ether_type(&self) -> EtherType {
        match self {
            Self::V4(_) => EtherType::IPV4,
            Self::V6(_) => EtherType::IPV6,
        }
    }

    /// Source address as a GID.
    pub fn source_gid(&self) -> Gid {
        match self {
            Self::V4(v4) => Gid::from_ipv4(v4.source),
            Self::V6(v6) => Gid(v6.source.octets()),
        }
    }

    /// Destination address as a GID.
    pub fn destination_gid(&self) -> Gid {
        match self {
            Self::V4(v4) => Gid::from_ipv4(v4.destination),
            Self::V6(v6) => Gid(v6.destination.octets()),
        }
    }

    /// DSCP and ECN
    #[inline]
    pub const fn traffic_class(&self) -> u8 {
        match self {
            Self::V4(v4) => v4.traffic_class,
            Self::V6(v6) => v6.traffic_class,
        }
    }

    /// Time to live or hop limit
    #[inline]
    pub const fn hop_limit(&self) -> u8 {
        match self {
            Self::V4(v4) => v4.ttl,
            Self::V6(v6) => v6.hop_limit,
        }
    }

    /// Reads the header at the start of `bytes`; also gives the length of its payload in bytes.
    #[inline]
    fn parse(ether_type: EtherType, bytes: &[u8]) -> Result<(Self, usize), Error> {
        match ether_type {
            EtherType::IPV4 => Ipv4Header::parse(bytes).map(|(v4, length)| (Self::V4(v4), length)),
            EtherType::IPV6 => Ipv6Header::parse(bytes).map(|(v6, length)| (Self::V6(v6), length)),
            EtherType(other) => Err(Error::NotRoce(NotRoce::EtherType(other))),
        }
    }
}

/// Everything below the transport: the headers that one connection puts on all of its packets.
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
    /// An untagged path with hop limit 64 and traffic class 0.
    pub fn new(source: (Mac, Gid), destination: (Mac, Gid), udp: UdpHeader) -> Self {
        const HOP_LIMIT: u8 = 64;
        let ethernet = EthernetHeader {
            destination: destination.0,
            source: source.0,
            vlan: None,
        };
        Self {
            ethernet,
            ip: Ip::between(source.1, destination.1, 0, HOP_LIMIT),
            udp,
        }
    }

    /// Bytes of the three headers on the wire.
    #[inline]
    pub const fn length(&self) -> usize {
        self.ethernet.length() + self.ip.length() + UdpHeader::LENGTH
    }
}

/// Where the parts of a frame lie, as byte offsets from its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameLayout {
    version: IpVersion,
    ip: usize,
    payload: usize,
    payload_length: usize,
}

impl FrameLayout {
    #[inline]
    pub(crate) const fn new(
        version: IpVersion,
        ip: usize,
        transport_length: usize,
        payload_length: usize,
    ) -> Self {
        let ip_length = match version {
            IpVersion::V4 => Ipv4Header::LENGTH,
            IpVersion::V6 => Ipv6Header::LENGTH,
        };
        let payload = ip + ip_length + UdpHeader::LENGTH + transport_length;
        Self {
            version,
            ip,
            payload,
            payload_length,
        }
    }

    /// Version of IP
    #[inline]
    pub const fn ip_version(&self) -> IpVersion {
        self.version
    }

    /// Start of the IP header
    #[inline]
    pub const fn ip(&self) -> usize {
        self.ip
    }

    /// Start of the BTH
    #[inline]
    pub const fn bth(&self) -> usize {
        let ip_length = match self.version {
            IpVersion::V4 => Ipv4Header::LENGTH,
            IpVersion::V6 => Ipv6Header::LENGTH,
        };
        self.ip + ip_length + UdpHeader::LENGTH
    }

    /// The payload without pad
    #[inline]
    pub const fn payload(&self) -> Range<usize> {
        self.payload..self.payload + self.payload_length
    }

    /// The pad behind the payload, at most three bytes
    #[inline]
    pub const fn pad(&self) -> Range<usize> {
        let start = self.payload + self.payload_length;
        start..start + pad_count(self.payload_length) as usize
    }

    /// The ICRC, which ends the frame
    #[inline]
    pub const fn icrc(&self) -> Range<usize> {
        let start = self.pad().end;
        start..start + icrc::LENGTH
    }

    /// Bytes of the whole frame, without what Ethernet may pad behind it
    #[inline]
    pub const fn length(&self) -> usize {
        self.icrc().end
    }
}

/// A RoCEv2 frame that was accepted. All layers are consistent with each other; whether the ICRC
/// is right is asked for separately ([`Frame::icrc_is_valid`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Ethernet
    pub ethernet: EthernetHeader,
    /// IP
    pub ip: Ip,
    /// UDP
    pub udp: UdpHeader,
    /// BTH and extension
    pub headers: TransportHeaders,
    /// The ICRC that the frame carries
    pub icrc: u32,
    layout: FrameLayout,
    bytes: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Reads a frame from the first byte of its Ethernet header, without FCS. Bytes behind the
    /// length in the IP header are ignored: Ethernet pads short frames.
    ///
    /// # Errors
    ///
    /// [`Error::NotRoce`] for a frame of another protocol, otherwise the error that says what is
    /// wrong.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let (ethernet, ether_type) = EthernetHeader::parse(bytes)?;
        let ip_start = ethernet.length();
        let (ip, ip_payload_length) = Ip::parse(ether_type, &bytes[ip_start..])?;
        let udp_start = ip_start + ip.length();
        let length = udp_start + ip_payload_length;
        let udp = UdpHeader::parse(&bytes[udp_start..length])?;
        let transport = &bytes[udp_start + UdpHeader::LENGTH..length];
        let (headers, header_length) = TransportHeaders::parse(transport)?;
        let payload_length = payload_length(&headers.bth, &transport[header_length..])?;
        let layout = FrameLayout::new(ip.version(), ip_start, header_length, payload_length);
        let icrc = icrc::read(bytes, &layout);
        Ok(Self {
            ethernet,
            ip,
            udp,
            headers,
            icrc,
            layout,
            bytes,
        })
    }

    /// Returns the layout of the frame.
    #[inline]
    pub const fn layout(&self) -> &FrameLayout {
        &self.layout
    }

    /// The payload without pad.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[self.layout.payload()]
    }

    /// Bytes of payload without pad.
    #[inline]
    pub const fn payload_length(&self) -> usize {
        self.layout.payload_length
    }

    /// The bytes of the frame, without what Ethernet may have padded behind it.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        &self.bytes[..self.layout.length()]
    }

    /// The headers below the transport.
    #[inline]
    pub const fn path(&self) -> NetworkPath {
        NetworkPath {
            ethernet: self.ethernet,
            ip: self.ip,
            udp: self.udp,
        }
    }

    /// Computes the ICRC of the bytes.
    #[inline]
    pub fn computed_icrc(&self) -> u32 {
        icrc::compute(self.bytes, &self.layout)
    }

    /// Returns true if the frame carries the ICRC of its bytes.
    #[inline]
    pub fn icrc_is_valid(&self) -> bool {
        self.icrc == self.computed_icrc()
    }

    /// Writes the frame anew from its values, with the payload, pad and ICRC that it had; gives
    /// the bytes written.
    ///
    /// # Panics
    ///
    /// If `buffer` is shorter than [`Frame::bytes`].
    pub fn emit<'b>(&self, buffer: &'b mut [u8]) -> &'b mut [u8] {
        let path = self.path();
        let template = PathTemplate::new(&path);
        let identification = match self.ip {
            Ip::V4(v4) => v4.identification,
            Ip::V6(_) => 0,
        };
        let length = self.layout.payload_length;
        let layout = template.emit(&self.headers, length, identification, buffer);
        buffer[layout.payload()].copy_from_slice(self.payload());
        buffer[layout.pad()].copy_from_slice(&self.bytes[self.layout.pad()]);
        icrc::write(buffer, &layout, self.icrc);
        &mut buffer[..layout.length()]
    }
}

/// The payload's length, given what follows the last header: payload, pad and ICRC.
#[inline]
fn payload_length(bth: &Bth, rest: &[u8]) -> Result<usize, Error> {
    let Some(length) = rest.len().checked_sub(icrc::LENGTH) else {
        let (needed, available) = (icrc::LENGTH, rest.len());
        return Err(Error::Truncated {
            header: "ICRC",
            needed,
            available,
        });
    };
    match length.checked_sub(usize::from(bth.pad_count)) {
        Some(payload_length) if length % 4 == 0 => Ok(payload_length),
        _ => Err(Error::Pad {
            length,
            pad_count: bth.pad_count,
        }),
    }
}

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameKind<'a> {
    /// A RoCEv2 frame
    Roce(Frame<'a>),
    /// Something else, which is no error
    Other(NotRoce),
    /// A frame that contradicts itself, or a RoCEv2 frame that this crate cannot stand for
    Malformed(Error),
}

/// Classifies a frame: RoCEv2, another protocol, or malformed.
pub fn classify(bytes: &[u8]) -> FrameKind<'_> {
    match Frame::parse(bytes) {
        Ok(frame) => FrameKind::Roce(frame),
        Err(Error::NotRoce(other)) => FrameKind::Other(other),
        Err(error) => FrameKind::Malformed(error),
    }
}
