//! Device memory.

use std::sync::Arc;

use ferroce_driver::{Device, DeviceMemory, Error, Lease, UseCount};
use libc::c_int;

use crate::abi::ibv_alloc_dm_attr;
use crate::adapter::Adapter;
use crate::errno::{Errno, Right, at_most, within};

/// The device's memory is copied in words of this many bytes.
const COPY_ALIGNMENT: u64 = 4;
/// Base-2 logarithm of the coarsest allowed alignment: a page.
const LOG_MAX_ALIGNMENT: u32 = 12;
const PAGE: u64 = 1 << LOG_MAX_ALIGNMENT;

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
            return Err(Errno::NOT_SUPPORTED.because("the device has no memory"));
        }
        let length = attr.length as u64;
        let log_alignment = attr.log_align_req;
        within(Errno::INVALID, "attr->comp_mask", attr.comp_mask, 0_u64)?;
        if length == 0 {
            return Err(Errno::wrong("attr->length", length, "at least 1"));
        }
        at_most("attr->length", length, largest)?;
        at_most("attr->log_align_req", log_alignment, LOG_MAX_ALIGNMENT)?;
        Ok(Self {
            adapter: adapter.clone(),
            memory: allocate(device, length, log_alignment)?,
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
            _ => Err(Errno::above(
                "dm_offset + length",
                offset.saturating_add(length),
                self.length,
            )),
        }
    }

    /// Checks that a range may be copied.
    ///
    /// # Errors
    /// `EFAULT` beyond the end, `EINVAL` for a length that is not a whole number of words.
    pub fn check_copy(&self, offset: u64, length: usize) -> Result<(), Errno> {
        self.adapter.check()?;
        let length = length as u64;
        if self.check_range(offset, length).is_err() {
            let (end, limit) = (offset.saturating_add(length), Right::AtMost(self.length));
            return Err(Errno::FAULT.argument("dm_offset + length", end, limit));
        }
        for (name, value) in [("dm_offset", offset), ("length", length)] {
            if value % COPY_ALIGNMENT != 0 {
                return Err(Errno::wrong(name, value, "a multiple of 4"));
            }
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

    /// `ibv_dm_export_dmabuf_fd`.
    ///
    /// # Errors
    /// `EINVAL` for memory that shares a page with other memory, or does not begin with a page: of
    /// less than a page, and without the alignment of one. `EOPNOTSUPP` when the device is not in
    /// this process.
    pub fn export(&self) -> Result<c_int, Errno> {
        self.adapter.check()?;
        self.memory.export().map_err(|error| match error {
            Error::InvalidArgument { .. } => {
                let text = "the memory shares its page with other memory; right: attr->length of \
                            at least 4096, or attr->log_align_req of 12";
                Errno::INVALID.because(text)
            }
            Error::NotSupported { .. } => {
                let text = "the device's memory is in another process, or on a card";
                Errno::NOT_SUPPORTED.because(text)
            }
            error => error.into(),
        })
    }

    /// `ibv_free_dm`.
    ///
    /// # Errors
    /// `EBUSY` while regions are registered on it.
    pub fn free(&self) -> Result<(), Errno> {
        self.adapter.check()?;
        if self.users.is_used() {
            return Err(Errno::BUSY.because("memory regions lie on the device memory"));
        }
        Ok(self.memory.free()?)
    }
}

/// Allocates memory. A page or more, or memory with the alignment of one, gets pages that no other
/// memory shares, so that it can be exported, if that many are free.
fn allocate(
    device: &Arc<Device>,
    length: u64,
    log_alignment: u32,
) -> Result<Arc<DeviceMemory>, Error> {
    if length >= PAGE || log_alignment == LOG_MAX_ALIGNMENT {
        let pages = length.next_multiple_of(PAGE);
        match DeviceMemory::alloc(device, pages, LOG_MAX_ALIGNMENT) {
            Err(Error::NoResources { .. }) => {}
            result => return result,
        }
    }
    DeviceMemory::alloc(device, length, log_alignment)
}
