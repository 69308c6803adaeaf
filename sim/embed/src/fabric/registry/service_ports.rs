//! Ports of RDMA CM, shared by the processes of a host.
//!
//! One table in the header, which every process writes. An entry belongs to a claim of a place, so
//! it is free as soon as the process has ended. To claim a port, a process writes a free entry with
//! a compare-and-swap and checks the table again: of two conflicting entries, the one with the
//! lower index stays.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};

use bitfield::bitfield;
use ferroce_wire::Gid;

use super::Registry;
use super::layout::{MAX_SERVICE_PORTS, SERVICE_PORTS, header};

/// Ports for callers that do not request a specific one; the default range of Linux.
const EPHEMERAL_PORTS: RangeInclusive<u16> = 32_768..=60_999;

bitfield! {
    /// An entry; zero: free.
    #[derive(Clone, Copy, PartialEq, Eq)]
    struct Entry(u64);
    impl new;
    u16, generation, set_generation: 63, 48;
    u8, place, set_place: 47, 40;
    u16, port, set_port: 39, 24;
    /// Low four bits of the port space; they differ between all port spaces.
    u8, space, set_space: 23, 20;
    is_shared, set_is_shared: 19;
    /// True if the port covers IPv4 addresses.
    has_ipv4, set_has_ipv4: 18;
    /// True if the port covers IPv6 addresses.
    has_ipv6, set_has_ipv6: 17;
    /// Zero: every address of the host in these families.
    u32, address, set_address: 16, 0;
}

/// The addresses of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortAddress {
    /// One address.
    One(Gid),
    /// Every IPv4 address of the host.
    AnyIpv4,
    /// Every IPv6 address of the host.
    AnyIpv6,
    /// Every address of the host.
    Any,
}

/// A port of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServicePort {
    /// Port space: the upper part of a service identifier (`enum rdma_port_space`).
    pub space: u16,
    /// Port.
    pub port: u16,
    /// Addresses.
    pub address: PortAddress,
    /// True if other claims with this flag may share it (`RDMA_OPTION_ID_REUSEADDR`).
    pub is_shared: bool,
}

/// Reason why a port cannot be claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PortError {
    /// A process of this host has the port on the same address.
    #[error("a process of this host has the port")]
    InUse,
    /// A process of this host has the port, and one of the two claims covers every address.
    #[error("a process of this host has the port, and one of both wants every address")]
    InUseOnAny,
    /// All ports of [`MAX_SERVICE_PORTS`], or all ephemeral ones, are in use.
    #[error("the processes of this machine have {MAX_SERVICE_PORTS} ports")]
    Full,
}

impl Registry {
    /// Claims a port for the function at `place`.
    ///
    /// # Errors
    /// [`PortError`].
    pub fn claim_port(&self, place: u8, port: &ServicePort) -> Result<(), PortError> {
        let entry = self.entry(place, port);
        self.check(place, entry, MAX_SERVICE_PORTS)?;
        let words = || self.port_words().enumerate();
        // It takes a system call to check that a process is alive, so empty entries are tried
        // first.
        let empty = words().filter(|(_, word)| word.load(Ordering::SeqCst) == 0);
        for (index, word) in empty.chain(words()) {
            let seen = Entry(word.load(Ordering::SeqCst));
            if self.is_held(seen) {
                continue;
            }
            let swapped =
                word.compare_exchange(seen.0, entry.0, Ordering::SeqCst, Ordering::SeqCst);
            if swapped.is_err() {
                continue;
            }
            let checked = self.check(place, entry, index);
            if checked.is_err() {
                word.store(0, Ordering::SeqCst);
            }
            return checked;
        }
        Err(PortError::Full)
    }

    /// Claims a free port for the function at `place` and returns it. `port.port` is not used.
    ///
    /// # Errors
    /// [`PortError`].
    pub fn claim_ephemeral_port(&self, place: u8, port: &ServicePort) -> Result<u16, PortError> {
        let next = self.memory.word(header::NEXT_SERVICE_PORT);
        for _ in EPHEMERAL_PORTS {
            // Ports are given in rotation, so that a late request to a closed port reaches no other
            // service.
            let offset = next.fetch_add(1, Ordering::Relaxed) % EPHEMERAL_PORTS.len() as u64;
            let port = ServicePort {
                port: EPHEMERAL_PORTS.start() + offset as u16,
                ..*port
            };
            match self.claim_port(place, &port) {
                Err(PortError::InUse | PortError::InUseOnAny) => {}
                claimed => return claimed.map(|()| port.port),
            }
        }
        Err(PortError::Full)
    }

