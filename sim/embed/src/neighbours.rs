//! MAC addresses of neighbours, which a driver needs for an address handle or a connected QP.
//!
//! A kernel driver would ask the kernel's neighbour table. There is no network interface here, so
//! these sources are asked in order: this function, the functions on the fabric of this machine,
//! the user's list (`FERROCE_NEIGHBOURS`), the address itself if it was derived from a MAC address,
//! and the station at the other end of the uplink.

use std::net::IpAddr;
use std::sync::Arc;

use ferroce_platform::host::EnvironmentError;
use ferroce_platform::host::HostIdentity;
use ferroce_wire::{Gid, Mac};

use crate::error::Error;
use crate::fabric::registry::{PLACES, Registry};
use crate::uplink::Uplink;

/// Maximum number of entries of `FERROCE_NEIGHBOURS`.
const MAX_NEIGHBOURS: usize = 256;

/// The sources of neighbours.
#[derive(Debug, Clone, Default)]
pub struct Neighbours {
    registry: Option<&'static Registry>,
    listed: Vec<(Gid, Mac)>,
    uplink: Option<Arc<Uplink>>,
}

impl Neighbours {
    /// Uses the functions on the fabric of this registry (if any), the list in
    /// `FERROCE_NEIGHBOURS`, and the stations on the uplink.
    ///
    /// # Errors
    /// [`Error::Environment`] naming the invalid neighbour.
    pub fn from_environment(
        registry: Option<&'static Registry>,
        uplink: Option<Arc<Uplink>>,
    ) -> Result<Self, Error> {
        let listed = std::env::var("FERROCE_NEIGHBOURS").unwrap_or_default();
        Ok(Self {
            registry,
            listed: parse(&listed)?,
            uplink,
        })
    }

    /// Uses only the hosts of a simulated world.
    pub fn fixed(hosts: Vec<(Gid, Mac)>) -> Self {
        Self {
            listed: hosts,
            ..Self::default()
        }
    }

    /// Returns the MAC address with which `host` reaches a GID. `None` if no station has the GID.
    pub fn resolve_mac(&self, host: &HostIdentity, gid: [u8; 16]) -> Option<[u8; 6]> {
        if host.gids.iter().any(|entry| entry.gid == gid) {
            return Some(host.mac);
        }
        let gid = Gid(gid);
        let known = self.on_fabric(gid).or_else(|| self.listed(gid));
        let mac = known.or_else(|| embedded_mac(gid));
        mac.or_else(|| self.uplink.as_ref()?.resolve_mac(gid))
            .map(|mac| mac.0)
    }

    fn on_fabric(&self, gid: Gid) -> Option<Mac> {
        let registry = self.registry?;
        let owner = (1..PLACES as u8)
            .filter(|place| registry.owns_gid(*place, gid) && registry.is_alive(*place))
            .find_map(|place| registry.occupant(place));
        owner.map(|owner| owner.identity.mac)
    }

    fn listed(&self, gid: Gid) -> Option<Mac> {
        let entry = self.listed.iter().find(|(known, _)| *known == gid);
        entry.map(|(_, mac)| *mac)
    }
}

/// Returns the MAC address from which a link-local address was derived (RFC 4291, appendix A).
fn embedded_mac(gid: Gid) -> Option<Mac> {
    let [.., a, b, c, 0xff, 0xfe, d, e, f] = gid.0 else {
        return None;
    };
    gid.is_link_local().then_some(Mac([a ^ 2, b, c, d, e, f]))
}

/// Parses neighbours as `ADDRESS=MAC`, separated by commas.
///
/// # Errors
/// [`Error::Environment`] naming the invalid neighbour.
pub fn parse(text: &str) -> Result<Vec<(Gid, Mac)>, Error> {
    let refused = |part: &str, why: String| {
        Error::Environment(EnvironmentError {
            name: "FERROCE_NEIGHBOURS",
            value: part.to_owned(),
            reason: why,
        })
    };
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    let parts = parts.into_iter().filter(|part| !part.is_empty());
    let listed: Vec<_> = parts
        .map(|part| {
            let (address, mac) = part.split_once('=').unwrap_or((part, ""));
            let address = address.parse::<IpAddr>();
            match (address, mac.parse::<Mac>()) {
                (Ok(address), Ok(mac)) => Ok((Gid::from_ip(address), mac)),
                (Err(_), _) => Err(refused(part, "not an IP address before the =".to_owned())),
                (_, Err(_)) => Err(refused(
                    part,
                    "no MAC address after the =, such as 02:00:00:00:00:01".to_owned(),
                )),
            }
        })
        .collect::<Result<_, _>>()?;
    if listed.len() > MAX_NEIGHBOURS {
        let why = format!("more than {MAX_NEIGHBOURS} neighbours");
        return Err(refused(text, why));
    }
    Ok(listed)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn link_local_addresses_resolve_without_a_question() {
        let directory = ferroce_test_support::temporary_directory("resolve");
        let registry = Registry::open(directory.path()).expect("new");
        let neighbours = Neighbours {
            registry: Some(registry),
            listed: parse("192.0.2.98=02:00:00:00:00:0a").expect("one"),
            uplink: None,
        };
        let host = ferroce_platform::host::named("a", None).expect("a name");
        let resolve = |gid: Gid| neighbours.resolve_mac(&host, gid.0);
        assert_eq!(resolve(Gid(host.gids[1].gid)), Some(host.mac));
        let other = Mac([2, 1, 2, 3, 4, 5]);
        assert_eq!(resolve(Gid::link_local(other)), Some(other.0));
        let unknown = Gid::from_ipv4(Ipv4Addr::new(192, 0, 2, 99));
        assert_eq!(resolve(unknown), None);
        let listed = Gid::from_ipv4(Ipv4Addr::new(192, 0, 2, 98));
        assert_eq!(resolve(listed), Some([2, 0, 0, 0, 0, 10]));
    }

    #[test]
    fn what_is_no_neighbour_is_named() {
        assert!(parse("").expect("no neighbours").is_empty());
        let two = "10.0.0.1=2:0:0:0:0:1, 2001:db8::7=02:00:00:00:00:02";
        assert_eq!(parse(two).expect("two").len(), 2);
        for bad in [
            "10.0.0.1",
            "10.0.0=02:00:00:00:00:01",
            "10.0.0.1=02:00:00:00:01",
            "10.0.0.1=02:00:00:00:00:001",
        ] {
            let message = parse(bad).expect_err(bad).to_string();
            assert!(
                message.contains(bad) && message.contains("FERROCE_NEIGHBOURS"),
                "{message}"
            );
        }
    }
}
