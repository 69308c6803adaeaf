//! Names and addresses of the devices of this process.

use crate::address::DeviceAddress;
use ferroce_platform::host::{self, HostIdentity};

use crate::error::Error;
use crate::function::Function;
use crate::{attached, devices};

/// Returns the name and addresses of each device. Reading the MAC address of a card opens the card.
///
/// # Errors
/// As [`Function::open_device`].
pub fn of_devices() -> Result<Vec<HostIdentity>, Error> {
    if let Some(identities) = attached::identities()? {
        return Ok(identities);
    }
    let identity = |(device, address)| match address {
        DeviceAddress::InProcess => Ok(host::of_device(device)?),
        _ => Function::open_device(device).map(|function| function.host().clone()),
    };
    (0..)
        .zip(devices::from_environment()?)
        .map(identity)
        .collect()
}
