//! Ethernet II header, with an optional VLAN tag.

use zerocopy::byteorder::big_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::address::Mac;
use crate::codec;
use crate::error::Error;
use crate::vlan::VlanTag;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawEthernet {
    destination: [u8; 6],
    source: [u8; 6],
    ether_type: U16,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawVlan {
    tag: U16,
    ether_type: U16,
}

const LENGTH_UNTAGGED: usize = size_of::<RawEthernet>();
const LENGTH_VLAN: usize = size_of::<RawVlan>();
const _: () = assert!(LENGTH_UNTAGGED == 14 && LENGTH_VLAN == 4);

/// The type of an Ethernet frame's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EtherType(pub u16);

impl EtherType {
    /// IPv4
    pub const IPV4: Self = Self(0x0800);
    /// IPv6
    pub const IPV6: Self = Self(0x86dd);
    /// IEEE 802.1Q customer VLAN tag
    pub const VLAN: Self = Self(0x8100);
}

/// An Ethernet header. The EtherType follows from the content of the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EthernetHeader {
    /// Destination MAC address
    pub destination: Mac,
    /// Source MAC address
    pub source: Mac,
    /// IEEE 802.1Q tag
    pub vlan: Option<VlanTag>,
}

impl EthernetHeader {
    /// The longest Ethernet header in bytes.
    pub const MAX_LENGTH: usize = LENGTH_UNTAGGED + LENGTH_VLAN;

    /// Returns the bytes on the wire.
    #[inline]
    pub const fn length(&self) -> usize {
        if self.vlan.is_some() {
            Self::MAX_LENGTH
        } else {
            LENGTH_UNTAGGED
        }
    }

    /// Parses the header at the start of `bytes`; also returns the type of its content.
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`]
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<(Self, EtherType), Error> {
        let raw: &RawEthernet = codec::view(bytes, "Ethernet header")?;
        let mut ether_type = EtherType(raw.ether_type.get());
        let mut vlan = None;
        if ether_type == EtherType::VLAN {
            let raw: &RawVlan = codec::view(&bytes[LENGTH_UNTAGGED..], "VLAN tag")?;
            vlan = Some(VlanTag::from_bits(raw.tag.get()));
            ether_type = EtherType(raw.ether_type.get());
        }
        Ok((
            Self {
                destination: Mac(raw.destination),
                source: Mac(raw.source),
                vlan,
            },
            ether_type,
        ))
    }

    /// Writes the header to the start of `buffer`; returns its length in bytes.
    ///
    /// # Panics
    ///
    /// If the buffer is shorter than [`EthernetHeader::length`].
    #[inline]
    pub fn emit(&self, ether_type: EtherType, buffer: &mut [u8]) -> usize {
        let outer = if self.vlan.is_some() {
            EtherType::VLAN
        } else {
            ether_type
        };
        let raw = RawEthernet {
            destination: self.destination.0,
            source: self.source.0,
            ether_type: U16::new(outer.0),
        };
        codec::write(&raw, buffer);
        if let Some(tag) = self.vlan {
            let raw = RawVlan {
                tag: U16::new(tag.to_bits()),
                ether_type: U16::new(ether_type.0),
            };
            codec::write(&raw, &mut buffer[LENGTH_UNTAGGED..]);
        }
        self.length()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAGGED: [u8; 18] = [
        0x52, 0x54, 0, 0, 0, 2, 0x52, 0x54, 0, 0, 0, 1, 0x81, 0x00, 0x70, 0x05, 0x08, 0x00,
    ];

    fn header() -> EthernetHeader {
        EthernetHeader {
            destination: Mac([0x52, 0x54, 0, 0, 0, 2]),
            source: Mac([0x52, 0x54, 0, 0, 0, 1]),
            vlan: Some(VlanTag {
                priority: 3,
                drop_eligible: true,
                identifier: 5,
            }),
        }
    }

    #[test]
    fn deconstructs_and_constructs() {
        assert_eq!(
            EthernetHeader::parse(&TAGGED),
            Ok((header(), EtherType::IPV4))
        );
        let mut buffer = [0xaa; 18];
        assert_eq!(header().emit(EtherType::IPV4, &mut buffer), 18);
        assert_eq!(buffer, TAGGED);
    }

    #[test]
    fn refuses_a_cut_tag() {
        let error = Error::Truncated {
            header: "VLAN tag",
            needed: 4,
            available: 3,
        };
        assert_eq!(EthernetHeader::parse(&TAGGED[..17]), Err(error));
    }
}
