//! Memory of the program: prefaulting of registered memory, and the buffers of `ibv_alloc_buf`.

use std::ops::Range;

use ferroce_platform::os::memory_calls::{map_apart, unmap};
use libc::c_void;

use super::descriptor::ProgramFile;
use super::last_errno;
use crate::errno::{Errno, Right, Shown};

/// Pages that are looked up at a time.
const PART_PAGES: usize = 1024;
/// For fewer pages the lookup takes longer than `madvise` on pages that are resident.
const LEAST_PAGES: usize = 8;

/// Returns the granularity of mappings.
fn page_size() -> usize {
    // SAFETY: `sysconf` takes no pointers.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(4096)
}

/// Returns the addresses of the pages that contain a range; `None` if they end beyond 2^64.
fn whole_pages(address: usize, length: usize, page: usize) -> Option<Range<usize>> {
    let end = address
        .checked_add(length)?
        .checked_next_multiple_of(page)?;
    Some(address & !(page - 1)..end)
}

/// Brings the missing pages of a range into memory, like pinning in the kernel. The range may be
/// empty. It does not check whether resident pages are writable: the bus checks that.
///
/// # Errors
/// `EFAULT` when a page is not mapped, or does not exist: beyond the end of a file.
pub(crate) fn populate(address: usize, length: usize, writable: bool) -> Result<(), Errno> {
    if length == 0 {
        return Ok(());
    }
    let page = page_size();
    let pages = whole_pages(address, length, page);
    let Range { start, end } =
        pages.ok_or_else(|| Errno::wrong("length", length, "an end below 2^64"))?;
    let part_bytes = PART_PAGES * page;
    for part in (start..end).step_by(part_bytes) {
        let pages = (end - part).min(part_bytes) / page;
        match populate_part(part, pages, page, writable) {
            Ok(()) => {}
            Err(libc::EFAULT | libc::ENOMEM) => {
                let address = Shown::Bits(address as u64);
                let right = if writable {
                    Right::Text("mapped memory that may be written")
                } else {
                    Right::Text("mapped memory")
                };
                return Err(Errno::FAULT.argument("addr", address, right));
            }
            // A kernel before 5.14 does not support the advice, and special mappings refuse it: the
            // result is then unknown.
            Err(_) => return Ok(()),
        }
    }
    Ok(())
}

/// Brings in `pages` pages from `start` on, at most [`PART_PAGES`], if one of them is missing; many
/// resident pages are only looked up. On resident pages `madvise` takes thirty times as long, and
/// it causes a fault for each page that the process cannot write yet: of a file that was just
/// mapped, the page of zeros, and pages shared by a fork. Nothing needs that fault before the first
/// access: the model uses the addresses of the process, and a kernel driver pins by itself.
///
/// # Errors
/// The errno of the system call.
fn populate_part(start: usize, pages: usize, page: usize, writable: bool) -> Result<(), i32> {
    let pointer: *mut c_void = std::ptr::with_exposed_provenance_mut(start);
    if pages >= LEAST_PAGES && is_resident(pointer, pages, page) {
        return Ok(());
    }
    let access = if writable {
        Access::Write
    } else {
        Access::Read
    };
    bring_in(start, pages * page, access)
}

/// An access of the device that pages are to be ready for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// Brings the pages of a range into memory, so that an access causes no fault. The range may be
/// empty.
///
/// # Errors
/// `EFAULT` when nothing is mapped there, or not with this right.
pub(crate) fn prefetch(address: usize, length: usize, access: Access) -> Result<(), Errno> {
    if length == 0 {
        return Ok(());
    }
    let page = page_size();
    let start = address & !(page - 1);
    let brought = whole_pages(address, length, page).map_or(Err(libc::EFAULT), |pages| {
        bring_in(pages.start, pages.len(), access)
    });
    match brought {
        Ok(()) => Ok(()),
        // A kernel before 5.14: the pages come with the first access.
        Err(libc::EINVAL) if bring_in(start, 0, access).is_err() => Ok(()),
        Err(_) => {
            let right = match access {
                Access::Read => Right::Text("mapped memory that may be read"),
                Access::Write => Right::Text("mapped memory that may be written"),
            };
            Err(Errno::FAULT.argument("sg_list->addr", Shown::Bits(address as u64), right))
        }
    }
}

