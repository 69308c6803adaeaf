//! Files mapped into this process and shared with other processes, such as a device's model.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};

use crate::fork::WipedOnFork;

/// A mapping of a file, readable and writable, which children made by fork do not inherit.
#[derive(Debug)]
pub struct SharedMapping {
    /// Dropped before the memory is unmapped.
    wiped: Option<WipedOnFork>,
    address: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping is only an address and a length that nothing else unmaps; each access to the
// memory states its own argument for concurrent use.
unsafe impl Send for SharedMapping {}
// SAFETY: as for `Send`: a shared reference gives out only the address and the length.
unsafe impl Sync for SharedMapping {}

impl SharedMapping {
    /// Maps `length` bytes of `file` from byte `offset` on, both multiples of the page size.
    ///
    /// # Errors
    ///
    /// The error of `mmap`.
    pub fn new(file: BorrowedFd, offset: u64, length: usize) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let offset = libc::off_t::try_from(offset)
            .map_err(|_| io::Error::from_raw_os_error(libc::EOVERFLOW))?;
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory,
        // and the advice applies to the new mapping only.
        let address = unsafe {
            let file = file.as_raw_fd();
            let flags = libc::MAP_SHARED;
            let address = libc::mmap(ptr::null_mut(), length, protection, flags, file, offset);
            if address == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            if libc::madvise(address, length, libc::MADV_DONTFORK) != 0 {
                let error = io::Error::last_os_error();
                libc::munmap(address, length);
                return Err(error);
            }
            address
        };
        let address = NonNull::new(address.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Self {
            wiped: Some(WipedOnFork::new(address.as_ptr() as usize, length)),
            address,
            length,
        })
    }

    /// Returns the first byte; the memory is valid while `self` lives.
    pub fn address(&self) -> NonNull<u8> {
        self.address
    }

    /// Returns the length in bytes.
    pub fn length(&self) -> usize {
        self.length
    }
}

impl Drop for SharedMapping {
    fn drop(&mut self) {
        self.wiped = None;
        // SAFETY: address and length are one mapping of `new`, and `self`, its only owner, is being
        // dropped.
        unsafe {
            libc::munmap(self.address.as_ptr().cast(), self.length);
        }
    }
}
