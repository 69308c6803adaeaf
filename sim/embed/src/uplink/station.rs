//! The protocols of an Ethernet station other than RoCE: ARP, IPv6 neighbour discovery, ping.
//!
//! Written by hand: on smoltcp's `wire` (0.13) it would be some 200 lines shorter but would add
//! about 30 KB to `libibverbs.so.1`, and smoltcp has no Ethernet without its sockets.

use std::net::{Ipv4Addr, Ipv6Addr};

use arp::{Arp, Operation};
use ferroce_wire::{EtherType, EthernetHeader, Gid, Mac};
use neighbour::{Advertisement, Message, Solicitation};

pub mod arp;
mod echo;
mod ipv6;
pub mod neighbour;

/// The EtherType of ARP.
pub const ETHER_TYPE_ARP: EtherType = EtherType(0x0806);
/// Bytes of an Ethernet header without VLAN tag.
const ETHERNET_LENGTH: usize = 14;

/// The addresses of this station.
#[derive(Debug, Clone, Copy)]
pub struct Station<'a> {
    /// Its MAC address.
    pub mac: Mac,
    /// Its GIDs.
    pub gids: &'a [Gid],
}

/// Result of a received frame that is not RoCE.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// An address that was learned.
    pub neighbour: Option<(Gid, Mac)>,
    /// The answer to send.
    pub answer: Option<Vec<u8>>,
}

impl Station<'_> {
    /// Handles a frame that is not RoCE. Invalid frames are ignored.
    pub fn receive(&self, frame: &[u8]) -> Received {
        let Ok((ethernet, ether_type)) = EthernetHeader::parse(frame) else {
            return Received::default();
        };
        let body = &frame[ethernet.length()..];
        match ether_type {
            _ if ethernet.vlan.is_some() => Received::default(),
            ETHER_TYPE_ARP => {
                Arp::parse(body).map_or_else(Received::default, |arp| self.receive_arp(&arp))
            }
            EtherType::IPV4 => Received {
                neighbour: None,
                answer: echo::answer_ipv4(self, &ethernet, body),
            },
            EtherType::IPV6 => match Message::parse(body) {
                Some(message) => self.receive_neighbour(&ethernet, &message),
                None => Received {
                    neighbour: None,
                    answer: echo::answer_ipv6(self, &ethernet, body),
                },
            },
            _ => Received::default(),
        }
    }

    /// Returns a request for the MAC address of `target`. `None` if there is no source address for
    /// it.
    pub fn ask(&self, target: Gid) -> Option<Vec<u8>> {
        match target.to_ipv4() {
            Some(target) => {
                let sender = self.nearest(Gid::from_ipv4(target)).and_then(Gid::to_ipv4);
                let arp = Arp {
                    operation: Operation::Request,
                    // RFC 5227, 2.1.1: a station without an address sends a probe.
                    sender: (self.mac, sender.unwrap_or(Ipv4Addr::UNSPECIFIED)),
                    target: (Mac::default(), target),
                };
                Some(arp.emit(self.mac, Mac::BROADCAST))
            }
            None => {
                let target = target.to_ipv6();
                let source = self.nearest(Gid(target.octets()))?.to_ipv6();
                let solicitation = Solicitation {
                    target,
                    source_mac: Some(self.mac),
                };
                Some(solicitation.emit(self.mac, source))
            }
        }
    }

    /// Returns announcements of the addresses: switches learn the port, stations update their
    /// tables.
    pub fn announcements(&self) -> impl Iterator<Item = Vec<u8>> {
        self.gids
            .iter()
            .filter(|gid| is_on_wire(**gid))
            .map(|gid| match gid.to_ipv4() {
                Some(address) => {
                    // RFC 5227, 3: an announcement is a request for the sender's own address.
                    let arp = Arp {
                        operation: Operation::Request,
                        sender: (self.mac, address),
                        target: (Mac::default(), address),
                    };
                    arp.emit(self.mac, Mac::BROADCAST)
                }
                None => {
                    let advertisement = Advertisement {
                        target: gid.to_ipv6(),
                        target_mac: Some(self.mac),
                        is_solicited: false,
                    };
                    let to = (neighbour::ALL_NODES_MAC, neighbour::ALL_NODES);
                    advertisement.emit(self.mac, gid.to_ipv6(), to)
                }
            })
    }

    /// Returns true if an address belongs to this station and is valid on the wire.
    pub fn owns(&self, gid: Gid) -> bool {
        is_on_wire(gid) && self.gids.contains(&gid)
    }

    fn receive_arp(&self, arp: &Arp) -> Received {
        let (sender_mac, sender) = arp.sender;
        let is_for_us = self.owns(Gid::from_ipv4(arp.target.1));
        let is_station = !sender_mac.is_multicast() && is_host(sender) && sender_mac != self.mac;
        let answer = || Arp {
            operation: Operation::Reply,
            sender: (self.mac, arp.target.1),
            target: arp.sender,
        };
        Received {
            // RFC 826: the sender of a request will be answered, so its address is worth recording.
            neighbour: (is_for_us && is_station).then_some((Gid::from_ipv4(sender), sender_mac)),
            answer: (is_for_us && arp.operation == Operation::Request && sender_mac != self.mac)
                .then(|| answer().emit(self.mac, sender_mac)),
        }
    }

    fn receive_neighbour(&self, ethernet: &EthernetHeader, message: &Message) -> Received {
        match message {
            Message::Solicitation(source, solicitation) => {
                let target = Gid(solicitation.target.octets());
                if !self.owns(target) || ethernet.source == self.mac {
                    return Received::default();
                }
                let is_probe = source.is_unspecified();
                let mac = solicitation.source_mac.unwrap_or(ethernet.source);
                // RFC 4861, 7.2.4: a duplicate probe is answered to all nodes.
                let to = if is_probe {
                    (neighbour::ALL_NODES_MAC, neighbour::ALL_NODES)
                } else {
                    (mac, *source)
                };
                let advertisement = Advertisement {
                    target: solicitation.target,
                    target_mac: Some(self.mac),
                    is_solicited: !is_probe,
                };
                Received {
                    neighbour: (!is_probe && !mac.is_multicast())
                        .then_some((Gid(source.octets()), mac)),
                    answer: Some(advertisement.emit(self.mac, solicitation.target, to)),
                }
            }
            Message::Advertisement(advertisement) => {
                let mac = advertisement.target_mac.unwrap_or(ethernet.source);
                let target = Gid(advertisement.target.octets());
                let is_usable = !mac.is_multicast() && !target.is_multicast() && !self.owns(target);
                Received {
                    neighbour: is_usable.then_some((target, mac)),
                    answer: None,
                }
            }
        }
    }

    /// Returns the own address from which to ask for `target`: the same IP version, and the longest
    /// common prefix.
    fn nearest(&self, target: Gid) -> Option<Gid> {
        let is_ipv4 = target.to_ipv4().is_some();
        let prefix = |gid: &Gid| {
            (u128::from_be_bytes(gid.0) ^ u128::from_be_bytes(target.0)).leading_zeros()
        };
        let ours = self.gids.iter().copied();
        ours.filter(|gid| is_on_wire(*gid) && gid.to_ipv4().is_some() == is_ipv4)
            .max_by_key(prefix)
    }
}

