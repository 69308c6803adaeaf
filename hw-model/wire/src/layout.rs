//! Where the parts of a frame lie.

use core::ops::Range;

use crate::bth::pad_count;
use crate::ipv4::Ipv4Header;
use crate::ipv6::Ipv6Header;
use crate::network_path::IpVersion;
use crate::udp::UdpHeader;

/// Bytes of the ICRC on the wire.
pub(crate) const ICRC_LENGTH: usize = 4;

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

    /// Bytes of the payload without pad
    #[inline]
    pub(crate) const fn payload_length(&self) -> usize {
        self.payload_length
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
        start..start + ICRC_LENGTH
    }

    /// Bytes of the whole frame, without what Ethernet may pad behind it
    #[inline]
    pub const fn length(&self) -> usize {
        self.icrc().end
    }
}
