//! Memory of the application, which the device reads and writes wherever it is.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, BorrowedFd, RawFd};
use std::ptr;

use ferroce_vfio_user::Errno;

use crate::bus::{DmaAccess, DmaMapping};

/// Where the kernel shows the memory of the process that opens it, to whoever has the descriptor.
const OWN_MEMORY: &str = "/proc/self/mem";
/// Largest range whose pages are checked one by one.
const POPULATE_LIMIT: usize = 64 << 20;
/// Page size of mincore; pages are never smaller.
const PAGE: usize = 4096;
// Linux 5.14; older kernels say EINVAL to any advice that they do not know.
const MADV_POPULATE_READ: libc::c_int = 22;
const MADV_POPULATE_WRITE: libc::c_int = 23;

/// The memory of this process as a file for the server.
pub(super) struct ApplicationMemory(Option<File>);

impl ApplicationMemory {
    /// Without the file, which a process that must not be traced cannot open, the server asks for
    /// the memory by messages.
    pub(super) fn open() -> Self {
        let file = OpenOptions::new().read(true).write(true).open(OWN_MEMORY);
        if let Err(error) = &file {
            tracing::warn!(%error, "cannot open {OWN_MEMORY}: DMA is by messages, which is slow");
        }
        Self(file.ok())
    }

    pub(super) fn file(&self) -> Option<BorrowedFd<'_>> {
        self.0.as_ref().map(File::as_fd)
    }
}

/// Lends a descriptor of a [`DmaFile`](crate::bus::DmaFile) to `body`.
pub(super) fn with_file<R>(descriptor: RawFd, body: impl FnOnce(BorrowedFd<'_>) -> R) -> R {
    // SAFETY: whoever maps memory keeps its file open until the call of `Bus::map` returns, in
    // which this is.
    body(unsafe { BorrowedFd::borrow_raw(descriptor) })
}

/// Whether the memory of a mapping exists and allows the access. Writing through `/proc/self/mem`
/// would ignore its protection, so the driver has to look. Ranges above 64 MiB are only checked for
/// holes.
pub(super) fn is_usable(mapping: &DmaMapping) -> bool {
    let advice = match mapping.access {
        DmaAccess::Read => MADV_POPULATE_READ,
        DmaAccess::ReadWrite => MADV_POPULATE_WRITE,
    };
    let start = ptr::without_provenance_mut(mapping.address);
    if mapping.length <= POPULATE_LIMIT {
        // SAFETY: populating changes neither content nor protection of memory; bad ranges are
        // answered with an error.
        let populated = unsafe { libc::madvise(start, mapping.length, advice) } == 0;
        if populated || is_populate_known() {
            return populated;
        }
    }
    let mut resident = vec![0u8; POPULATE_LIMIT / PAGE];
    (0..mapping.length).step_by(POPULATE_LIMIT).all(|offset| {
        let part = (mapping.length - offset).min(POPULATE_LIMIT);
        // SAFETY: mincore writes one byte per page of `part` into `resident`, which has room for
        // POPULATE_LIMIT bytes of pages of at least 4 KiB; a hole is answered with ENOMEM.
        unsafe { libc::mincore(start.wrapping_byte_add(offset), part, resident.as_mut_ptr()) == 0 }
    })
}

fn is_populate_known() -> bool {
    // SAFETY: an empty range is answered with success, an unknown advice with EINVAL.
    unsafe { libc::madvise(ptr::null_mut(), 0, MADV_POPULATE_READ) == 0 }
}

/// Copies memory of the application, which may have unmapped it against its promise, without a
/// fault.
pub(super) fn read(address: usize, data: &mut [u8]) -> Result<(), Errno> {
    let local = iovec(data.as_mut_ptr(), data.len());
    let remote = iovec(ptr::without_provenance_mut(address), data.len());
    // SAFETY: the kernel writes to `data` only, which is borrowed exclusively; it checks `remote`,
    // and what is there belongs to the application, which lets a device read it.
    let copied = unsafe {
        libc::process_vm_readv(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0)
    };
    complete(copied, data.len())
}

/// The other way.
pub(super) fn write(address: usize, data: &[u8]) -> Result<(), Errno> {
    let local = iovec(data.as_ptr().cast_mut(), data.len());
    let remote = iovec(ptr::without_provenance_mut(address), data.len());
    // SAFETY: the kernel reads `data` only; it checks `remote`, which the driver has mapped for
    // the device to write: memory of the application, or a ring of the driver, which is seen
    // through atomics.
    let copied = unsafe {
        libc::process_vm_writev(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0)
    };
    complete(copied, data.len())
}

fn iovec(start: *mut u8, length: usize) -> libc::iovec {
    libc::iovec {
        iov_base: start.cast(),
        iov_len: length,
    }
}

fn complete(copied: isize, length: usize) -> Result<(), Errno> {
    match usize::try_from(copied) {
        Ok(copied) if copied == length => Ok(()),
        _ => Err(Errno::FAULT),
    }
}