/// Returns true if an address has the same meaning for all stations on a wire, so that it may be
/// used there.
pub fn is_on_wire(gid: Gid) -> bool {
    match gid.to_ipv4() {
        Some(address) => is_host(address),
        None => {
            let address = gid.to_ipv6();
            !address.is_unspecified() && !address.is_loopback() && !address.is_multicast()
        }
    }
}

fn is_host(address: Ipv4Addr) -> bool {
    !address.is_unspecified()
        && !address.is_loopback()
        && !address.is_multicast()
        && !address.is_broadcast()
}

/// Builds a frame around a body.
fn ethernet(source: Mac, destination: Mac, ether_type: EtherType, body: &[&[u8]]) -> Vec<u8> {
    let header = EthernetHeader {
        destination,
        source,
        vlan: None,
    };
    let mut frame = vec![0; ETHERNET_LENGTH];
    header.emit(ether_type, &mut frame);
    body.iter().for_each(|part| frame.extend_from_slice(part));
    frame
}

/// Returns the solicited-node multicast address of an IPv6 address, and its MAC address (RFC 4291,
/// 2.7.1, and RFC 2464, 7).
fn solicited_node(target: Ipv6Addr) -> (Mac, Ipv6Addr) {
    let [.., a, b, c] = target.octets();
    let group = Ipv6Addr::from([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c]);
    (Mac([0x33, 0x33, 0xff, a, b, c]), group)
}

#[cfg(test)]
mod tests;
