//! Memory of the program: prefaulting of registered memory, and the buffers of `ibv_alloc_buf`.

use libc::c_void;

use super::boundary::last_errno;
use crate::errno::{Errno, Right, Shown};

/// Returns the granularity of mappings.
fn page_size() -> usize {
    // SAFETY: `sysconf` takes no pointers.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(4096)
}

/// Touches every page of a range, like pinning in the kernel. The range may be empty.
///
/// # Errors
/// `EFAULT` when a page is not mapped, or `writable` is set and a page is not writable.
pub(crate) fn populate(address: usize, length: usize, writable: bool) -> Result<(), Errno> {
    if length == 0 {
        return Ok(());
    }
    let page = page_size();
    let start = address & !(page - 1);
    let end = address
        .checked_add(length)
        .and_then(|end| end.checked_next_multiple_of(page));
    let end = end.ok_or_else(|| Errno::wrong("length", length, "an end below 2^64"))?;
    let advice = if writable {
        libc::MADV_POPULATE_WRITE
    } else {
        libc::MADV_POPULATE_READ
    };
    let pointer: *mut c_void = std::ptr::with_exposed_provenance_mut(start);
    // SAFETY: the call only brings pages in; a range that is not mapped is an error, not an access.
    if unsafe { libc::madvise(pointer, end - start, advice) } == 0 {
        return Ok(());
    }
    match last_errno().number() {
        libc::EFAULT | libc::ENOMEM => {
            let address = Shown::Bits(address as u64);
            let right = match writable {
                true => Right::Text("mapped memory that may be written"),
                false => Right::Text("mapped memory"),
            };
            Err(Errno::FAULT.argument("addr", address, right))
        }
        // A kernel before 5.14 does not support the advice, and special mappings refuse it: the
        // result is then unknown.
        _ => Ok(()),
    }
}

/// Separate anonymous memory, page aligned.
pub(super) struct Mapping {
    address: *mut c_void,
    length: usize,
}

impl Mapping {
    pub(super) fn new(length: usize) -> Result<Self, Errno> {
        let length = length
            .checked_next_multiple_of(page_size())
            .ok_or(Errno::NO_MEMORY)?;
        if length == 0 {
            return Err(Errno::wrong("size", length, "at least 1"));
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice affects no existing
        // memory.
        let address = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, -1, 0) };
        if address == libc::MAP_FAILED {
            return Err(last_errno());
        }
        Ok(Self { address, length })
    }

    pub(super) fn address(&self) -> *mut c_void {
        self.address
    }

    /// Returns true if a range lies within.
    pub(super) fn contains(&self, address: *mut c_void, length: usize) -> bool {
        let offset = address.addr().wrapping_sub(self.address.addr());
        offset <= self.length && length <= self.length - offset
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: address and length are one mapping of `new`, and `self`, its only owner, is being
        // dropped; the program no longer uses the buffer (contract of `ibv_free_buf`).
        unsafe { libc::munmap(self.address, self.length) };
    }
}