/// Brings pages in. For no bytes it only returns whether the kernel has the call.
///
/// # Errors
/// The errno of the system call.
fn bring_in(start: usize, length: usize, access: Access) -> Result<(), i32> {
    let advice = match access {
        Access::Read => libc::MADV_POPULATE_READ,
        Access::Write => libc::MADV_POPULATE_WRITE,
    };
    let pointer: *mut c_void = std::ptr::with_exposed_provenance_mut(start);
    // SAFETY: the call only brings pages in; a range that is not mapped is an error, not an access.
    match unsafe { libc::madvise(pointer, length, advice) } {
        0 => Ok(()),
        _ => Err(last_errno().number()),
    }
}

/// Returns true if at most [`PART_PAGES`] pages from `start` on are all in memory.
fn is_resident(start: *mut c_void, pages: usize, page: usize) -> bool {
    let mut resident = [0u8; PART_PAGES];
    let resident = &mut resident[..pages];
    // SAFETY: the kernel writes one byte for each page, and `resident` has `pages` bytes; a hole is
    // an error.
    let is_known = unsafe { libc::mincore(start, pages * page, resident.as_mut_ptr()) } == 0;
    is_known && resident.iter().all(|flags| flags & 1 != 0)
}

/// Separate anonymous memory, page aligned.
pub(crate) struct Mapping {
    address: *mut c_void,
    length: usize,
}

impl Mapping {
    pub(crate) fn new(length: usize) -> Result<Self, Errno> {
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

    pub(crate) fn address(&self) -> *mut c_void {
        self.address
    }

    /// Returns true if a range lies within.
    pub(crate) fn contains(&self, address: *mut c_void, length: usize) -> bool {
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

/// The pages of a file of the program, mapped by this library apart from the program's mappings.
pub(crate) struct FileMapping {
    /// First page, and its offset to the first byte.
    start: usize,
    shift: usize,
    length: usize,
}

impl FileMapping {
    /// Maps the pages of a file with `length` bytes from `offset` on. The mapping outlives the
    /// descriptor, which programs close after a registration.
    ///
    /// # Errors
    /// `ENOMEM`; `EOPNOTSUPP` for a file that cannot be mapped: its device's memory is out of the
    /// processor's reach.
    pub(crate) fn new(
        file: &ProgramFile,
        offset: u64,
        length: usize,
        writable: bool,
    ) -> Result<Self, Errno> {
        let page = page_size();
        let shift = offset as usize & (page - 1);
        let length = length
            .checked_add(shift)
            .and_then(|length| length.checked_next_multiple_of(page))
            .ok_or(Errno::NO_MEMORY)?;
        let protection = if writable {
            libc::PROT_READ | libc::PROT_WRITE
        } else {
            libc::PROT_READ
        };
        let (protection, flags) = (protection as usize, libc::MAP_SHARED as usize);
        let (descriptor, first) = (file.descriptor() as usize, offset as usize - shift);
        match map_apart([0, length, protection, flags, descriptor, first]) {
            Ok(start) => Ok(Self {
                start,
                shift,
                length,
            }),
            Err(libc::ENOMEM) => Err(Errno::NO_MEMORY),
            Err(_) => {
                let text = "the file cannot be mapped into this process, where the device is";
                Err(Errno::NOT_SUPPORTED.because(text))
            }
        }
    }

    /// Returns the address of the first byte.
    pub(crate) fn address(&self) -> usize {
        self.start + self.shift
    }
}

impl Drop for FileMapping {
    fn drop(&mut self) {
        // The region has ended before. On failure the pages stay mapped at an unused address.
        let _ = unmap(self.start, self.length);
    }
}
