//! The processes of a host: their communication managers share one GID and one set of ports.

use std::{fs, io};

use ferroce_wire::Gid;

use super::cm_report::CmEntry;
use super::registry::{PortError, Registry, ServicePort, places, report};

/// One process of a host, and its view of the others.
#[derive(Debug, Clone, Copy)]
pub struct HostPeers {
    registry: &'static Registry,
    place: u8,
}

/// The processes that receive a management datagram for an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Receivers {
    /// Processes of this machine.
    Some,
    /// No process: the address belongs to a host on this machine, and none of its processes has a
    /// GSI.
    None,
    /// Stations outside of this machine, if there are any.
    Elsewhere,
}

impl HostPeers {
    pub(crate) fn new((registry, place): (&'static Registry, u8)) -> Self {
        Self { registry, place }
    }

    /// Returns the number of this process on the machine: its place in the fabric.
    pub fn number(&self) -> u8 {
        self.place
    }

    /// Returns true if the process with this number is alive.
    pub fn is_alive(&self, number: u8) -> bool {
        self.registry.is_alive(number)
    }

    /// Claims a port for this process.
    ///
    /// # Errors
    /// [`PortError`].
    pub fn claim_port(&self, port: &ServicePort) -> Result<(), PortError> {
        self.registry.claim_port(self.place, port)
    }

    /// Claims a free port for this process and returns it. `port.port` is not used.
    ///
    /// # Errors
    /// [`PortError`].
    pub fn claim_ephemeral_port(&self, port: &ServicePort) -> Result<u16, PortError> {
        self.registry.claim_ephemeral_port(self.place, port)
    }

    /// Releases a port that this process has claimed.
    pub fn release_port(&self, port: &ServicePort) {
        self.registry.release_port(self.place, port);
    }

    /// Returns true if this process has to refuse a request for a service for which it has no
    /// listener: it owns the port, or no process owns it and this one is the first.
    pub fn refuses(&self, address: Gid, space: u16, port: u16) -> bool {
        match self.registry.port_owner(space, port, address) {
            Some(owner) => owner == self.place,
            None => self.is_first(address),
        }
    }

    /// Publishes the state of this process as a communication manager, for [`read_report`].
    ///
    /// # Errors
    /// The error of writing the file.
    pub fn publish(&self, report: &str) -> io::Result<()> {
        let path = report::path(self.registry.directory(), self.place);
        let unfinished = report::unfinished(&path);
        fs::write(&unfinished, report)?;
        fs::rename(&unfinished, &path)
    }

    /// Removes the published state.
    pub fn withdraw(&self) {
        let _ = fs::remove_file(report::path(self.registry.directory(), self.place));
    }

    /// Returns true if this is the first process of the host with this address: it answers on
    /// behalf of processes that have ended.
    pub fn is_first(&self, address: Gid) -> bool {
        self.first(address) == Some(Some(self.place))
    }

    /// Returns which processes receive a datagram for the GSI of an address.
    pub fn receivers(&self, address: Gid) -> Receivers {
        match self.first(address) {
            Some(Some(_)) => Receivers::Some,
            Some(None) => Receivers::None,
            None => Receivers::Elsewhere,
        }
    }

    /// Returns true if the process with this number, of a host on this machine, has ended.
    pub fn has_ended(&self, address: Gid, number: u8) -> bool {
        // A place keeps the addresses of its last owner.
        self.registry.owns_gid(number, address) && !self.registry.is_alive(number)
    }

    /// Returns the first live process with its GSI open on the host with this address. `None`: no
    /// host on this machine has the address.
    fn first(&self, address: Gid) -> Option<Option<u8>> {
        let members = self.registry.gsi_members(address)?;
        Some(places(members).next())
    }
}

/// Returns what the process at a place has published. `None`: it has published nothing.
pub fn read_report(registry: &Registry, place: u8) -> Option<Vec<CmEntry>> {
    let text = fs::read_to_string(report::path(registry.directory(), place)).ok()?;
    Some(text.lines().filter_map(CmEntry::parse).collect())
}
