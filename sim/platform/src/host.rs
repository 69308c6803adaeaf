//! The host of the fabric that this process is on, and the MAC address, GUID and GID table of each
//! of its devices.

use std::net::{IpAddr, Ipv4Addr};

pub use ferroce_host::identity::{GidEntry, HostIdentity};
use ferroce_wire::{Gid, Mac};

use crate::os;

/// Most addresses of a device.
pub const MAX_GIDS: usize = 32;
/// Most bytes of a host's name.
pub const MAX_HOST_NAME: usize = 64;

/// An environment variable with an invalid value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name}={value}: {reason}")]
pub struct EnvironmentError {
    /// The variable.
    pub name: &'static str,
    /// Its value.
    pub value: String,
    /// The reason.
    pub reason: String,
}

impl EnvironmentError {
    /// Returns the message for a value that was not given by the variable, but by this option.
    #[must_use]
    pub fn of_option(&self, option: &str) -> String {
        format!("{option} {}: {}", self.value, self.reason)
    }
}

/// Devices that a host can have.
pub const MAX_DEVICES: u8 = 8;
/// Functions that a device can have in a process (PCIe 6.0, 2.2.6.2: of a device without ARI).
pub const MAX_FUNCTIONS: u8 = 8;
/// The variable with the number of functions of each device.
pub const FUNCTIONS_VARIABLE: &str = "FERROCE_FUNCTIONS";

/// Returns a device of the host that the environment selects: the machine itself, or
/// `FERROCE_HOST`.
///
/// `ferroce0` has the host's addresses, each further device a separate one.
///
/// # Errors
/// [`EnvironmentError`] if a variable is invalid.
pub fn of_device(device: u8) -> Result<HostIdentity, EnvironmentError> {
    let addresses = addresses_from_environment(device)?;
    match variable("FERROCE_HOST") {
        Some(name) => named_device(&name, device, addresses),
        None => Ok(machine(device, addresses)),
    }
}

/// Returns the first device of a host that exists only on the fabric. Without addresses it gets
/// one in 10.0.0.0/8.
///
/// # Errors
/// [`EnvironmentError`] if the name is too long or contains control characters.
pub fn named(name: &str, addresses: Option<Vec<IpAddr>>) -> Result<HostIdentity, EnvironmentError> {
    named_device(name, 0, addresses)
}

/// Does the same as [`named`] for any device.
///
/// # Errors
/// The errors of [`named`].
pub fn named_device(
    name: &str,
    device: u8,
    addresses: Option<Vec<IpAddr>>,
) -> Result<HostIdentity, EnvironmentError> {
    if name.len() > MAX_HOST_NAME || name.chars().any(char::is_control) {
        return Err(EnvironmentError {
            name: "FERROCE_HOST",
            value: name.to_owned(),
            reason: format!("a host name has at most {MAX_HOST_NAME} printable bytes"),
        });
    }
    let hash = hash(b"ferroce host ", name.as_bytes(), device);
    let addresses = addresses.unwrap_or_else(|| vec![derived_address(hash)]);
    let addresses = addresses
        .into_iter()
        .map(|address| ("lo".to_owned(), address));
    Ok(identity_of(
        name.to_owned(),
        device,
        derived_mac(hash),
        addresses.collect(),
    ))
}

/// Returns the identity of a card in this host whose port has the address `mac`. The port gets the
/// link-local address of its MAC; the first card also gets the addresses of `FERROCE_ADDRESS`.
/// There is no interface of the machine that could supply others.
///
/// # Errors
/// [`EnvironmentError`] if the variable is invalid.
pub fn of_card(device: u8, mac: [u8; 6]) -> Result<HostIdentity, EnvironmentError> {
    let addresses = addresses_from_environment(device)?.unwrap_or_default();
    let addresses = addresses
        .into_iter()
        .map(|address| ("lo".to_owned(), address));
    Ok(identity_of(
        host_name(),
        device,
        Mac(mac),
        addresses.collect(),
    ))
}

