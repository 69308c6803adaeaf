//! Opens the bus to a device by the device's name.

use std::sync::Arc;

use ferroce_driver::bus::Bus;
use ferroce_vfio::{Vfio, VfioOpenError};
use ferroce_vfio_user_bus::{VfioUser, VfioUserError};

use crate::address::DeviceAddress;

/// Errors of opening a device.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The device is a model in this process, which only the owner of the model can open.
    #[error("`in-process` names the model of this process, which is not opened by its name")]
    InProcess,
    /// The card cannot be opened.
    #[error(transparent)]
    Vfio(#[from] VfioOpenError),
    /// The model behind the socket cannot be opened.
    #[error(transparent)]
    VfioUser(#[from] VfioUserError),
}

impl OpenError {
    /// Returns the errno that corresponds to this error.
    pub fn errno(&self) -> i32 {
        match self {
            Self::InProcess => libc::EINVAL,
            Self::Vfio(error) => error.errno(),
            Self::VfioUser(error) => error.errno(),
        }
    }
}

/// Opens the bus to a device.
///
/// # Errors
///
/// Any [`OpenError`]; its text states what is wrong and what would be right.
pub fn open(address: &DeviceAddress) -> Result<Arc<dyn Bus>, OpenError> {
    match address {
        DeviceAddress::InProcess => Err(OpenError::InProcess),
        DeviceAddress::Vfio(bdf) => Ok(Arc::new(Vfio::open(*bdf)?)),
        DeviceAddress::VfioUser(path) => Ok(Arc::new(VfioUser::open(path)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_of_this_process_is_not_opened_by_name() {
        let Err(error) = open(&DeviceAddress::InProcess) else {
            panic!("it has no name");
        };
        assert!(matches!(error, OpenError::InProcess));
    }
}
