//! The environment of a process or simulated host: devices, ports, and other hosts.

use ferroce_cm::{ListenAddress, PortSpace};
use ferroce_wire::Gid;

use crate::errno::Errno;

/// An address of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    /// The address
    pub gid: Gid,
    /// Its place in the GID table of the port
    pub gid_index: u8,
}

/// A device with one port, with the values that verbs report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Node GUID; `ibv_get_device_guid` returns it in network byte order
    pub node_guid: u64,
    /// `ibv_get_device_index`
    pub index: u32,
    /// Number of the port, from one
    pub port_num: u8,
    /// Active MTU of the port, numbered as in the verbs
    pub active_mtu: u8,
    /// True if the device has FLUSH
    pub has_flush: bool,
    /// The GID table
    pub addresses: Vec<Address>,
}

/// Information that the caller provides to [`RdmaCm`](crate::RdmaCm).
pub trait Host {
    /// Returns the devices, the preferred ones first.
    fn devices(&self) -> &[Device];

    /// Claims a port, or an ephemeral one, and returns its number. Every claim is released once:
    /// claims that share a port are counted.
    ///
    /// # Errors
    ///
    /// If another claim conflicts with this one, and not both have `share`: [`Errno::EADDRINUSE`]
    /// if both have the same address, [`Errno::EADDRNOTAVAIL`] if one of them has the wildcard
    /// address of this IP version. [`Errno::EADDRNOTAVAIL`] also if no ephemeral port is free.
    /// [`Errno::EACCES`] for a privileged port.
    fn claim_port(
        &mut self,
        space: PortSpace,
        port: Option<u16>,
        address: ListenAddress,
        share: bool,
    ) -> Result<u16, Errno>;

    /// Ends one claim.
    fn release_port(&mut self, space: PortSpace, port: u16, address: ListenAddress);

    /// Finds the host of an address.
    ///
    /// # Errors
    ///
    /// [`Errno::EHOSTUNREACH`] if no host has it.
    fn resolve(&mut self, from: Gid, to: Gid) -> Result<(), Errno>;

    /// Resolves a loopback address: if several hosts are on one machine, its loopback reaches the
    /// host that listens on the port, and this returns that host's address. `None`: this host.
    fn host_on_loopback(&self, _space: PortSpace, _port: u16, _loopback: Gid) -> Option<Gid> {
        None
    }
}
