//! Ports of a host: the claimed ones, and the next ephemeral one.

use std::ops::RangeInclusive;

use ferroce_cm::{ListenAddress, PortSpace};

use crate::errno::Errno;

/// Maximum number of claims of a host.
pub const MAX_PORTS: usize = 4096;
/// Ephemeral ports: Linux's default range (`net.ipv4.ip_local_port_range`).
const EPHEMERAL_PORTS: RangeInclusive<u16> = 32_768..=60_999;

/// Distance between the first ephemeral ports of two hosts on a machine.
const EPHEMERAL_PORTS_OF_HOST: u16 = 256;

/// A claim of a port.
#[derive(Debug, Clone, Copy)]
struct Claim {
    space: PortSpace,
    port: u16,
    address: ListenAddress,
    is_shared: bool,
}

impl Claim {
    /// Returns true if two claims exclude each other.
    fn excludes(&self, other: &Self) -> bool {
        (self.space, self.port) == (other.space, other.port)
            && have_common_address(self.address, other.address)
            && !(self.is_shared && other.is_shared)
    }
}

/// Returns the error for two claims of a port that exclude each other, like Linux's
/// `cma_check_port`.
pub(crate) fn in_use(one: ListenAddress, other: ListenAddress) -> Errno {
    match (one, other) {
        (ListenAddress::Gid(_), ListenAddress::Gid(_)) => Errno::EADDRINUSE,
        _ => Errno::EADDRNOTAVAIL,
    }
}

fn have_common_address(one: ListenAddress, other: ListenAddress) -> bool {
    use ListenAddress::{Any, AnyIpv4, AnyIpv6, Gid};
    match (one, other) {
        (Any, _) | (_, Any) => true,
        (AnyIpv4, Gid(gid)) | (Gid(gid), AnyIpv4) => gid.to_ipv4().is_some(),
        (AnyIpv6, Gid(gid)) | (Gid(gid), AnyIpv6) => gid.to_ipv4().is_none(),
        _ => one == other,
    }
}

/// The ports of a host whose programs all use the same table.
#[derive(Debug)]
pub struct PortTable {
    claims: Vec<Claim>,
    next_port: u16,
}

impl PortTable {
    /// Returns a table without claims.
    #[must_use]
    pub const fn new() -> Self {
        Self::of_host(0)
    }

    /// Returns a table without claims for one of several hosts on a machine: their ephemeral ports
    /// begin at different numbers, so a port on the machine's loopback names one of them.
    #[must_use]
    pub const fn of_host(host: usize) -> Self {
        let (first, last) = (*EPHEMERAL_PORTS.start(), *EPHEMERAL_PORTS.end());
        let places = ((last - first) / EPHEMERAL_PORTS_OF_HOST) as usize;
        Self {
            claims: Vec::new(),
            // Smaller than `places`, which fits.
            next_port: first + (host % places) as u16 * EPHEMERAL_PORTS_OF_HOST,
        }
    }

    /// Claims a port, or an ephemeral one: implements [`crate::Host::claim_port`].
    ///
    /// # Errors
    ///
    /// `EADDRINUSE` if another claim has the address. `EADDRNOTAVAIL` if another claim conflicts
    /// because one of them has the wildcard address, if no ephemeral port is free, or if there are
    /// [`MAX_PORTS`] claims.
    pub fn claim(
        &mut self,
        space: PortSpace,
        port: Option<u16>,
        address: ListenAddress,
        is_shared: bool,
    ) -> Result<u16, Errno> {
        let claim = |port| Claim {
            space,
            port,
            address,
            is_shared,
        };
        if let Some(port) = port {
            return self.insert(claim(port));
        }
        for _ in EPHEMERAL_PORTS {
            let port = self.next_ephemeral();
            match self.insert(claim(port)) {
                Err(Errno::EADDRINUSE | Errno::EADDRNOTAVAIL) if !self.is_full() => {}
                result => return result,
            }
        }
        Err(Errno::EADDRNOTAVAIL)
    }

    /// Ends one claim, if there is such a claim.
    pub fn release(&mut self, space: PortSpace, port: u16, address: ListenAddress) {
        let released = (space, port, address);
        let mut claims = self.claims.iter();
        let found = claims.position(|claim| (claim.space, claim.port, claim.address) == released);
        if let Some(index) = found {
            self.claims.swap_remove(index);
        }
    }

    /// Returns true if no port is claimed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }

    fn insert(&mut self, claim: Claim) -> Result<u16, Errno> {
        if self.is_full() {
            return Err(Errno::EADDRNOTAVAIL);
        }
        if let Some(other) = self.claims.iter().find(|other| other.excludes(&claim)) {
            return Err(in_use(other.address, claim.address));
        }
        self.claims.push(claim);
        Ok(claim.port)
    }

    fn is_full(&self) -> bool {
        self.claims.len() >= MAX_PORTS
    }

    fn next_ephemeral(&mut self) -> u16 {
        let port = self.next_port;
        self.next_port = if port == *EPHEMERAL_PORTS.end() {
            *EPHEMERAL_PORTS.start()
        } else {
            port + 1
        };
        port
    }
}

impl Default for PortTable {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use ferroce_wire::Gid;

    use super::*;

    const SPACE: PortSpace = PortSpace::Tcp;
    const PORT: Option<u16> = Some(7174);

    fn address(last: u8) -> ListenAddress {
        ListenAddress::Gid(Gid::from_ip([10, 0, 0, last].into()))
    }

    #[test]
    fn every_address_excludes_each_one() {
        let mut table = PortTable::new();
        assert_eq!(table.claim(SPACE, PORT, address(1), false), Ok(7174));
        assert_eq!(table.claim(SPACE, PORT, address(2), false), Ok(7174));
        assert_eq!(
            table.claim(PortSpace::Udp, PORT, address(1), false),
            Ok(7174)
        );
        let claimed = table.claim(SPACE, PORT, address(1), true);
        assert_eq!(claimed, Err(Errno::EADDRINUSE));
        for any in [ListenAddress::AnyIpv4, ListenAddress::Any] {
            let claimed = table.claim(SPACE, PORT, any, true);
            assert_eq!(claimed, Err(Errno::EADDRNOTAVAIL), "{any:?}");
        }
        assert_eq!(
            table.claim(SPACE, PORT, ListenAddress::AnyIpv6, false),
            Ok(7174)
        );
    }

    #[test]
    fn shared_claims_are_counted() {
        let mut table = PortTable::new();
        assert_eq!(table.claim(SPACE, PORT, address(1), true), Ok(7174));
        assert_eq!(table.claim(SPACE, PORT, address(1), true), Ok(7174));
        table.release(SPACE, 7174, address(1));
        let exclusive = table.claim(SPACE, PORT, address(1), false);
        assert_eq!(exclusive, Err(Errno::EADDRINUSE));
        table.release(SPACE, 7174, address(1));
        assert!(table.is_empty());
    }

    #[test]
    fn ephemeral_ports_skip_those_in_use_and_end() {
        let mut table = PortTable::new();
        assert_eq!(
            table.claim(SPACE, Some(32_769), address(1), false),
            Ok(32_769)
        );
        assert_eq!(table.claim(SPACE, None, address(1), false), Ok(32_768));
        assert_eq!(table.claim(SPACE, None, address(1), false), Ok(32_770));
        for _ in 3..MAX_PORTS {
            assert!(table.claim(SPACE, None, address(1), false).is_ok());
        }
        let failed = table.claim(SPACE, None, address(1), false);
        assert_eq!(failed, Err(Errno::EADDRNOTAVAIL));
    }
}
