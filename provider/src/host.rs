//! Who this host is on the fabric, also before anything is opened.

use crate::errno::Errno;
use ferroce_sim::host::HostIdentity;
use std::sync::OnceLock;

/// The host that this process plays, looked up once.
///
/// # Errors
/// `EINVAL` when the environment asks for something that cannot be.
pub fn identity() -> Result<&'static HostIdentity, Errno> {
    static IDENTITY: OnceLock<Option<HostIdentity>> = OnceLock::new();
    let found = IDENTITY.get_or_init(|| {
        crate::log::start();
        HostIdentity::from_environment()
            .inspect_err(|error| tracing::error!(%error, "cannot tell which host this is"))
            .ok()
    });
    found.as_ref().ok_or(Errno::INVALID)
}

/// Index of a network interface of the machine; 0: none of that name.
pub fn interface_index(name: &str) -> u32 {
    std::fs::read_to_string(format!("/sys/class/net/{name}/ifindex"))
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(0)
}
