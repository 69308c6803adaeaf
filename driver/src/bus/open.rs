//! From the name of a device to the bus.

use std::sync::Arc;

use super::{Bus, DeviceAddress};

/// Why a device cannot be reached.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It is a model in this process, which whoever has the model opens.
    #[error("`in-process` names the model of this process, which is not opened by its name")]
    InProcess,
    /// This driver cannot reach such a device.
    #[error("this driver has no bus to {0}")]
    NoBus(DeviceAddress),
}

impl OpenError {
    /// The errno that says the same.
    pub fn errno(&self) -> i32 {
        match self {
            Self::InProcess => libc::EINVAL,
            Self::NoBus(_) => libc::ENODEV,
        }
    }
}

/// Opens the bus to a device.
///
/// # Errors
///
/// Any [`OpenError`], which says what is wrong and what would be right.
pub fn open(address: &DeviceAddress) -> Result<Arc<dyn Bus>, OpenError> {
    match address {
        DeviceAddress::InProcess => Err(OpenError::InProcess),
        DeviceAddress::VfioUser(_) | DeviceAddress::Vfio(_) => {
            Err(OpenError::NoBus(address.clone()))
        }
    }
}
