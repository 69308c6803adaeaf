//! Protection domains.

use std::sync::Arc;

use crate::error::Error;
use crate::objects::device::Device;
use crate::use_count::{Lease, UseCount};

/// A protection domain: QPs, shared receive queues, memory regions and windows work together only
/// inside one.
///
/// The device sees a protection domain as a number in its contexts; the driver chooses it.
pub struct ProtectionDomain {
    device: Arc<Device>,
    number: u32,
    users: UseCount,
}

impl Device {
    /// Allocates a protection domain.
    ///
    /// # Errors
    ///
    /// [`Error::NoResources`] when all are in use.
    pub fn alloc_pd(self: &Arc<Self>) -> Result<Arc<ProtectionDomain>, Error> {
        let number = self.pd_numbers().allocate(1, 1, 0);
        let number = number.ok_or(Error::NoResources {
            what: "protection domain",
        })?;
        Ok(Arc::new(ProtectionDomain {
            device: Arc::clone(self),
            number: number as u32,
            users: UseCount::default(),
        }))
    }
}

impl ProtectionDomain {
    /// Returns the number, 24 bits.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns the device.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Deallocates the protection domain; nothing can be created in it any more.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`] while it has users, [`Error::Destroyed`] the second time.
    pub fn dealloc(&self) -> Result<(), Error> {
        self.users.close_forever()
    }

    /// Adds a user.
    pub(crate) fn lease(&self) -> Result<Lease, Error> {
        self.users.acquire().ok_or(Error::Destroyed)
    }
}

impl Drop for ProtectionDomain {
    fn drop(&mut self) {
        self.device.pd_numbers().release(self.number.into(), 1);
    }
}
