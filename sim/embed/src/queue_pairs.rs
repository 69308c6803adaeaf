//! Queue pairs of a device over all programs of its host, as `rdma resource` lists them.

use crate::address::DeviceAddress;
use ferroce_platform::host;

use crate::error::Error;
use crate::fabric::directory::runtime_directory;
use crate::fabric::registry::{Registry, ShownQp};
use crate::{attached, devices};

/// Queue pairs of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramQps {
    /// Its process.
    pub pid: u32,
    /// The number of its queue pairs.
    pub count: u64,
    /// The listed queue pairs.
    pub shown: Vec<ShownQp>,
}

/// Returns the queue pairs of a device, by program. `None`: they are unknown, because the device is
/// not in the programs.
///
/// # Errors
/// The errors of [`devices::address_of`] and [`Registry::open`].
pub fn of_device(device: u8) -> Result<Option<Vec<ProgramQps>>, Error> {
    if attached::identities()?.is_some() || devices::address_of(device)? != DeviceAddress::InProcess
    {
        return Ok(None);
    }
    let host = host::of_device(device)?;
    let registry = Registry::open(&runtime_directory()?)?;
    let occupants = registry.occupants().into_iter().filter(|occupant| {
        occupant.identity.device == device && occupant.identity.host == host.name
    });
    let programs = occupants.map(|occupant| {
        let (count, shown) = registry.qps(occupant.place);
        let pid = occupant.pid;
        ProgramQps { pid, count, shown }
    });
    Ok(Some(programs.collect()))
}
