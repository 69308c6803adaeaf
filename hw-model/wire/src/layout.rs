//! The positions of the parts of a frame.

use core::ops::Range;

use crate::bth::pad_count;
use crate::ipv4::Ipv4Header;
use crate::ipv6::Ipv6Header;
use crate::network_path::IpVersion;
use crate::udp::UdpHeader;

/// Bytes of the ICRC on the wire.
pub(crate) const ICRC_LENGTH: usize = 4;

/// The positions of the parts of a frame, as byte offsets from its start.
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

    /// Returns the version of IP.
    #[inline]
    pub const fn ip_version(&self) -> IpVersion {
        self.version
    }

    /// Returns the start of the IP header.
    #[inline]
    pub const fn ip(&self) -> usize {
        self.ip
    }

    /// Returns the start of the BTH.
    #[inline]
    pub const fn bth(&self) -> usize {
        let ip_length = match self.version {
            IpVersion::V4 => Ipv4Header::LENGTH,
            IpVersion::V6 => Ipv6Header::LENGTH,
        };
        self.ip + ip_length + UdpHeader::LENGTH
    }

    /// Returns the range of the payload without pad.
    #[inline]
    pub const fn payload(&self) -> Range<usize> {
        self.payload..self.payload + self.payload_length
    }

    /// Returns the bytes of the payload without pad.
    #[inline]
    pub(crate) const fn payload_length(&self) -> usize {
        self.payload_length
    }

    /// Returns the range of the pad after the payload, at most three bytes.
    #[inline]
    pub const fn pad(&self) -> Range<usize> {
        let start = self.payload + self.payload_length;
        start..start + pad_count(self.payload_length) as usize
    }

    /// Returns the range of the ICRC, which ends the frame.
    #[inline]
    pub const fn icrc(&self) -> Range<usize> {
        let start = self.pad().end;
        start..start + ICRC_LENGTH
    }

    /// Returns the bytes of the whole frame, without Ethernet padding.
    #[inline]
    pub const fn length(&self) -> usize {
        self.icrc().end
    }
}
