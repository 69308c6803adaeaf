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

/// Operation of an ARP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Request for the target address.
    Request,
    /// Reply with the sender's address.
    Reply,
}

/// An ARP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arp {
    /// Request or reply.
    pub operation: Operation,
    /// The sender.
    pub sender: (Mac, Ipv4Addr),
    /// The target; the MAC address in a request is not meaningful.
    pub target: (Mac, Ipv4Addr),
}

impl Arp {
    /// Parses the bytes after the Ethernet header. `None` if it is not ARP for IPv4 over Ethernet.
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

    /// Builds the whole frame.
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
