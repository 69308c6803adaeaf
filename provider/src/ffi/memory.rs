//! Memory of the program: prefaulting what is registered, and the buffers of `ibv_alloc_buf`.

use super::boundary::last_errno;
use crate::errno::Errno;
use libc::c_void;

/// Granularity of mappings.
fn page_size() -> usize {
    // SAFETY: no pointers.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(4096)
}

/// Touches every page of a range, as pinning in the kernel would; of an empty one none.
///
/// # Errors
/// `EFAULT` when a page is not mapped, or not writable though `writable` asks for it.
pub(crate) fn populate(address: usize, length: usize, writable: bool) -> Result<(), Errno> {
    if length == 0 {
        return Ok(());
    }
    let page = page_size();
    let start = address & !(page - 1);
    let end = address
        .checked_add(length)
        .and_then(|end| end.checked_next_multiple_of(page));
    let end = end.ok_or(Errno::INVALID)?;
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
    match last_errno().0 {
        libc::EFAULT | libc::ENOMEM => Err(Errno::FAULT),
        // A kernel before 5.14 does not know the advice, and special mappings refuse it: nothing is
        // learnt then.
        _ => Ok(()),
    }
}

/// Anonymous memory of its own, page aligned.
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
            return Err(Errno::INVALID);
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping, wherever the kernel has room.
        let address = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, -1, 0) };
        if address == libc::MAP_FAILED {
            return Err(last_errno());
        }
        Ok(Self { address, length })
    }

    pub(super) fn address(&self) -> *mut c_void {
        self.address
    }

    /// Whether a range lies within.
    pub(super) fn contains(&self, address: *mut c_void, length: usize) -> bool {
        let offset = address.addr().wrapping_sub(self.address.addr());
        offset <= self.length && length <= self.length - offset
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and the program gave it back.
        unsafe { libc::munmap(self.address, self.length) };
    }
}
