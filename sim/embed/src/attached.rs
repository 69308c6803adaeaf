//! Devices that another crate opens: the card of a host in a simulated world.

use std::fmt::Debug;
use std::sync::{Arc, OnceLock};

use ferroce_driver::DeviceConfig;
use ferroce_driver::bus::Bus;
use ferroce_platform::host::HostIdentity;
use ferroce_wire::{Gid, Mac};

use crate::error::Error;

/// Opens a device in place of the ones that this process would open itself.
pub trait DeviceSource: Debug + Sync {
    /// Returns the devices that the environment gives to this process. `None`: it requests no
    /// device of this source.
    ///
    /// # Errors
    /// [`Error::Attached`].
    fn identities(&self) -> Result<Option<Vec<HostIdentity>>, Error>;

    /// Opens one of them. Returns `None` in the same case as [`Self::identities`].
    ///
    /// # Errors
    /// [`Error::Attached`], [`Error::NoSuchDevice`].
    fn open(&self, device: u8) -> Result<Option<Attached>, Error>;
}

/// A device that a [`DeviceSource`] has opened.
pub struct Attached {
    /// The bus for the driver.
    pub bus: Arc<dyn Bus>,
    /// The host that it is on.
    pub host: HostIdentity,
    /// Every address that it reaches.
    pub neighbours: Vec<(Gid, Mac)>,
    /// How the driver brings it up.
    pub config: DeviceConfig,
    /// Properties of the modelled device.
    pub properties: Properties,
}

/// Properties of a device for which the contract has no register.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Properties {
    /// `vendor_part_id`, of the model of a certain card.
    pub part_id: Option<u32>,
    /// The path MTU in bytes, in a network that has one.
    pub path_mtu_bytes: Option<u32>,
    /// The data rate of the port in Mb/s, of the model of a certain card.
    pub rate_mbps: Option<u32>,
}

static SOURCE: OnceLock<&'static dyn DeviceSource> = OnceLock::new();

/// Sets the source to ask first from now on. A program has one source: a second one is ignored.
pub fn set_source(source: &'static dyn DeviceSource) {
    let _ = SOURCE.set(source);
}

/// Opens the device, if the source of this program has it.
pub(crate) fn open(device: u8) -> Result<Option<Attached>, Error> {
    SOURCE.get().map_or(Ok(None), |source| source.open(device))
}

/// Returns the devices of the source, if it has any.
pub(crate) fn identities() -> Result<Option<Vec<HostIdentity>>, Error> {
    SOURCE.get().map_or(Ok(None), |source| source.identities())
}
