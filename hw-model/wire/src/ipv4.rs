//! IPv4 header without options, around UDP or another protocol.

use core::net::Ipv4Addr;

use zerocopy::byteorder::big_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::checksum::complement;
use crate::codec;
use crate::error::{Error, NotRoce};
use crate::udp;

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

const _: () = assert!(size_of::<RawIpv4>() == Ipv4Header::LENGTH);

/// Version 4, five 32-bit words
const VERSION_LENGTH: u8 = 0x45;
const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET_MASK: u16 = 0x1fff;

/// Offsets of the fields that differ between packets.
pub(crate) mod field {
    use core::ops::Range;

    pub(crate) const TRAFFIC_CLASS: usize = 1;
    pub(crate) const TOTAL_LENGTH: Range<usize> = 2..4;
    pub(crate) const IDENTIFICATION: Range<usize> = 4..6;
    pub(crate) const TTL: usize = 8;
    pub(crate) const CHECKSUM: Range<usize> = 10..12;
}

/// An IPv4 header. Length, protocol and checksum follow from the rest of the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ipv4Header {
    /// DSCP (6 bits) and ECN (2 bits)
    pub traffic_class: u8,
    /// Counts packets; unused while fragmentation is forbidden
    pub identification: u16,
    /// DF
    pub dont_fragment: bool,
    /// Time to live, in hops
    pub ttl: u8,
    /// Source address
    pub source: Ipv4Addr,
    /// Destination address
    pub destination: Ipv4Addr,
}

impl Ipv4Header {
    /// Bytes on the wire.
    pub const LENGTH: usize = 20;

    /// Parses the header of a UDP packet at the start of `bytes`; also returns the length of its
    /// payload in bytes.
    ///
    /// # Errors
    ///
    /// [`Error::NotRoce`] if it is a valid header that is not RoCEv2 (decided by protocol and UDP
    /// port, before the requirements of RoCEv2 on the header are checked), otherwise the error that
    /// names the fault.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<(Self, usize), Error> {
        let raw: &RawIpv4 = codec::view(bytes, "IPv4 header")?;
        if raw.version_length != VERSION_LENGTH
            || raw.protocol != udp::PROTOCOL
            || raw.flags_offset.get() & !DONT_FRAGMENT != 0
        {
            return Err(refuse(raw, bytes));
        }
        let payload = raw.payload(bytes)?;
        udp::check_destination_port(payload)?;
        raw.check_checksum()?;
        Ok((raw.header(), payload.len()))
    }

    /// Parses the header of a packet that carries `protocol` at the start of `bytes`; also returns
    /// its payload. `None` if it carries another protocol, has options, is a fragment or is
    /// invalid.
    pub fn parse_protocol(protocol: u8, bytes: &[u8]) -> Option<(Self, &[u8])> {
        let raw: &RawIpv4 = codec::view(bytes, "IPv4 header").ok()?;
        let is_whole = raw.flags_offset.get() & (MORE_FRAGMENTS | OFFSET_MASK) == 0;
        let is_expected = raw.version_length == VERSION_LENGTH && raw.protocol == protocol;
        let payload = raw.payload(bytes).ok()?;
        raw.check_checksum().ok()?;
        (is_whole && is_expected).then(|| (raw.header(), payload))
    }

    /// Writes the header of a UDP packet with `payload_length` bytes to the start of `buffer`.
    ///
    /// # Panics
    ///
    /// If the buffer is shorter than the header, or the packet longer than 65,535 bytes.
    #[inline]
    pub fn emit(&self, payload_length: usize, buffer: &mut [u8]) {
        self.emit_protocol(udp::PROTOCOL, payload_length, buffer);
    }

    /// Writes the header of a packet that carries `payload_length` bytes of `protocol` to the start
    /// of `buffer`.
    ///
    /// # Panics
    ///
    /// If the buffer is shorter than the header, or the packet longer than 65,535 bytes.
    #[inline]
    pub fn emit_protocol(&self, protocol: u8, payload_length: usize, buffer: &mut [u8]) {
        let mut raw = self.without_checksum(protocol, payload_length);
        let checksum = checksum(checksum_base(&raw), raw.total_length, raw.identification);
        raw.checksum = U16::new(checksum);
        codec::write(&raw, buffer);
    }

    #[inline]
    fn without_checksum(&self, protocol: u8, payload_length: usize) -> RawIpv4 {
        RawIpv4 {
            version_length: VERSION_LENGTH,
            traffic_class: self.traffic_class,
            total_length: total_length(payload_length),
            identification: U16::new(self.identification),
            flags_offset: U16::new(if self.dont_fragment { DONT_FRAGMENT } else { 0 }),
            ttl: self.ttl,
            protocol,
            checksum: U16::ZERO,
            source: self.source.octets(),
            destination: self.destination.octets(),
        }
    }

    /// Returns the part of the header checksum that is the same for all packets of a connection.
    pub(crate) fn checksum_base(&self) -> u32 {
        checksum_base(&self.without_checksum(udp::PROTOCOL, 0))
    }

    /// Writes the fields that differ between packets into an emitted header.
    #[inline]
    pub(crate) fn patch(
        header: &mut [u8],
        checksum_base: u32,
        payload_length: usize,
        identification: u16,
    ) {
        let total_length = total_length(payload_length);
        let identification = U16::new(identification);
        let checksum = checksum(checksum_base, total_length, identification);
        header[field::TOTAL_LENGTH].copy_from_slice(total_length.as_bytes());
        header[field::IDENTIFICATION].copy_from_slice(identification.as_bytes());
        header[field::CHECKSUM].copy_from_slice(&checksum.to_be_bytes());
    }
}

