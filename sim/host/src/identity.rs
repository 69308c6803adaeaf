//! Name and addresses of a host, as every process on it sees them.

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

/// A device of a host of the fabric. All processes on that host see it with this identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostIdentity {
    /// Name of the host.
    pub name: String,
    /// Number of the device: 0 is `ferroce0`.
    pub device: u8,
    /// MAC address of the device's port.
    pub mac: [u8; 6],
    /// GUID of the device: the EUI-64 of the MAC.
    pub node_guid: [u8; 8],
    /// GID table: 0 is the link-local address of the MAC.
    pub gids: Vec<GidEntry>,
}