    /// Releases a port that the function at `place` has claimed, shared or not.
    pub fn release_port(&self, place: u8, port: &ServicePort) {
        let mut words = self.port_words();
        let entries = [false, true].map(|is_shared| {
            let port = ServicePort { is_shared, ..*port };
            self.entry(place, &port).0
        });
        // Release one entry: a process that has claimed a shared port twice releases it twice.
        words.find(|word| {
            let seen = word.load(Ordering::SeqCst);
            let swap = || word.compare_exchange(seen, 0, Ordering::SeqCst, Ordering::SeqCst);
            entries.contains(&seen) && swap().is_ok()
        });
    }

    /// Returns the place of the live process that owns a port on the host with this address.
    pub fn port_owner(&self, space: u16, port: u16, address: Gid) -> Option<u8> {
        let port = ServicePort {
            space,
            port,
            address: PortAddress::One(address),
            is_shared: false,
        };
        let wanted = self.entry(0, &port);
        let mut entries = self
            .port_words()
            .map(|word| Entry(word.load(Ordering::SeqCst)));
        let found = entries.find(|entry| {
            overlaps(*entry, wanted)
                && self.is_held(*entry)
                && self.owns_gid(entry.place(), address)
        });
        found.map(|entry| entry.place())
    }

    fn port_words(&self) -> impl Iterator<Item = &AtomicU64> {
        let offsets = (0..MAX_SERVICE_PORTS).map(|index| SERVICE_PORTS + 8 * index);
        offsets.map(|offset| self.memory.word(offset))
    }

    fn entry(&self, place: u8, port: &ServicePort) -> Entry {
        let mut entry = Entry(0);
        entry.set_generation(self.generation(place) as u16);
        entry.set_place(place);
        entry.set_port(port.port);
        entry.set_space(port.space as u8 & 0xf);
        entry.set_is_shared(port.is_shared);
        let (has_ipv4, has_ipv6, address) = match port.address {
            PortAddress::One(gid) => (gid.to_ipv4().is_some(), gid.to_ipv4().is_none(), fold(gid)),
            PortAddress::AnyIpv4 => (true, false, 0),
            PortAddress::AnyIpv6 => (false, true, 0),
            PortAddress::Any => (true, true, 0),
        };
        entry.set_has_ipv4(has_ipv4);
        entry.set_has_ipv6(has_ipv6);
        entry.set_address(address);
        entry
    }

    /// Returns an error if an entry below `end` conflicts with `entry` of the function at `place`.
    fn check(&self, place: u8, entry: Entry, end: usize) -> Result<(), PortError> {
        let mut entries = self
            .port_words()
            .take(end)
            .map(|word| Entry(word.load(Ordering::SeqCst)));
        let conflict = entries.find(|other| {
            overlaps(*other, entry)
                && !(other.is_shared() && entry.is_shared())
                && self.is_held(*other)
                && self.are_on_one_host(other.place(), place)
        });
        match conflict {
            None => Ok(()),
            Some(other) if other.address() == 0 || entry.address() == 0 => {
                Err(PortError::InUseOnAny)
            }
            Some(_) => Err(PortError::InUse),
        }
    }

    /// Returns true if the process of an entry is alive.
    fn is_held(&self, entry: Entry) -> bool {
        let place = entry.place();
        place != 0 && self.generation(place) as u16 == entry.generation() && self.is_alive(place)
    }

    fn are_on_one_host(&self, a: u8, b: u8) -> bool {
        let host = |place| self.occupant(place).map(|occupant| occupant.identity.host);
        a == b || host(a) == host(b)
    }
}

/// Returns true if two entries of one host cover a common address.
fn overlaps(a: Entry, b: Entry) -> bool {
    let is_common = a.address() == b.address() || a.address() == 0 || b.address() == 0;
    let has_common_family = a.has_ipv4() && b.has_ipv4() || a.has_ipv6() && b.has_ipv6();
    is_common && has_common_family && a.port() == b.port() && a.space() == b.space()
}

