//! XRC domains.

use std::sync::Arc;

use crate::error::Error;
use crate::objects::device::Device;
use crate::use_count::{Lease, UseCount};

/// An XRC domain: target QPs and XRC shared receive queues work together only inside one.
///
/// The device sees it as a number in its contexts; the driver chooses it.
pub struct XrcDomain {
    device: Arc<Device>,
    number: u32,
    users: UseCount,
}

impl XrcDomain {
    /// Allocates an XRC domain.
    ///
    /// # Errors
    ///
    /// [`Error::NotSupported`] when the device has no XRC, [`Error::NoResources`] when all are in
    /// use.
    pub fn alloc(device: &Arc<Device>) -> Result<Arc<Self>, Error> {
        if !device.limits().features.extended_reliable_connected() {
            return Err(Error::NotSupported { what: "XRC" });
        }
        let number = device.xrcd_numbers().allocate(1, 1, 0);
        let number = number.ok_or(Error::NoResources { what: "XRC domain" })?;
        Ok(Arc::new(Self {
            device: Arc::clone(device),
            number: number as u32,
            users: UseCount::default(),
        }))
    }

    /// Returns the number, which is never zero.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns the device.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Deallocates the domain; nothing can be created in it any more.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`] while it has QPs or shared receive queues, [`Error::Destroyed`] the second
    /// time.
    pub fn dealloc(&self) -> Result<(), Error> {
        self.users.close_forever()
    }

    /// Adds a user.
    pub(crate) fn lease(&self) -> Result<Lease, Error> {
        self.users.acquire().ok_or(Error::Destroyed)
    }
}

impl Drop for XrcDomain {
    fn drop(&mut self) {
        self.device.xrcd_numbers().release(self.number.into(), 1);
    }
}
