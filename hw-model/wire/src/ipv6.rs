//! IPv6 header without extension headers, around UDP or another protocol.

use core::net::Ipv6Addr;

use zerocopy::byteorder::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::codec;
use crate::error::{Error, NotRoce};
use crate::udp;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawIpv6 {
    /// Version (4 bits), traffic class (8), flow label (20)
    version_class_flow: U32,
    payload_length: U16,
    next_header: u8,
    hop_limit: u8,
    source: [u8; 16],
    destination: [u8; 16],
}

const _: () = assert!(size_of::<RawIpv6>() == Ipv6Header::LENGTH);

const FLOW_LABEL_MASK: u32 = 0x000f_ffff;

/// Offsets of the fields that differ between packets or change on the way.
pub(crate) mod field {
    use core::ops::Range;

    pub(crate) const PAYLOAD_LENGTH: Range<usize> = 4..6;
    pub(crate) const HOP_LIMIT: usize = 7;
}

/// An IPv6 header. Length and next header follow from the rest of the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ipv6Header {
    /// DSCP (6 bits) and ECN (2 bits)
    pub traffic_class: u8,
    /// 20 bits
    pub flow_label: u32,
    /// Remaining hops of the packet
    pub hop_limit: u8,
    /// Source address
    pub source: Ipv6Addr,
    /// Destination address
    pub destination: Ipv6Addr,
}

impl Ipv6Header {
    /// Bytes on the wire.
    pub const LENGTH: usize = 40;

    /// Parses the header of a UDP packet at the start of `bytes`; also returns the length of its
    /// payload in bytes.
    ///
    /// # Errors
    ///
    /// [`Error::NotRoce`] if it is a valid header that is not RoCEv2, otherwise the error that
    /// names the fault.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<(Self, usize), Error> {
        let (header, payload) = Self::parse_any(udp::PROTOCOL, bytes)?;
        udp::check_destination_port(payload)?;
        Ok((header, payload.len()))
    }

    /// Parses the header of a packet that carries `protocol` at the start of `bytes`; also returns
    /// its payload. `None` if it carries another protocol, has extension headers or is invalid.
    pub fn parse_protocol(protocol: u8, bytes: &[u8]) -> Option<(Self, &[u8])> {
        Self::parse_any(protocol, bytes).ok()
    }

    /// Parses the header. [`Error::NotRoce`]: the packet does not carry `protocol`.
    #[inline]
    fn parse_any(protocol: u8, bytes: &[u8]) -> Result<(Self, &[u8]), Error> {
        let raw: &RawIpv6 = codec::view(bytes, "IPv6 header")?;
        let first = raw.version_class_flow.get();
        let version = (first >> 28) as u8;
        if version != 6 {
            return Err(Error::IpVersion(version));
        }
        if raw.next_header != protocol {
            return Err(Error::NotRoce(NotRoce::IpProtocol(raw.next_header)));
        }
        let payload_length = usize::from(raw.payload_length.get());
        let payload = &bytes[Self::LENGTH..];
        if payload_length > payload.len() {
            let (field, limit) = ("IPv6 payload length", payload.len());
            return Err(Error::Length {
                field,
                actual: payload_length,
                limit,
            });
        }
        let header = Self {
            traffic_class: (first >> 20) as u8,
            flow_label: first & FLOW_LABEL_MASK,
            hop_limit: raw.hop_limit,
            source: raw.source.into(),
            destination: raw.destination.into(),
        };
        Ok((header, &payload[..payload_length]))
    }

    /// Writes the header of a UDP packet with `payload_length` bytes to the start of `buffer`.
    ///
    /// # Panics
    ///
    /// If the buffer is shorter than the header, or the payload longer than 65,535 bytes.
    #[inline]
    pub fn emit(&self, payload_length: usize, buffer: &mut [u8]) {
        self.emit_protocol(udp::PROTOCOL, payload_length, buffer);
    }

    /// Writes the header of a packet that carries `payload_length` bytes of `protocol` to the start
    /// of `buffer`.
    ///
    /// # Panics
    ///
    /// If the buffer is shorter than the header, or the payload longer than 65,535 bytes.
    #[inline]
    pub fn emit_protocol(&self, protocol: u8, payload_length: usize, buffer: &mut [u8]) {
        let version_class_flow =
            6 << 28 | u32::from(self.traffic_class) << 20 | self.flow_label & FLOW_LABEL_MASK;
        let raw = RawIpv6 {
            version_class_flow: U32::new(version_class_flow),
            payload_length: length_field(payload_length),
            next_header: protocol,
            hop_limit: self.hop_limit,
            source: self.source.octets(),
            destination: self.destination.octets(),
        };
        codec::write(&raw, buffer);
    }

    /// Writes the field that differs between packets into an emitted header.
    #[inline]
    pub(crate) fn patch(header: &mut [u8], payload_length: usize) {
        header[field::PAYLOAD_LENGTH].copy_from_slice(length_field(payload_length).as_bytes());
    }
}

#[inline]
fn length_field(payload_length: usize) -> U16 {
    let length = u16::try_from(payload_length);
    U16::new(length.expect("payloads are bounded by the path MTU, far below 64 KiB"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Ipv6Header {
        Ipv6Header {
            traffic_class: 0x28,
            flow_label: 0xabcde,
            hop_limit: 64,
            source: "fe80::1".parse().expect("well formed"),
            destination: "fe80::2".parse().expect("well formed"),
        }
    }

    fn frame() -> Vec<u8> {
        let mut bytes = vec![0; 48];
        header().emit(8, &mut bytes);
        bytes[40..44].copy_from_slice(&[0xc0, 0x00, 0x12, 0xb7]);
        bytes
    }

    #[test]
    fn constructs_and_deconstructs() {
        let bytes = frame();
        assert_eq!(bytes[..8], [0x62, 0x8a, 0xbc, 0xde, 0, 8, 17, 64]);
        assert_eq!(Ipv6Header::parse(&bytes), Ok((header(), 8)));
    }

    #[test]
    fn other_protocols_are_read_and_written() {
        const ICMPV6: u8 = 58;
        let mut bytes = frame();
        header().emit_protocol(ICMPV6, 8, &mut bytes);
        assert_eq!(bytes[6], ICMPV6);
        let payload = &bytes[40..];
        assert_eq!(
            Ipv6Header::parse_protocol(ICMPV6, &bytes),
            Some((header(), payload))
        );
        assert_eq!(Ipv6Header::parse_protocol(udp::PROTOCOL, &bytes), None);
        assert_eq!(Ipv6Header::parse_protocol(ICMPV6, &bytes[..47]), None);
    }

    #[test]
    fn refusals_name_the_cause() {
        let with = |offset: usize, value: u8| {
            let mut bytes = frame();
            bytes[offset] = value;
            Ipv6Header::parse(&bytes).expect_err("spoiled")
        };
        assert_eq!(with(0, 0x45), Error::IpVersion(4));
        assert_eq!(with(6, 58), Error::NotRoce(NotRoce::IpProtocol(58)));
        assert_eq!(with(43, 0), Error::NotRoce(NotRoce::UdpPort(0x1200)));
        assert!(matches!(
            with(5, 9),
            Error::Length {
                actual: 9,
                limit: 8,
                ..
            }
        ));
        assert!(matches!(
            with(5, 7),
            Error::Truncated {
                header: "UDP header",
                ..
            }
        ));
    }
}