/// Returns the machine: 127.0.0.1 first, then the addresses of its interfaces. Its further
/// devices have the following loopback addresses.
fn machine(device: u8, addresses: Option<Vec<IpAddr>>) -> HostIdentity {
    let [a, b, c, d] = Ipv4Addr::LOCALHOST.octets();
    let loopback = Ipv4Addr::new(a, b, c, d + device);
    let mut table = vec![("lo".to_owned(), IpAddr::V4(loopback))];
    match addresses {
        Some(given) => table.extend(given.into_iter().map(|a| ("lo".to_owned(), a))),
        None if device == 0 => table.extend(os::interface_addresses()),
        None => {}
    }
    let name = host_name();
    let machine = std::fs::read("/etc/machine-id").unwrap_or_default();
    // A container often has no machine-id, but a separate host name.
    let identity = if machine.is_empty() {
        name.as_bytes()
    } else {
        &machine
    };
    let mac = derived_mac(hash(b"ferroce machine ", identity, device));
    identity_of(name, device, mac, table)
}

fn identity_of(
    name: String,
    device: u8,
    mac: Mac,
    addresses: Vec<(String, IpAddr)>,
) -> HostIdentity {
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
    HostIdentity {
        name,
        device,
        mac: mac.0,
        node_guid: mac.to_eui64(),
        gids,
    }
}

/// Returns how many devices the environment requests: `FERROCE_DEVICES`, or one.
///
/// # Errors
/// [`EnvironmentError`] if it is not a number from 1 to [`MAX_DEVICES`].
pub fn devices_from_environment() -> Result<u8, EnvironmentError> {
    variable("FERROCE_DEVICES").map_or(Ok(1), |text| parse_devices(&text))
}

/// Parses a number of devices.
///
/// # Errors
/// [`EnvironmentError`] if it is not a number from 1 to [`MAX_DEVICES`].
pub fn parse_devices(text: &str) -> Result<u8, EnvironmentError> {
    let reason = || format!("a host has 1 to {MAX_DEVICES} devices");
    parse_count("FERROCE_DEVICES", text, MAX_DEVICES, reason)
}

/// Returns how many functions of each device the environment requests: `FERROCE_FUNCTIONS`, or one.
///
/// # Errors
/// [`EnvironmentError`] if it is not a number from 1 to [`MAX_FUNCTIONS`].
pub fn functions_from_environment() -> Result<u8, EnvironmentError> {
    variable(FUNCTIONS_VARIABLE).map_or(Ok(1), |text| parse_functions(&text))
}

/// Parses a number of functions.
///
/// # Errors
/// [`EnvironmentError`] if it is not a number from 1 to [`MAX_FUNCTIONS`].
pub fn parse_functions(text: &str) -> Result<u8, EnvironmentError> {
    let reason = || format!("a device has 1 to {MAX_FUNCTIONS} functions");
    parse_count(FUNCTIONS_VARIABLE, text, MAX_FUNCTIONS, reason)
}

fn parse_count(
    name: &'static str,
    text: &str,
    most: u8,
    reason: impl FnOnce() -> String,
) -> Result<u8, EnvironmentError> {
    let count = text.trim().parse().ok();
    count
        .filter(|count| (1..=most).contains(count))
        .ok_or_else(|| EnvironmentError {
            name,
            value: text.to_owned(),
            reason: reason(),
        })
}

/// Returns the name of a device of a host.
#[must_use]
pub fn device_name(device: u8) -> String {
    format!("ferroce{device}")
}

/// Parses the addresses of `FERROCE_ADDRESS`, separated by commas.
///
/// # Errors
/// [`EnvironmentError`] naming the invalid address.
pub fn parse_addresses(text: &str) -> Result<Vec<IpAddr>, EnvironmentError> {
    let parsed = text.split(',').map(|part| {
        let part = part.trim();
        part.parse()
            .ok()
            .filter(|address| is_usable(*address))
            .ok_or_else(|| EnvironmentError {
                name: "FERROCE_ADDRESS",
                value: text.to_owned(),
                reason: format!("{part:?} is not the IP address of a host"),
            })
    });
    parsed.collect()
}

/// Returns true for an address that a RoCE port on this fabric can have.
fn is_usable(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => !v4.is_unspecified() && !v4.is_multicast() && !v4.is_broadcast(),
        // Link-local addresses are derived from other MAC addresses, and ::1 is of no use on a
        // wire.
        IpAddr::V6(v6) => {
            !v6.is_unspecified()
                && !v6.is_multicast()
                && !v6.is_loopback()
                && !v6.is_unicast_link_local()
        }
    }
}

