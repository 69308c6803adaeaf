//! The device's own memory (BAR4).

use std::sync::Arc;

use parking_lot::Mutex;

use crate::bus::{BusError, PAGE_SIZE};
use crate::errno;
use crate::error::Error;
use crate::objects::device::Device;
use crate::use_count::{Lease, UseCount};

/// Granularity of allocations, in bytes: a word of the device, so that atomics on one allocation
/// never affect another.
const LOG_LEAST_ALIGNMENT: u32 = 3;

/// A piece of the device's own memory.
pub struct DeviceMemory {
    device: Arc<Device>,
    /// Offset of its first byte in BAR4.
    offset: u64,
    /// Bytes requested.
    length: u64,
    taken: Mutex<Taken>,
    users: UseCount,
}

/// What the memory takes of the device's memory.
#[derive(Debug)]
struct Taken {
    /// Bytes allocated.
    length: u64,
    /// True if the memory is in a file that others may have mapped.
    is_exported: bool,
}

impl DeviceMemory {
    /// Allocates `length` bytes, zeroed, whose offset in the device's memory is a multiple of
    /// `1 << log_alignment`.
    ///
    /// # Errors
    ///
    /// [`Error::NotSupported`] when the device has no memory, [`Error::InvalidArgument`] for zero
    /// bytes or an alignment larger than the memory, [`Error::NoResources`].
    pub fn alloc(
        device: &Arc<Device>,
        length: u64,
        log_alignment: u32,
    ) -> Result<Arc<Self>, Error> {
        let total = device.limits().device_memory_length;
        if total == 0 {
            let what = "device memory";
            return Err(Error::NotSupported { what });
        }
        let log_alignment = log_alignment.max(LOG_LEAST_ALIGNMENT);
        let alignment = 1u64.checked_shl(log_alignment).unwrap_or(u64::MAX);
        if length == 0 || alignment > total.next_power_of_two() {
            let what = "length or alignment of device memory";
            return Err(Error::InvalidArgument { what });
        }
        let what = "device memory";
        let taken = length
            .checked_next_multiple_of(1 << LOG_LEAST_ALIGNMENT)
            .ok_or(Error::NoResources { what })?;
        let offset = device.device_memory().allocate(taken, alignment, 0);
        let offset = offset.ok_or(Error::NoResources { what })?;
        let memory = Self {
            device: Arc::clone(device),
            offset,
            length,
            taken: Mutex::new(Taken {
                length: taken,
                is_exported: false,
            }),
            users: UseCount::default(),
        };
        // Erases the data of a previous owner.
        let zeros = vec![0; taken as usize];
        device.bus().write_device_memory(offset, &zeros);
        Ok(Arc::new(memory))
    }

    /// Returns the length in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Returns the device.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Copies `source` to byte `offset`.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] when it does not fit, [`Error::Destroyed`].
    pub fn copy_in(&self, offset: u64, source: &[u8]) -> Result<(), Error> {
        let place = self.place(offset, source.len() as u64)?;
        self.device.bus().write_device_memory(place, source);
        Ok(())
    }

    /// Copies the bytes from `offset` on to `destination`.
    ///
    /// # Errors
    ///
    /// As [`DeviceMemory::copy_in`].
    pub fn copy_out(&self, offset: u64, destination: &mut [u8]) -> Result<(), Error> {
        let place = self.place(offset, destination.len() as u64)?;
        self.device.bus().read_device_memory(place, destination);
        Ok(())
    }

    /// Moves the memory to a file that other processes may map, and returns a descriptor of it,
    /// which belongs to the caller. The file has the memory's whole pages, and outlives the memory.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] when the memory does not begin with a page of [`PAGE_SIZE`], or
    /// other memory lies in its last page. [`Error::NotSupported`] when the device's memory is not
    /// in this process; [`Error::Destroyed`]; errors of the system.
    pub fn export(&self) -> Result<i32, Error> {
        let _lease = self.lease()?;
        let mut taken = self.taken.lock();
        if !self.take_pages(&mut taken) {
            let what = "device memory that shares a page with other memory";
            return Err(Error::InvalidArgument { what });
        }
        let bus = self.device.bus();
        match bus.export_device_memory(self.offset, taken.length) {
            Ok(descriptor) => {
                taken.is_exported = true;
                Ok(descriptor)
            }
            Err(BusError::Os(errno::EOPNOTSUPP)) => {
                let what = "a file of device memory that is not in this process";
                Err(Error::NotSupported { what })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Takes the rest of the last page: all of a page is in the file. Returns false if the rest is
    /// not free, or if the memory does not begin with a page.
    fn take_pages(&self, taken: &mut Taken) -> bool {
        let page = PAGE_SIZE as u64;
        let end = self.offset + taken.length;
        let rest = end.next_multiple_of(page) - end;
        if self.offset % page != 0 || !self.device.device_memory().extend(end, rest) {
            return false;
        }
        // Erases the data of a previous owner.
        let zeros = vec![0; rest as usize];
        self.device.bus().write_device_memory(end, &zeros);
        taken.length += rest;
        true
    }

    /// Frees the memory.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`] while memory regions lie on it, [`Error::Destroyed`] the second time.
    pub fn free(&self) -> Result<(), Error> {
        self.users.close_forever()?;
        let taken = self.taken.lock();
        if taken.is_exported {
            let bus = self.device.bus();
            bus.withdraw_device_memory(self.offset, taken.length);
        }
        let memory = self.device.device_memory();
        memory.release(self.offset, taken.length);
        Ok(())
    }

    /// Returns the address in BAR4 of `length` bytes at `offset`.
    pub(crate) fn place(&self, offset: u64, length: u64) -> Result<u64, Error> {
        if self.users.is_closed() {
            return Err(Error::Destroyed);
        }
        let end = offset.checked_add(length);
        if end.is_none_or(|end| end > self.length) {
            let what = "the range lies outside of the device memory";
            return Err(Error::InvalidArgument { what });
        }
        Ok(self.offset + offset)
    }

    /// Adds a user.
    pub(crate) fn lease(&self) -> Result<Lease, Error> {
        self.users.acquire().ok_or(Error::Destroyed)
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        // Regions keep the memory alive, so it has no users here; it may already have been freed.
        self.free().ok();
    }
}
