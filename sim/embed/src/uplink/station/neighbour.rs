//! IPv6 neighbour discovery: solicitations and advertisements (RFC 4861, 4.3 and 4.4).

use std::net::Ipv6Addr;

use ferroce_wire::{EtherType, Mac};
use zerocopy::byteorder::big_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::ipv6::{Icmpv6, icmpv6};
use super::{ethernet, solicited_node};

const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
const OPTION_SOURCE_MAC: u8 = 1;
const OPTION_TARGET_MAC: u8 = 2;
const FLAG_SOLICITED: u32 = 1 << 30;
const FLAG_OVERRIDE: u32 = 1 << 29;
/// A router would have decremented it, so the packet is from this link (RFC 4861, 7.1).
const HOP_LIMIT: u8 = 255;
/// Maximum number of options that are checked; valid packets have only a few.
const MAX_OPTIONS: usize = 16;

/// The all-nodes multicast address.
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// Its MAC address.
pub const ALL_NODES_MAC: Mac = Mac([0x33, 0x33, 0, 0, 0, 1]);

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawMessage {
    kind: u8,
    code: u8,
    checksum: [u8; 2],
    flags: U32,
    target: [u8; 16],
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawMacOption {
    kind: u8,
    /// In units of 8 bytes.
    length: u8,
    mac: [u8; 6],
}

const _: () = assert!(size_of::<RawMessage>() == 24 && size_of::<RawMacOption>() == 8);

/// A request for an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Solicitation {
    /// The address.
    pub target: Ipv6Addr,
    /// The MAC address of the sender.
    pub source_mac: Option<Mac>,
}

/// An answer for an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Advertisement {
    /// The address.
    pub target: Ipv6Addr,
    /// Its MAC address.
    pub target_mac: Option<Mac>,
    /// True if it answers a solicitation.
    pub is_solicited: bool,
}

/// A message of neighbour discovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    /// A solicitation, and the IPv6 address of its sender: unspecified in a duplicate probe.
    Solicitation(Ipv6Addr, Solicitation),
    /// An answer.
    Advertisement(Advertisement),
}

impl Message {
    /// Parses an IPv6 packet. `None` if it is something else, or to be ignored.
    pub fn parse(packet: &[u8]) -> Option<Self> {
        let packet = Icmpv6::parse(packet)?;
        let (raw, options) = RawMessage::ref_from_prefix(packet.message).ok()?;
        let target = Ipv6Addr::from(raw.target);
        // RFC 4861, 7.1.1 and 7.1.2
        if packet.ip.hop_limit != HOP_LIMIT || raw.code != 0 || target.is_multicast() {
            return None;
        }
        match raw.kind {
            SOLICITATION => {
                let source_mac = mac_option(options, OPTION_SOURCE_MAC)?;
                let solicitation = Solicitation { target, source_mac };
                let is_sound = !packet.ip.source.is_unspecified() || source_mac.is_none();
                is_sound.then_some(Self::Solicitation(packet.ip.source, solicitation))
            }
            ADVERTISEMENT => Some(Self::Advertisement(Advertisement {
                target,
                target_mac: mac_option(options, OPTION_TARGET_MAC)?,
                is_solicited: raw.flags.get() & FLAG_SOLICITED != 0,
            })),
            _ => None,
        }
    }
}

impl Solicitation {
    /// Builds the whole frame, to the solicited-node multicast address.
    pub fn emit(&self, mac: Mac, source: Ipv6Addr) -> Vec<u8> {
        let (group_mac, group) = solicited_node(self.target);
        let option = self.source_mac.map(|mac| (OPTION_SOURCE_MAC, mac));
        let message = message(SOLICITATION, 0, self.target, option);
        let packet = icmpv6(source, group, HOP_LIMIT, &message);
        ethernet(mac, group_mac, EtherType::IPV6, &[&packet])
    }
}

impl Advertisement {
    /// Builds the whole frame.
    pub fn emit(&self, mac: Mac, source: Ipv6Addr, to: (Mac, Ipv6Addr)) -> Vec<u8> {
        let solicited = if self.is_solicited { FLAG_SOLICITED } else { 0 };
        let option = self.target_mac.map(|mac| (OPTION_TARGET_MAC, mac));
        let message = message(
            ADVERTISEMENT,
            solicited | FLAG_OVERRIDE,
            self.target,
            option,
        );
        let packet = icmpv6(source, to.1, HOP_LIMIT, &message);
        ethernet(mac, to.0, EtherType::IPV6, &[&packet])
    }
}

fn message(kind: u8, flags: u32, target: Ipv6Addr, option: Option<(u8, Mac)>) -> Vec<u8> {
    let raw = RawMessage {
        kind,
        code: 0,
        checksum: [0; 2],
        flags: U32::new(flags),
        target: target.octets(),
    };
    let option = option.map(|(kind, mac)| RawMacOption {
        kind,
        length: 1,
        mac: mac.0,
    });
    let option = option.as_ref().map_or(&[][..], IntoBytes::as_bytes);
    [raw.as_bytes(), option].concat()
}

/// Returns the MAC address in an option of this kind, if there is one. `None`: the options are
/// invalid, and the whole message must be ignored.
fn mac_option(mut options: &[u8], kind: u8) -> Option<Option<Mac>> {
    for _ in 0..MAX_OPTIONS {
        let [found, length, ..] = *options else {
            return options.is_empty().then_some(None);
        };
        let (option, rest) = options.split_at_checked(usize::from(length) * 8)?;
        // RFC 4861, 4.6: a packet with an option of length zero is dropped.
        let (raw, _) = RawMacOption::ref_from_prefix(option).ok()?;
        if found == kind {
            return Some(Some(Mac(raw.mac)));
        }
        options = rest;
    }
    None
}