impl RawIpv4 {
    /// Returns the payload; `bytes` begin with this header.
    #[inline]
    fn payload<'a>(&self, bytes: &'a [u8]) -> Result<&'a [u8], Error> {
        let total_length = usize::from(self.total_length.get());
        let payload = bytes.get(Ipv4Header::LENGTH..total_length);
        payload.ok_or(Error::Length {
            field: "IPv4 total length",
            actual: total_length,
            limit: bytes.len(),
        })
    }

    #[inline]
    fn check_checksum(&self) -> Result<(), Error> {
        let expected = checksum(checksum_base(self), self.total_length, self.identification);
        let actual = self.checksum.get();
        if actual == expected {
            Ok(())
        } else {
            Err(Error::Ipv4Checksum { expected, actual })
        }
    }

    #[inline]
    fn header(&self) -> Ipv4Header {
        Ipv4Header {
            traffic_class: self.traffic_class,
            identification: self.identification.get(),
            dont_fragment: self.flags_offset.get() & DONT_FRAGMENT != 0,
            ttl: self.ttl,
            source: self.source.into(),
            destination: self.destination.into(),
        }
    }
}

/// Returns the reason why this header does not belong to a RoCEv2 packet.
#[cold]
fn refuse(raw: &RawIpv4, bytes: &[u8]) -> Error {
    let (version, length) = (
        raw.version_length >> 4,
        usize::from(raw.version_length & 0xf) * 4,
    );
    let flags_offset = raw.flags_offset.get();
    if version != 4 {
        return Error::IpVersion(version);
    }
    if length < Ipv4Header::LENGTH {
        let limit = Ipv4Header::LENGTH;
        return Error::Length {
            field: "IPv4 header length",
            actual: length,
            limit,
        };
    }
    if raw.protocol != udp::PROTOCOL {
        return Error::NotRoce(NotRoce::IpProtocol(raw.protocol));
    }
    if flags_offset & OFFSET_MASK != 0 {
        return Error::NotRoce(NotRoce::IpFragment);
    }
    let udp = bytes.get(length..).unwrap_or(&[]);
    match udp::check_destination_port(udp) {
        Err(error) => error,
        Ok(()) if length != Ipv4Header::LENGTH => Error::Ipv4Options(length),
        Ok(()) => Error::Ipv4Fragment(flags_offset),
    }
}

#[inline]
fn total_length(payload_length: usize) -> U16 {
    let length = u16::try_from(Ipv4Header::LENGTH + payload_length);
    U16::new(length.expect("payloads are bounded by the path MTU, far below 64 KiB"))
}

/// Returns the sum of the constant words: all except length, identification and checksum.
#[inline]
fn checksum_base(raw: &RawIpv4) -> u32 {
    let word = |high: u8, low: u8| u32::from(u16::from_be_bytes([high, low]));
    let [a, b, c, d] = raw.source;
    let [e, f, g, h] = raw.destination;
    word(raw.version_length, raw.traffic_class)
        + u32::from(raw.flags_offset.get())
        + word(raw.ttl, raw.protocol)
        + word(a, b)
        + word(c, d)
        + word(e, f)
        + word(g, h)
}

