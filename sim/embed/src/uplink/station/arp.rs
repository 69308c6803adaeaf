//! ARP for IPv4 over Ethernet (RFC 826).

use std::net::Ipv4Addr;

use ferroce_wire::{EtherType, Mac};
use zerocopy::byteorder::big_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{ETHER_TYPE_ARP, ethernet};

const HARDWARE_ETHERNET: u16 = 1;
const REQUEST: u16 = 1;
const REPLY: u16 = 2;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawArp {
    hardware: U16,
    protocol: U16,
    hardware_length: u8,
    protocol_length: u8,
    operation: U16,
    sender_mac: [u8; 6],
    sender: [u8; 4],
    target_mac: [u8; 6],
    target: [u8; 4],
}

const _: () = assert!(size_of::<RawArp>() == 28);

/// What an ARP packet wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Who has the target address?
    Request,
    /// The sender does.
    Reply,
}

/// An ARP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arp {
    /// Question or answer.
    pub operation: Operation,
    /// Who sends it.
    pub sender: (Mac, Ipv4Addr),
    /// Whom it is about; the MAC address of a request says nothing.
    pub target: (Mac, Ipv4Addr),
}

impl Arp {
    /// Reads what follows the Ethernet header; None if it is not ARP for IPv4 over Ethernet.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let (raw, _padding) = RawArp::ref_from_prefix(bytes).ok()?;
        let is_ipv4 = raw.hardware.get() == HARDWARE_ETHERNET
            && raw.protocol.get() == EtherType::IPV4.0
            && (raw.hardware_length, raw.protocol_length) == (6, 4);
        let operation = match raw.operation.get() {
            REQUEST => Operation::Request,
            REPLY => Operation::Reply,
            _ => return None,
        };
        is_ipv4.then_some(Self {
            operation,
            sender: (Mac(raw.sender_mac), raw.sender.into()),
            target: (Mac(raw.target_mac), raw.target.into()),
        })
    }

    /// The whole frame.
    pub fn emit(&self, source: Mac, destination: Mac) -> Vec<u8> {
        let operation = match self.operation {
            Operation::Request => REQUEST,
            Operation::Reply => REPLY,
        };
        let raw = RawArp {
            hardware: U16::new(HARDWARE_ETHERNET),
            protocol: U16::new(EtherType::IPV4.0),
            hardware_length: 6,
            protocol_length: 4,
            operation: U16::new(operation),
            sender_mac: self.sender.0.0,
            sender: self.sender.1.octets(),
            target_mac: self.target.0.0,
            target: self.target.1.octets(),
        };
        ethernet(source, destination, ETHER_TYPE_ARP, &[raw.as_bytes()])
    }
}
