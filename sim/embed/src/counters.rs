//! Counters of the devices of this process, as files of sysfs show them.

use crate::address::DeviceAddress;
use ferroce_platform::host;
pub use ferroce_spec::counter::linux::{LINUX_COUNTERS, LinuxCounter};

use crate::error::Error;
use crate::fabric::directory::runtime_directory;
use crate::fabric::registry::Registry;
use crate::function::Function;
use crate::{attached, devices};

/// Returns the counters of a device in the order of their registers.
///
/// For a model in the processes of its host, they are the sums over all functions that the device
/// has had on this machine. For any other device they are its registers, which are read while this
/// process has it open.
///
/// # Errors
/// [`Error::NotOpen`], and the errors of [`Function::open_device`].
pub fn of_device(device: u8) -> Result<Vec<u64>, Error> {
    let open = Function::in_use(device);
    for function in &open {
        if let Some(counters) = function.registers()? {
            return Ok(counters);
        }
    }
    if open.is_empty()
        && (attached::identities()?.is_some()
            || devices::address_of(device)? != DeviceAddress::InProcess)
    {
        return Err(Error::NotOpen { device });
    }
    let host = host::of_device(device)?;
    let registry = Registry::open(&runtime_directory()?)?;
    Ok(registry.device_counters(&host.name, device).to_vec())
}
