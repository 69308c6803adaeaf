//! Device memory.

use std::sync::Arc;

use ferroce_driver::{DeviceMemory, Lease, UseCount};

use crate::adapter::Adapter;
use crate::errno::Errno;
use crate::ffi::abi::ibv_alloc_dm_attr;

/// The device's memory is copied in words of this many bytes.
const COPY_ALIGNMENT: u64 = 4;
/// Base-2 logarithm of the coarsest allowed alignment: a page.
const LOG_MAX_ALIGNMENT: u32 = 12;

/// Body of `struct ibv_dm`.
pub struct Dm {
    adapter: Arc<Adapter>,
    pub memory: Arc<DeviceMemory>,
    length: u64,
    users: UseCount,
}

impl Dm {
    /// `ibv_alloc_dm`.
    ///
    /// # Errors
    /// `EINVAL` for a length of zero or above the device's total, an alignment beyond a page, and
    /// unknown attributes; `ENOMEM` when that much is not free.
    pub fn allocate(adapter: &Arc<Adapter>, attr: &ibv_alloc_dm_attr) -> Result<Self, Errno> {
        let device = adapter.device()?;
        let largest = device.capabilities().device_memory_length;
        if largest == 0 {
            return Err(Errno::NOT_SUPPORTED);
        }
        let length = attr.length as u64;
        let log_alignment = attr.log_align_req;
        let fits = (1..=largest).contains(&length) && log_alignment <= LOG_MAX_ALIGNMENT;
        if attr.comp_mask != 0 || !fits {
            return Err(Errno::INVALID);
        }
        Ok(Self {
            adapter: adapter.clone(),
            memory: DeviceMemory::alloc(device, length, log_alignment)?,
            length,
            users: UseCount::default(),
        })
    }

    /// Adds a user.
    pub fn lease(&self) -> Lease {
        self.users.lease()
    }

    /// Checks that a range lies in the memory.
    ///
    /// # Errors
    /// `EINVAL`.
    pub fn check_range(&self, offset: u64, length: u64) -> Result<(), Errno> {
        match offset.checked_add(length) {
            Some(end) if end <= self.length => Ok(()),
            _ => Err(Errno::INVALID),
        }
    }

    /// Checks that a range may be copied.
    ///
    /// # Errors
    /// `EFAULT` beyond the end, `EINVAL` for a length that is not a whole number of words.
    pub fn check_copy(&self, offset: u64, length: usize) -> Result<(), Errno> {
        self.adapter.check()?;
        let length = length as u64;
        self.check_range(offset, length).map_err(|_| Errno::FAULT)?;
        if (offset | length) % COPY_ALIGNMENT != 0 {
            return Err(Errno::INVALID);
        }
        Ok(())
    }

    /// `ibv_memcpy_to_dm`.
    pub fn copy_in(&self, offset: u64, source: &[u8]) -> Result<(), Errno> {
        Ok(self.memory.copy_in(offset, source)?)
    }

    /// `ibv_memcpy_from_dm`.
    pub fn copy_out(&self, offset: u64, destination: &mut [u8]) -> Result<(), Errno> {
        Ok(self.memory.copy_out(offset, destination)?)
    }

    /// `ibv_free_dm`.
    ///
    /// # Errors
    /// `EBUSY` while regions are registered on it.
    pub fn free(&self) -> Result<(), Errno> {
        self.adapter.check()?;
        if self.users.is_used() {
            return Err(Errno::BUSY);
        }
        Ok(self.memory.free()?)
    }
}
