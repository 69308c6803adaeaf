//! Names and addresses of the hosts of a world, derived from their numbers.

use core::net::{IpAddr, Ipv4Addr};

use ferroce_wire::{Gid, Mac};

use crate::identity::{GidEntry, HostIdentity};

/// A locally administered unicast address; the last two bytes are the host's number.
const MAC_PREFIX: [u8; 4] = [0x02, 0xfe, 0, 0];
/// The hosts' network: 10.x.y.z, with the host's number and one in the last three bytes.
const NETWORK: u32 = 10 << 24;

/// Returns the identity of host `number`.
pub fn of_host(number: usize) -> HostIdentity {
    let mac = mac_of(number);
    let address = Ipv4Addr::from_bits(NETWORK + number as u32 + 1);
    let entry = |gid: Gid| GidEntry {
        gid: gid.0,
        mac: mac.0,
        interface: "lo".to_owned(),
    };
    HostIdentity {
        name: format!("host{number}"),
        device: 0,
        mac: mac.0,
        node_guid: mac.to_eui64(),
        gids: vec![
            entry(Gid::link_local(mac)),
            entry(Gid::from_ip(IpAddr::V4(address))),
        ],
    }
}

/// Returns the MAC address of host `number`.
pub fn mac_of(number: usize) -> Mac {
    let [a, b, c, d] = MAC_PREFIX;
    let [e, f] = (number as u16).to_be_bytes();
    Mac([a, b, c, d, e, f])
}

/// Returns the host with this MAC address.
#[inline]
pub fn host_of(mac: Mac) -> Option<usize> {
    let [prefix @ .., e, f] = mac.0;
    (prefix == MAC_PREFIX).then_some(usize::from(u16::from_be_bytes([e, f])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_host_has_its_own_addresses() {
        let numbers = [0, 1, 2, 254, 255, 256, 65_535];
        for number in numbers {
            let identity = of_host(number);
            assert_eq!(host_of(Mac(identity.mac)), Some(number));
            assert!(!Mac(identity.mac).is_multicast());
            for other in numbers.into_iter().filter(|other| *other != number) {
                assert_ne!(identity.gids[1].gid, of_host(other).gids[1].gid);
            }
        }
        assert_eq!(host_of(Mac([2, 0, 0, 0, 0, 1])), None);
    }
}