/// Returns the addresses that the environment gives to a device: only the first one gets any.
fn addresses_from_environment(device: u8) -> Result<Option<Vec<IpAddr>>, EnvironmentError> {
    let addresses = variable("FERROCE_ADDRESS").map(|text| parse_addresses(&text));
    Ok(addresses.transpose()?.filter(|_| device == 0))
}

/// Returns the value of a variable that is set and not empty.
pub fn variable(name: &str) -> Option<String> {
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

/// Hashes all parts by FNV-1a, with its bits mixed: the upper ones are used, too.
fn hash(salt: &[u8], bytes: &[u8], device: u8) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x100_0000_01b3;
    // The first device keeps the identity of a host with a single device. No name contains a zero.
    let number = [0, device];
    let number = if device == 0 { &[][..] } else { &number };
    let hash = salt
        .iter()
        .chain(bytes)
        .chain(number)
        .fold(OFFSET, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(PRIME)
        });
    let mixed = (hash ^ hash >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}

/// Returns a locally administered unicast address.
fn derived_mac(hash: u64) -> Mac {
    let [a, b, c, d, e, f, ..] = hash.to_be_bytes();
    Mac([a & 0xfc | 0x02, b, c, d, e, f])
}

/// Returns an address in 10.0.0.0/8 that is neither the network nor the broadcast address.
fn derived_address(hash: u64) -> IpAddr {
    let [.., a, b, c] = hash.to_le_bytes();
    IpAddr::V4(Ipv4Addr::new(10, a, b, c.clamp(1, 254)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_has_its_link_local_address_then_loopback() {
        let host = machine(0, None);
        assert_eq!(Gid(host.gids[0].gid), Gid::link_local(Mac(host.mac)));
        assert_eq!(Gid(host.gids[1].gid), Gid::from_ipv4(Ipv4Addr::LOCALHOST));
        assert_eq!(host.mac[0] & 3, 2, "locally administered, unicast");
        assert_eq!(host, machine(0, None), "the same for every process");
        let mut gids: Vec<_> = host.gids.iter().map(|entry| entry.gid).collect();
        gids.sort_unstable();
        gids.dedup();
        assert_eq!(gids.len(), host.gids.len());
    }

    #[test]
    fn named_hosts_differ_and_have_no_loopback_address() {
        let a = named("a", None).expect("a name");
        let b = named("b", None).expect("a name");
        assert_ne!(a.mac, b.mac);
        assert_ne!(a.gids[1].gid, b.gids[1].gid);
        let loopback = Gid::from_ipv4(Ipv4Addr::LOCALHOST).0;
        assert!(a.gids.iter().all(|entry| entry.gid != loopback));
        let given = parse_addresses("192.0.2.7, 2001:db8::7").expect("addresses");
        let c = named("c", Some(given)).expect("a name");
        assert_eq!(c.gids.len(), 3);
        assert!(named(&"x".repeat(65), None).is_err());
    }

    #[test]
    fn each_device_has_a_separate_identity() {
        let machine: Vec<_> = (0..MAX_DEVICES)
            .map(|device| machine(device, None))
            .collect();
        let named = (0..MAX_DEVICES).map(|device| named_device("a", device, None).expect("a name"));
        assert_eq!(
            Gid(machine[1].gids[1].gid),
            Gid::from_ipv4(Ipv4Addr::new(127, 0, 0, 2))
        );
        let all: Vec<_> = machine.iter().cloned().chain(named).collect();
        for (index, one) in all.iter().enumerate() {
            for other in &all[..index] {
                assert_ne!(one.mac, other.mac);
                assert_ne!(one.node_guid, other.node_guid);
                assert!(one.gids.iter().all(|entry| !other.gids.contains(entry)));
                let shared = |entry: &GidEntry| other.gids.iter().any(|e| e.gid == entry.gid);
                assert!(!one.gids.iter().any(shared), "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn numbers_of_devices_have_limits() {
        assert_eq!(parse_devices("8").expect("the limit"), MAX_DEVICES);
        for bad in ["0", "9", "-1", "two", "1.5"] {
            let message = parse_devices(bad).expect_err(bad).to_string();
            assert!(message.contains("1 to 8"), "{message}");
        }
    }

    #[test]
    fn addresses_that_are_none_are_named() {
        for bad in ["", "10.0.0", "10.0.0.1,", "0.0.0.0", "224.0.0.1", "fe80::1"] {
            assert!(parse_addresses(bad).is_err(), "{bad:?}");
        }
    }
}