/// Returns the ones' complement checksum of RFC 1071 from the sum `base` and the two words that
/// change.
#[inline]
fn checksum(base: u32, total_length: U16, identification: U16) -> u16 {
    complement(base + u32::from(total_length.get()) + u32::from(identification.get()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header of Linux (20 bytes of IPv4, then the start of a UDP header).
    const SAMPLE: [u8; 24] = [
        0x45, 0x28, 0x00, 0x2c, 0x12, 0x34, 0x40, 0x00, 0x40, 0x11, 0x14, 0x63, 10, 0, 0, 1, 10, 0,
        0, 2, 0xc0, 0x00, 0x12, 0xb7,
    ];

    fn frame() -> Vec<u8> {
        let mut bytes = SAMPLE.to_vec();
        bytes.resize(0x2c, 0);
        bytes
    }

    fn header() -> Ipv4Header {
        Ipv4Header {
            traffic_class: 0x28,
            identification: 0x1234,
            dont_fragment: true,
            ttl: 64,
            source: Ipv4Addr::new(10, 0, 0, 1),
            destination: Ipv4Addr::new(10, 0, 0, 2),
        }
    }

    #[test]
    fn checksum_of_the_rfc_1071_kind() {
        let words = SAMPLE[..20]
            .chunks(2)
            .map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])));
        let sum: u32 = words.sum();
        assert_eq!(
            (sum >> 16) + (sum & 0xffff),
            0xffff,
            "all words add up to -0"
        );
    }

    #[test]
    fn deconstructs_and_constructs() {
        assert_eq!(Ipv4Header::parse(&frame()), Ok((header(), 24)));
        let mut buffer = [0xaa; 20];
        header().emit(24, &mut buffer);
        assert_eq!(buffer, SAMPLE[..20]);
    }

    /// Computes RFC 1071 in its simplest form: the carry wraps around after each addition.
    fn reference_checksum(header: &[u8; 20]) -> u16 {
        let words = header
            .chunks(2)
            .map(|word| u16::from_be_bytes([word[0], word[1]]));
        !words.fold(0, |sum: u16, word| {
            let (sum, carry) = sum.overflowing_add(word);
            sum + u16::from(carry)
        })
    }

    #[test]
    fn checksum_is_right_for_each_identification() {
        // Large addresses, so that the carries of the sum may themselves carry.
        let (source, destination) = ([192, 168, 200, 1].into(), [192, 168, 200, 2].into());
        for identification in 0..=u16::MAX {
            let mut buffer = [0; 20];
            let header = Ipv4Header {
                identification,
                source,
                destination,
                ..header()
            };
            header.emit(24, &mut buffer);
            assert_eq!(
                reference_checksum(&buffer),
                0,
                "identification {identification:#06x}"
            );
        }
    }

    #[test]
    fn patch_equals_emit() {
        let mut patched = [0; 20];
        header().emit(0, &mut patched);
        for (length, identification) in [(24, 0), (4140, 0xffff), (65_515, 0x8000)] {
            Ipv4Header::patch(
                &mut patched,
                header().checksum_base(),
                length,
                identification,
            );
            let mut emitted = [0; 20];
            Ipv4Header {
                identification,
                ..header()
            }
            .emit(length, &mut emitted);
            assert_eq!(patched, emitted);
        }
    }

    #[test]
    fn refusals_name_the_cause() {
        let with = |offset: usize, value: u8| {
            let mut bytes = frame();
            bytes[offset] = value;
            Ipv4Header::parse(&bytes).expect_err("spoiled")
        };
        assert_eq!(with(0, 0x65), Error::IpVersion(6));
        assert!(matches!(with(0, 0x44), Error::Length { actual: 16, .. }));
        assert_eq!(with(9, 6), Error::NotRoce(NotRoce::IpProtocol(6)));
        assert_eq!(with(7, 1), Error::NotRoce(NotRoce::IpFragment));
        assert_eq!(with(23, 0xb8), Error::NotRoce(NotRoce::UdpPort(4792)));
        assert_eq!(with(6, 0x60), Error::Ipv4Fragment(0x6000));
        assert_eq!(with(6, 0x80), Error::Ipv4Fragment(0x8000));
        assert_eq!(
            with(8, 63),
            Error::Ipv4Checksum {
                expected: 0x1563,
                actual: 0x1463
            }
        );
        assert!(matches!(
            with(3, 0x2d),
            Error::Length {
                actual: 45,
                limit: 44,
                ..
            }
        ));
        assert!(matches!(with(3, 0x13), Error::Length { actual: 19, .. }));
    }

    #[test]
    fn other_protocols_are_read_and_written() {
        const ICMP: u8 = 1;
        let mut bytes = frame();
        header().emit_protocol(ICMP, 24, &mut bytes);
        assert_eq!(bytes[9], ICMP);
        let payload = &bytes[20..];
        assert_eq!(
            Ipv4Header::parse_protocol(ICMP, &bytes),
            Some((header(), payload))
        );
        assert_eq!(Ipv4Header::parse_protocol(udp::PROTOCOL, &bytes), None);
        let not_roce = Error::NotRoce(NotRoce::IpProtocol(ICMP));
        assert_eq!(Ipv4Header::parse(&bytes), Err(not_roce));
        // A damaged checksum, options, a fragment, a packet longer than its frame.
        for (offset, value) in [(10, 0), (0, 0x46), (6, 0x20), (7, 1), (3, 0x2d)] {
            let mut damaged = bytes.clone();
            damaged[offset] = value;
            assert_eq!(Ipv4Header::parse_protocol(ICMP, &damaged), None);
        }
        assert_eq!(Ipv4Header::parse_protocol(ICMP, &bytes[..19]), None);
    }

    #[test]
    fn options_are_refused_only_in_roce() {
        let mut bytes = frame();
        bytes[0] = 0x46;
        bytes[24..28].copy_from_slice(&[0xc0, 0x00, 0x12, 0xb7]);
        assert_eq!(Ipv4Header::parse(&bytes), Err(Error::Ipv4Options(24)));
        bytes[27] = 53;
        let other = Error::NotRoce(NotRoce::UdpPort(0x1235));
        assert_eq!(Ipv4Header::parse(&bytes), Err(other));
    }
}
