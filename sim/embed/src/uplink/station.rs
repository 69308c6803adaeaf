//! What a station on an Ethernet does besides RoCE so that others find it and it finds them: ARP,
//! IPv6 neighbour discovery, and answers to ping.

use std::net::{Ipv4Addr, Ipv6Addr};

use ferroce_wire::{EtherType, EthernetHeader, Gid, Mac};

use arp::{Arp, Operation};
use neighbour::{Advertisement, Message, Solicitation};

pub mod arp;
mod checksum;
mod echo;
mod ipv6;
pub mod neighbour;

/// The EtherType of ARP.
pub const ETHER_TYPE_ARP: EtherType = EtherType(0x0806);
/// Bytes of an Ethernet header without VLAN tag.
const ETHERNET_LENGTH: usize = 14;

/// Who we are on the wire.
#[derive(Debug, Clone, Copy)]
pub struct Station<'a> {
    /// Our MAC address.
    pub mac: Mac,
    /// Our addresses.
    pub gids: &'a [Gid],
}

/// What follows from a frame that is not RoCE.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// Where an address was found to be.
    pub neighbour: Option<(Gid, Mac)>,
    /// What to answer.
    pub answer: Option<Vec<u8>>,
}

impl Station<'_> {
    /// Reads a frame that is not RoCE. Whatever makes no sense is ignored.
    pub fn hear(&self, frame: &[u8]) -> Heard {
        let Ok((ethernet, ether_type)) = EthernetHeader::parse(frame) else {
            return Heard::default();
        };
        let body = &frame[ethernet.length()..];
        match ether_type {
            _ if ethernet.vlan.is_some() => Heard::default(),
            ETHER_TYPE_ARP => {
                Arp::parse(body).map_or_else(Heard::default, |arp| self.hear_arp(&arp))
            }
            EtherType::IPV4 => Heard {
                neighbour: None,
                answer: echo::answer_ipv4(self, &ethernet, body),
            },
            EtherType::IPV6 => match Message::parse(body) {
                Some(message) => self.hear_neighbour(&ethernet, &message),
                None => Heard {
                    neighbour: None,
                    answer: echo::answer_ipv6(self, &ethernet, body),
                },
            },
            _ => Heard::default(),
        }
    }

    /// A question for the MAC address of `target`; None if we have no address to ask from.
    pub fn ask(&self, target: Gid) -> Option<Vec<u8>> {
        match target.to_ipv4() {
            Some(target) => {
                let sender = self.nearest(Gid::from_ipv4(target)).and_then(Gid::to_ipv4);
                let arp = Arp {
                    operation: Operation::Request,
                    // RFC 5227, 2.1.1: a probe of somebody without an address.
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

    /// What tells everybody where we are: switches learn the way, stations correct their tables.
    pub fn announcements(&self) -> impl Iterator<Item = Vec<u8>> {
        self.gids
            .iter()
            .filter(|gid| is_on_wire(**gid))
            .map(|gid| match gid.to_ipv4() {
                Some(address) => {
                    // RFC 5227, 3: an announcement is a request for one's own address.
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

    /// Whether an address is ours and others may know.
    pub fn owns(&self, gid: Gid) -> bool {
        is_on_wire(gid) && self.gids.contains(&gid)
    }

    fn hear_arp(&self, arp: &Arp) -> Heard {
        let (sender_mac, sender) = arp.sender;
        let is_for_us = self.owns(Gid::from_ipv4(arp.target.1));
        let is_station = !sender_mac.is_multicast() && is_host(sender) && sender_mac != self.mac;
        let answer = || Arp {
            operation: Operation::Reply,
            sender: (self.mac, arp.target.1),
            target: arp.sender,
        };
        Heard {
            // RFC 826: who asks for us will be answered, so it pays to know where it is.
            neighbour: (is_for_us && is_station).then_some((Gid::from_ipv4(sender), sender_mac)),
            answer: (is_for_us && arp.operation == Operation::Request && sender_mac != self.mac)
                .then(|| answer().emit(self.mac, sender_mac)),
        }
    }

    fn hear_neighbour(&self, ethernet: &EthernetHeader, message: &Message) -> Heard {
        match message {
            Message::Solicitation(source, solicitation) => {
                let target = Gid(solicitation.target.octets());
                if !self.owns(target) || ethernet.source == self.mac {
                    return Heard::default();
                }
                let is_probe = source.is_unspecified();
                let mac = solicitation.source_mac.unwrap_or(ethernet.source);
                // RFC 4861, 7.2.4: a probe for duplicates is answered to everybody.
                let to = match is_probe {
                    true => (neighbour::ALL_NODES_MAC, neighbour::ALL_NODES),
                    false => (mac, *source),
                };
                let advertisement = Advertisement {
                    target: solicitation.target,
                    target_mac: Some(self.mac),
                    is_solicited: !is_probe,
                };
                Heard {
                    neighbour: (!is_probe && !mac.is_multicast())
                        .then_some((Gid(source.octets()), mac)),
                    answer: Some(advertisement.emit(self.mac, solicitation.target, to)),
                }
            }
            Message::Advertisement(advertisement) => {
                let mac = advertisement.target_mac.unwrap_or(ethernet.source);
                let target = Gid(advertisement.target.octets());
                let is_usable = !mac.is_multicast() && !target.is_multicast() && !self.owns(target);
                Heard {
                    neighbour: is_usable.then_some((target, mac)),
                    answer: None,
                }
            }
        }
    }

    /// That of our addresses from which `target` is asked for: of the same version of IP, and with
    /// the longest common prefix.
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

/// Whether an address means the same to everybody on a wire, so that it may appear there.
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

/// A frame around a body.
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

/// The MAC address of the group to which one asks for an IPv6 address (RFC 4291, 2.7.1, and RFC
/// 2464, 7).
fn solicited_node(target: Ipv6Addr) -> (Mac, Ipv6Addr) {
    let [.., a, b, c] = target.octets();
    let group = Ipv6Addr::from([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c]);
    (Mac([0x33, 0x33, 0xff, a, b, c]), group)
}

#[cfg(test)]
mod tests;
