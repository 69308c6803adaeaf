//! UDP header of RoCEv2: destination port 4791.

use zerocopy::byteorder::big_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::codec;
use crate::error::{Error, NotRoce};
use crate::identifiers::Qpn;

/// The protocol number of UDP in the IP header.
pub const PROTOCOL: u8 = 17;

/// The UDP destination port of RoCEv2.
pub const ROCE_PORT: u16 = 4791;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawUdp {
    source_port: U16,
    destination_port: U16,
    length: U16,
    checksum: U16,
}

const _: () = assert!(size_of::<RawUdp>() == UdpHeader::LENGTH);

/// Offsets of the fields that differ between packets or change on the way.
pub(crate) mod field {
    use core::ops::Range;

    pub(crate) const LENGTH: Range<usize> = 4..6;
    pub(crate) const CHECKSUM: Range<usize> = 6..8;
}

/// A UDP header of RoCEv2. Destination port and length follow from the rest of the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpHeader {
    /// Distinguishes flows, so that switches spread them over equal paths
    pub source_port: u16,
    /// Kept as received and not verified: the ICRC protects the packet, and senders leave it zero,
    /// Linux also in IPv6
    pub checksum: u16,
}

impl UdpHeader {
    /// Bytes on the wire.
    pub const LENGTH: usize = 8;

    /// Returns the header of a flow between two queue pairs. One flow keeps one source port from
    /// the dynamic range 0xc000 ..= 0xffff (IBTA annex A17).
    pub const fn of_flow(source_qp: Qpn, dest_qp: Qpn) -> Self {
        // Two rounds of multiply and fold, so that neighbouring numbers are mapped far apart.
        const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
        let both = (source_qp.value() as u64) << 24 | dest_qp.value() as u64;
        let mut hash = both.wrapping_mul(MULTIPLIER);
        hash = (hash ^ hash >> 32).wrapping_mul(MULTIPLIER);
        Self {
            source_port: 0xc000 | (hash >> 50) as u16,
            checksum: 0,
        }
    }

    /// Parses the header at the start of `bytes`, the whole payload of the IP packet.
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`], [`Error::NotRoce`] for another port, or [`Error::Length`] if the
    /// length does not match `bytes`.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let raw: &RawUdp = codec::view(bytes, "UDP header")?;
        if raw.destination_port.get() != ROCE_PORT {
            return Err(Error::NotRoce(NotRoce::UdpPort(raw.destination_port.get())));
        }
        let length = usize::from(raw.length.get());
        if length != bytes.len() {
            return Err(Error::Length {
                field: "UDP length",
                actual: length,
                limit: bytes.len(),
            });
        }
        Ok(Self {
            source_port: raw.source_port.get(),
            checksum: raw.checksum.get(),
        })
    }

    /// Writes the header of a datagram with `payload_length` bytes to the start of `buffer`.
    ///
    /// # Panics
    ///
    /// If the buffer is shorter than the header, or the datagram longer than 65,535 bytes.
    #[inline]
    pub fn emit(&self, payload_length: usize, buffer: &mut [u8]) {
        let raw = RawUdp {
            source_port: U16::new(self.source_port),
            destination_port: U16::new(ROCE_PORT),
            length: length_field(payload_length),
            checksum: U16::new(self.checksum),
        };
        codec::write(&raw, buffer);
    }

    /// Writes the field that differs between packets into an emitted header.
    #[inline]
    pub(crate) fn patch(header: &mut [u8], payload_length: usize) {
        header[field::LENGTH].copy_from_slice(length_field(payload_length).as_bytes());
    }
}

#[inline]
fn length_field(payload_length: usize) -> U16 {
    let length = u16::try_from(UdpHeader::LENGTH + payload_length);
    U16::new(length.expect("payloads are bounded by the path MTU, far below 64 KiB"))
}

/// Checks that `bytes` start with a UDP header to the port of RoCEv2; other fields are not checked.
#[inline]
pub(crate) fn check_destination_port(bytes: &[u8]) -> Result<(), Error> {
    let raw: &RawUdp = codec::view(bytes, "UDP header")?;
    match raw.destination_port.get() {
        ROCE_PORT => Ok(()),
        other => Err(Error::NotRoce(NotRoce::UdpPort(other))),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn deconstructs_and_constructs() {
        let bytes = [0xc1, 0x02, 0x12, 0xb7, 0x00, 0x0a, 0x00, 0x00, 1, 2];
        let header = UdpHeader {
            source_port: 0xc102,
            checksum: 0,
        };
        assert_eq!(UdpHeader::parse(&bytes), Ok(header));
        let mut buffer = [0xaa; 8];
        header.emit(2, &mut buffer);
        assert_eq!(buffer, bytes[..8]);
    }

    #[test]
    fn length_must_be_that_of_the_packet() {
        let bytes = [0xc1, 0x02, 0x12, 0xb7, 0x00, 0x0a, 0x00, 0x00, 1];
        let error = Error::Length {
            field: "UDP length",
            actual: 10,
            limit: 9,
        };
        assert_eq!(UdpHeader::parse(&bytes), Err(error));
    }

    #[test]
    fn flows_are_spread_over_the_dynamic_ports() {
        let flow = |qpn| UdpHeader::of_flow(Qpn::new(qpn), Qpn::new(qpn + 1)).source_port;
        let ports: BTreeSet<u16> = (0x10..0x50).map(flow).collect();
        assert!(ports.iter().all(|port| *port >= 0xc000));
        assert!(ports.len() >= 60, "64 flows on {} ports", ports.len());
    }
}