/// Hashes an address to 17 bits, never zero. It distinguishes the few addresses of one host.
fn fold(address: Gid) -> u32 {
    let hash = address.0.iter().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    });
    ((hash ^ hash >> 17) & 0x1_ffff).max(1)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use ferroce_test_support::temporary_directory;
    use ferroce_wire::Mac;

    use super::super::{Identity, Place};
    use super::*;

    const TCP: u16 = 0x0106;
    const UDP: u16 = 0x0111;

    fn address(last: u8) -> Gid {
        Gid::from_ipv4(Ipv4Addr::new(10, 0, 0, last))
    }

    fn place(registry: &'static Registry, host: &str, last: u8) -> Place {
        let identity = Identity {
            host: host.to_owned(),
            device: 0,
            mac: Mac([2, 0, 0, 0, 0, last]),
            gids: vec![address(last)],
            capture: 0,
        };
        registry.claim(&identity).expect("a place is free")
    }

    fn any(port: u16) -> ServicePort {
        ServicePort {
            space: TCP,
            port,
            address: PortAddress::Any,
            is_shared: false,
        }
    }

    fn registry(name: &str) -> &'static Registry {
        let directory = temporary_directory(name);
        Registry::open(&directory).expect("a new directory")
    }

    #[test]
    fn a_port_belongs_to_one_process_of_a_host() {
        let registry = registry("port-of-host");
        let (a, b) = (place(registry, "a", 1), place(registry, "a", 1));
        let other_host = place(registry, "b", 2);
        registry.claim_port(a.number(), &any(7)).expect("is free");
        let refused = registry.claim_port(b.number(), &any(7));
        assert_eq!(refused, Err(PortError::InUseOnAny));
        let refused = registry.claim_port(a.number(), &any(7));
        assert_eq!(refused, Err(PortError::InUseOnAny));
        let elsewhere = registry.claim_port(other_host.number(), &any(7));
        assert_eq!(elsewhere, Ok(()));
        let datagrams = ServicePort {
            space: UDP,
            ..any(7)
        };
        assert_eq!(registry.claim_port(b.number(), &datagrams), Ok(()));
        assert_eq!(registry.port_owner(TCP, 7, address(1)), Some(a.number()));
        let owner = registry.port_owner(TCP, 7, address(2));
        assert_eq!(owner, Some(other_host.number()));
        registry.release_port(a.number(), &any(7));
        assert_eq!(registry.port_owner(TCP, 7, address(1)), None);
        assert_eq!(registry.claim_port(b.number(), &any(7)), Ok(()));
    }

    #[test]
    fn an_address_and_every_address_exclude_each_other() {
        let registry = registry("port-address");
        let (a, b) = (place(registry, "a", 1), place(registry, "a", 1));
        let at = |last| ServicePort {
            address: PortAddress::One(address(last)),
            ..any(7)
        };
        assert_eq!(registry.claim_port(a.number(), &at(1)), Ok(()));
        assert_eq!(registry.claim_port(b.number(), &at(2)), Ok(()));
        let refused = registry.claim_port(b.number(), &any(7));
        assert_eq!(refused, Err(PortError::InUseOnAny));
        assert_eq!(
            registry.claim_port(b.number(), &at(1)),
            Err(PortError::InUse)
        );
        let shared = |last| ServicePort {
            port: 8,
            is_shared: true,
            ..at(last)
        };
        assert_eq!(registry.claim_port(a.number(), &shared(1)), Ok(()));
        assert_eq!(registry.claim_port(b.number(), &shared(1)), Ok(()));
        let refused = registry.claim_port(b.number(), &any(8));
        assert_eq!(refused, Err(PortError::InUseOnAny));
    }

    /// Goal: a listener for every IPv4 address and one for every IPv6 address have the same port
    /// (tgtd).
    #[test]
    fn each_family_has_its_own_ports() {
        let registry = registry("port-family");
        let a = place(registry, "a", 1);
        let of = |address| ServicePort { address, ..any(7) };
        let [v4, v6] = [PortAddress::AnyIpv4, PortAddress::AnyIpv6].map(of);
        assert_eq!(registry.claim_port(a.number(), &v4), Ok(()));
        assert_eq!(registry.claim_port(a.number(), &v6), Ok(()));
        let refused = registry.claim_port(a.number(), &any(7));
        assert_eq!(refused, Err(PortError::InUseOnAny));
        let refused = registry.claim_port(a.number(), &of(PortAddress::One(address(1))));
        assert_eq!(refused, Err(PortError::InUseOnAny));
        registry.release_port(a.number(), &v4);
        assert_eq!(registry.port_owner(TCP, 7, address(1)), None);
    }

    #[test]
    fn ports_of_a_process_that_has_ended_are_free() {
        let registry = registry("port-end");
        let (a, b) = (place(registry, "a", 1), place(registry, "a", 1));
        assert_eq!(registry.claim_port(a.number(), &any(7)), Ok(()));
        drop(a);
        assert_eq!(registry.port_owner(TCP, 7, address(1)), None);
        assert_eq!(registry.claim_port(b.number(), &any(7)), Ok(()));
    }

    #[test]
    fn ephemeral_ports_differ_until_the_table_is_full() {
        let registry = registry("port-ephemeral");
        let a = place(registry, "a", 1);
        let mut ports = Vec::new();
        for _ in 0..MAX_SERVICE_PORTS {
            let port = registry.claim_ephemeral_port(a.number(), &any(0));
            ports.push(port.expect("there is room"));
        }
        assert!(ports.iter().all(|port| EPHEMERAL_PORTS.contains(port)));
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), MAX_SERVICE_PORTS);
        let refused = registry.claim_ephemeral_port(a.number(), &any(0));
        assert_eq!(refused, Err(PortError::Full));
    }
}
