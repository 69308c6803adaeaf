//! Memory of the application, which the device reads and writes in place.

use std::os::fd::{BorrowedFd, RawFd};
use std::ptr;

use ferroce_vfio_user::{Errno, ProcessMemory};

use ferroce_driver::bus::{DmaAccess, DmaMapping};

/// Largest range whose pages are checked one by one.
const POPULATE_LIMIT: usize = 64 << 20;
/// Page size of mincore; pages are never smaller.
const PAGE: usize = 4096;
// Linux 5.14; older kernels return EINVAL for any advice that they do not know.
const MADV_POPULATE_READ: libc::c_int = 22;
const MADV_POPULATE_WRITE: libc::c_int = 23;

/// A random value in the memory of this process, by which a server that has opened a process's
/// memory verifies that it is the right process.
#[derive(Debug)]
pub(super) struct Proof(Box<[u64; 2]>);

impl Proof {
    /// Generates the value. `None`: the system has no random numbers, so there is no proof.
    pub(super) fn new() -> Option<Self> {
        let mut token = Box::new([0u64; 2]);
        let length = size_of_val(&*token);
        // SAFETY: the kernel writes at most `length` bytes to `token`.
        let filled = unsafe { libc::getrandom(token.as_mut_ptr().cast(), length, 0) };
        (usize::try_from(filled) == Ok(length)).then_some(Self(token))
    }

    /// Returns the message for the server.
    pub(super) fn claim(&self) -> ProcessMemory {
        let Self(token) = self;
        ProcessMemory {
            process: std::process::id(),
            address: ptr::from_ref(&**token).expose_provenance() as u64,
            token: **token,
        }
    }
}

/// Allows a process to open the memory of this one while the value lives, where the Yama security
/// module reserves that for ancestors (`kernel.yama.ptrace_scope` 1; other kernels ignore it). The
/// other rules still apply: it has to run as the same user.
#[derive(Debug)]
pub(super) struct Admission(());

impl Admission {
    pub(super) fn of(process: u32) -> Self {
        set_tracer(process.into());
        Self(())
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        set_tracer(0);
    }
}

fn set_tracer(process: libc::c_ulong) {
    // SAFETY: the call changes which process may attach to this one, and no memory. It fails
    // without Yama, where no permission is needed.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, process, 0, 0, 0) };
}

/// Lends a descriptor of a [`DmaFile`](ferroce_driver::bus::DmaFile) to `body`.
pub(super) fn with_file<R>(descriptor: RawFd, body: impl FnOnce(BorrowedFd<'_>) -> R) -> R {
    // SAFETY: the caller of `Bus::map` keeps the file open until that call returns, and this call
    // is inside it.
    body(unsafe { BorrowedFd::borrow_raw(descriptor) })
}

/// Returns true if the memory of a mapping exists and allows the access. Writing through
/// `/proc/PID/mem` would ignore its protection, so the driver has to check. Ranges above 64 MiB are
/// only checked for holes.
pub(super) fn is_usable(mapping: &DmaMapping) -> bool {
    let advice = match mapping.access {
        DmaAccess::Read => MADV_POPULATE_READ,
        DmaAccess::ReadWrite => MADV_POPULATE_WRITE,
    };
    let start = ptr::without_provenance_mut(mapping.address);
    if mapping.length <= POPULATE_LIMIT {
        // SAFETY: populating changes neither content nor protection of memory; the kernel returns
        // an error for bad ranges.
        let populated = unsafe { libc::madvise(start, mapping.length, advice) } == 0;
        if populated || is_populate_known() {
            return populated;
        }
    }
    let mut resident = vec![0u8; POPULATE_LIMIT / PAGE];
    (0..mapping.length).step_by(POPULATE_LIMIT).all(|offset| {
        let part = (mapping.length - offset).min(POPULATE_LIMIT);
        // SAFETY: mincore writes one byte per page of `part` into `resident`, which has room for
        // POPULATE_LIMIT bytes of pages of at least 4 KiB; the kernel returns ENOMEM for a hole.
        unsafe { libc::mincore(start.wrapping_byte_add(offset), part, resident.as_mut_ptr()) == 0 }
    })
}

fn is_populate_known() -> bool {
    // SAFETY: the kernel returns success for an empty range, and EINVAL for an unknown advice.
    unsafe { libc::madvise(ptr::null_mut(), 0, MADV_POPULATE_READ) == 0 }
}

/// Copies memory of the application without a fault, even if the application has unmapped it in
/// breach of the contract.
pub(super) fn read(address: usize, data: &mut [u8]) -> Result<(), Errno> {
    let local = iovec(data.as_mut_ptr(), data.len());
    let remote = iovec(ptr::without_provenance_mut(address), data.len());
    // SAFETY: the kernel writes to `data` only, which is borrowed exclusively; it checks `remote`.
    // The memory there belongs to the application, which has registered it for the device to read.
    let copied = unsafe {
        libc::process_vm_readv(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0)
    };
    complete(copied, data.len())
}

/// Copies to memory of the application, like [`read`].
pub(super) fn write(address: usize, data: &[u8]) -> Result<(), Errno> {
    let local = iovec(data.as_ptr().cast_mut(), data.len());
    let remote = iovec(ptr::without_provenance_mut(address), data.len());
    // SAFETY: the kernel reads `data` only; it checks `remote`, which the driver has mapped for the
    // device to write: memory of the application, or a ring of the driver, which the driver
    // accesses through atomics.
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
