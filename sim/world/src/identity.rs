//! Writes a host's addresses to its device.

use ferroce_driver::{Device, GidEntry as DriverEntry};
use ferroce_host::identity::HostIdentity;

/// Fills the GID table of a host's device.
pub(super) fn set_gids(
    device: &Device,
    identity: &HostIdentity,
) -> Result<(), ferroce_driver::Error> {
    for (index, entry) in (0..).zip(&identity.gids) {
        let entry = DriverEntry {
            gid: entry.gid,
            mac: entry.mac,
            vlan: None,
        };
        device.set_gid(index, &entry)?;
    }
    Ok(())
}
