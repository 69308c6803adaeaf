//! Who this host is on the fabric, also before anything is opened.

use crate::errno::Errno;
use ferroce_sim::host::{HostIdentity, devices_from_environment};
use std::sync::OnceLock;

/// The devices of the host that this process plays, looked up once.
///
/// # Errors
/// `EINVAL` when the environment asks for something that cannot be.
pub fn identities() -> Result<&'static [HostIdentity], Errno> {
    static IDENTITIES: OnceLock<Option<Vec<HostIdentity>>> = OnceLock::new();
    let found = IDENTITIES.get_or_init(|| {
        crate::log::start();
        let devices = devices_from_environment()
            .and_then(|count| (0..count).map(HostIdentity::of_device).collect());
        devices
            .inspect_err(|error| tracing::error!(%error, "cannot tell which host this is"))
            .ok()
    });
    found.as_deref().ok_or(Errno::INVALID)
}

/// Index of a network interface of the machine; 0: none of that name.
pub fn interface_index(name: &str) -> u32 {
    std::fs::read_to_string(format!("/sys/class/net/{name}/ifindex"))
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(0)
}
