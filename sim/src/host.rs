//! Which host of the fabric this process is on: its name, MAC address, GUID and GID table.

use std::net::{IpAddr, Ipv4Addr};

use ferroce_wire::{Gid, Mac};

use crate::error::Error;
use crate::fabric::registry::{MAX_GIDS, MAX_HOST_NAME, Registry};
use crate::os;

/// One entry of the GID table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GidEntry {
    /// The address.
    pub gid: [u8; 16],
    /// MAC address of the port.
    pub mac: [u8; 6],
    /// The machine's network interface that has the address; `lo` if none has it.
    pub interface: String,
}

/// A host of the fabric. All processes on it see one device with this identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostIdentity {
    /// Name of the host.
    pub name: String,
    /// MAC address of its port.
    pub mac: [u8; 6],
    /// GUID of its device: the EUI-64 of the MAC.
    pub node_guid: [u8; 8],
    /// GID table: 0 is the link-local address of the MAC.
    pub gids: Vec<GidEntry>,
}

impl HostIdentity {
    /// The host that the environment asks for: the machine itself, or `FERROCE_HOST`.
    ///
    /// # Errors
    /// [`Error::Environment`] if a variable cannot be understood.
    pub fn from_environment() -> Result<Self, Error> {
        let addresses = match variable("FERROCE_ADDRESS") {
            Some(text) => Some(parse_addresses(&text)?),
            None => None,
        };
        match variable("FERROCE_HOST") {
            Some(name) => Self::named(&name, addresses),
            None => Ok(Self::machine(addresses)),
        }
    }

    /// A host that exists only on the fabric. Without addresses it gets one in 10.0.0.0/8.
    ///
    /// # Errors
    /// [`Error::Environment`] if the name is too long or contains control characters.
    pub fn named(name: &str, addresses: Option<Vec<IpAddr>>) -> Result<Self, Error> {
        if name.len() > MAX_HOST_NAME || name.chars().any(char::is_control) {
            return Err(Error::Environment {
                name: "FERROCE_HOST",
                value: name.to_owned(),
                reason: format!("a host name has at most {MAX_HOST_NAME} printable bytes"),
            });
        }
        let hash = hash(b"ferroce host ", name.as_bytes());
        let addresses = addresses.unwrap_or_else(|| vec![derived_address(hash)]);
        let addresses = addresses
            .into_iter()
            .map(|address| ("lo".to_owned(), address));
        Ok(Self::new(
            name.to_owned(),
            derived_mac(hash),
            addresses.collect(),
        ))
    }

    /// The machine: 127.0.0.1 first, then what its interfaces have.
    fn machine(addresses: Option<Vec<IpAddr>>) -> Self {
        let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let mut table = vec![("lo".to_owned(), loopback)];
        match addresses {
            Some(given) => table.extend(given.into_iter().map(|a| ("lo".to_owned(), a))),
            None => table.extend(os::interface_addresses()),
        }
        let name = host_name();
        let machine = std::fs::read("/etc/machine-id").unwrap_or_default();
        // A container often has no machine-id, but a host name of its own.
        let identity = if machine.is_empty() {
            name.as_bytes()
        } else {
            &machine
        };
        Self::new(
            name.clone(),
            derived_mac(hash(b"ferroce machine ", identity)),
            table,
        )
    }

    fn new(name: String, mac: Mac, addresses: Vec<(String, IpAddr)>) -> Self {
        let first_interface = addresses.first().map_or("lo", |(name, _)| name).to_owned();
        let entry = |gid: Gid, interface| GidEntry {
            gid: gid.0,
            mac: mac.0,
            interface,
        };
        let mut gids = vec![entry(Gid::link_local(mac), first_interface)];
        for (interface, address) in addresses {
            let gid = Gid::from_ip(address);
            let is_known = gids.iter().any(|known| known.gid == gid.0);
            if gids.len() < MAX_GIDS && !is_known && is_usable(address) {
                gids.push(entry(gid, interface));
            }
        }
        Self {
            name,
            mac: mac.0,
            node_guid: mac.to_eui64(),
            gids,
        }
    }
}

/// The MAC address under which a GID is reached: our own, that of a host on the fabric, or for a
/// link-local GID the one that it was made of.
pub fn resolve_mac(host: &HostIdentity, registry: &Registry, gid: [u8; 16]) -> Option<[u8; 6]> {
    if host.gids.iter().any(|entry| entry.gid == gid) {
        return Some(host.mac);
    }
    let gid = Gid(gid);
    let owner = (1..=u8::MAX)
        .filter(|place| registry.owns_gid(*place, gid) && registry.is_alive(*place))
        .find_map(|place| registry.occupant(place));
    if let Some(owner) = owner {
        return Some(owner.identity.mac.0);
    }
    let [.., a, b, c, 0xff, 0xfe, d, e, f] = gid.0 else {
        return None;
    };
    gid.is_link_local().then_some([a ^ 2, b, c, d, e, f])
}

