//! Identity of this host on the fabric, also before a device is opened.

use std::sync::OnceLock;

use ferroce_embed::identities;
use ferroce_platform::host::{HostIdentity, device_name};

use crate::errno::Errno;
use crate::open_error;

/// Returns the devices of this process, looked up once.
///
/// # Errors
/// `EINVAL` when the environment requests an impossible configuration; errors of opening a card.
pub fn identities() -> Result<&'static [HostIdentity], Errno> {
    static FOUND: OnceLock<Vec<HostIdentity>> = OnceLock::new();
    if let Some(found) = FOUND.get() {
        return Ok(found);
    }
    crate::log::start();
    ferroce_timed_client::install();
    // A failure is not cached: a card that another process uses may be free the next time.
    let found = identities::of_devices().map_err(|error| {
        let what = "cannot list the RDMA devices";
        open_error::report(what, &error, error.errno())
    })?;
    Ok(FOUND.get_or_init(|| found))
}

/// Returns the device at the end of a path of sysfs whose parts come last first: `DEVICE/ports/1`.
pub fn of_port<'a>(parts: &mut impl Iterator<Item = &'a [u8]>) -> Option<&'static HostIdentity> {
    if (parts.next()?, parts.next()?) != (b"1", b"ports") {
        return None;
    }
    let device = parts.next()?;
    let mut hosts = identities().ok()?.iter();
    hosts.find(|host| device_name(host.device).as_bytes() == device)
}

/// Returns the index of a network interface of the machine; 0: there is none of that name.
pub fn interface_index(name: &str) -> u32 {
    std::fs::read_to_string(format!("/sys/class/net/{name}/ifindex"))
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(0)
}