/// The addresses of `FERROCE_ADDRESS`, separated by commas.
///
/// # Errors
/// [`Error::Environment`] naming what is not an address.
pub fn parse_addresses(text: &str) -> Result<Vec<IpAddr>, Error> {
    let parsed = text.split(',').map(|part| {
        let part = part.trim();
        part.parse()
            .ok()
            .filter(|address| is_usable(*address))
            .ok_or_else(|| Error::Environment {
                name: "FERROCE_ADDRESS",
                value: text.to_owned(),
                reason: format!("{part:?} is not the IP address of a host"),
            })
    });
    parsed.collect()
}

/// Whether an address can be that of a RoCE port on this fabric.
fn is_usable(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => !v4.is_unspecified() && !v4.is_multicast() && !v4.is_broadcast(),
        // Link-local addresses are made of MAC addresses that are not ours, and ::1 is of no use
        // on a wire.
        IpAddr::V6(v6) => {
            !v6.is_unspecified()
                && !v6.is_multicast()
                && !v6.is_loopback()
                && !v6.is_unicast_link_local()
        }
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() {
        "localhost".to_owned()
    } else {
        name.to_owned()
    }
}

/// FNV-1a over both parts, with its bits mixed: the upper ones are used, too.
fn hash(salt: &[u8], bytes: &[u8]) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x100_0000_01b3;
    let hash = salt.iter().chain(bytes).fold(OFFSET, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(PRIME)
    });
    let mixed = (hash ^ hash >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}

/// A locally administered unicast address.
fn derived_mac(hash: u64) -> Mac {
    let [a, b, c, d, e, f, ..] = hash.to_be_bytes();
    Mac([a & 0xfc | 0x02, b, c, d, e, f])
}

/// An address in 10.0.0.0/8 that is neither of the network nor of everybody.
fn derived_address(hash: u64) -> IpAddr {
    let [.., a, b, c] = hash.to_le_bytes();
    IpAddr::V4(Ipv4Addr::new(10, a, b, c.clamp(1, 254)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_has_its_link_local_address_then_loopback() {
        let host = HostIdentity::machine(None);
        assert_eq!(Gid(host.gids[0].gid), Gid::link_local(Mac(host.mac)));
        assert_eq!(Gid(host.gids[1].gid), Gid::from_ipv4(Ipv4Addr::LOCALHOST));
        assert_eq!(host.mac[0] & 3, 2, "locally administered, unicast");
        assert_eq!(
            host,
            HostIdentity::machine(None),
            "the same for every process"
        );
        let mut gids: Vec<_> = host.gids.iter().map(|entry| entry.gid).collect();
        gids.sort_unstable();
        gids.dedup();
        assert_eq!(gids.len(), host.gids.len());
    }

    #[test]
    fn named_hosts_differ_and_have_no_loopback_address() {
        let a = HostIdentity::named("a", None).expect("a name");
        let b = HostIdentity::named("b", None).expect("a name");
        assert_ne!(a.mac, b.mac);
        assert_ne!(a.gids[1].gid, b.gids[1].gid);
        let loopback = Gid::from_ipv4(Ipv4Addr::LOCALHOST).0;
        assert!(a.gids.iter().all(|entry| entry.gid != loopback));
        let given = parse_addresses("192.0.2.7, 2001:db8::7").expect("addresses");
        let c = HostIdentity::named("c", Some(given)).expect("a name");
        assert_eq!(c.gids.len(), 3);
        assert!(HostIdentity::named(&"x".repeat(65), None).is_err());
    }

    #[test]
    fn addresses_that_are_none_are_named() {
        for bad in ["", "10.0.0", "10.0.0.1,", "0.0.0.0", "224.0.0.1", "fe80::1"] {
            assert!(parse_addresses(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn link_local_addresses_resolve_without_asking_anybody() {
        let directory = crate::test_support::temporary_directory("resolve");
        let registry = Registry::open(directory.path()).expect("new");
        let host = HostIdentity::named("a", None).expect("a name");
        assert_eq!(
            resolve_mac(&host, registry, host.gids[1].gid),
            Some(host.mac)
        );
        let other = Mac([2, 1, 2, 3, 4, 5]);
        let gid = Gid::link_local(other).0;
        assert_eq!(resolve_mac(&host, registry, gid), Some(other.0));
        let unknown = Gid::from_ipv4(Ipv4Addr::new(192, 0, 2, 99)).0;
        assert_eq!(resolve_mac(&host, registry, unknown), None);
    }
}
