//! Zeroed pages for buffers of the driver, which the bus provides.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use super::{BusError, DmaFile, HUGE_PAGE_SIZE, PAGE_SIZE};
use crate::errno;

/// From this length on, buffers are padded and aligned here, not by the allocator: the allocator
/// clears memory of an aligned layout itself, but gets a large unaligned one zeroed from the
/// system, which allocates pages when they are touched.
const LARGE_BYTES: usize = 64 << 10;

/// The owner of pages. Dropping it frees them.
pub trait PageOwner {
    /// Returns the file that backs the pages, if another process can map it.
    fn file(&self) -> Option<DmaFile> {
        None
    }

    /// Closes the file, because a process has few descriptors and may have many buffers.
    fn close_file(&mut self) {}
}

/// Zeroed pages. Large ones begin at a huge page, if the bus has an IOMMU that could use it.
pub struct BufferPages {
    address: NonNull<AtomicU64>,
    length: usize,
    owner: Box<dyn PageOwner>,
}

impl fmt::Debug for BufferPages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BufferPages")
            .field("address", &self.address)
            .field("length", &self.length)
            .finish_non_exhaustive()
    }
}

impl BufferPages {
    /// Creates pages from memory of `owner`.
    ///
    /// # Safety
    ///
    /// The `length` bytes at `address` are whole pages of zeros, valid for reads and writes until
    /// `owner` is dropped, on any thread. Only the device accesses them other than through these
    /// atomics.
    pub unsafe fn new(
        address: NonNull<AtomicU64>,
        length: usize,
        owner: impl PageOwner + 'static,
    ) -> Self {
        Self {
            address,
            length,
            owner: Box::new(owner),
        }
    }

    /// Allocates `length` bytes, a multiple of the page size, from the program's allocator.
    ///
    /// # Errors
    ///
    /// [`BusError::Os`] when it has no memory.
    pub fn from_allocator(length: usize) -> Result<Self, BusError> {
        let refused = BusError::Os(errno::ENOMEM);
        let alignment = if length as u64 >= HUGE_PAGE_SIZE {
            HUGE_PAGE_SIZE as usize
        } else {
            PAGE_SIZE
        };
        let layout = if length < LARGE_BYTES {
            Layout::from_size_align(length.max(PAGE_SIZE), PAGE_SIZE)
        } else {
            let padded = length.checked_add(alignment).ok_or(refused)?;
            Layout::from_size_align(padded, align_of::<AtomicU64>())
        };
        let layout = layout.map_err(|_| refused)?;
        // SAFETY: the layout is not empty.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(refused)?;
        let owner = Allocation { start, layout };
        let offset = start.addr().get().next_multiple_of(alignment) - start.addr().get();
        // SAFETY: `offset` is zero in a short allocation, and less than the padding in a long one.
        // The memory belongs to `owner`, which any thread may free, and only this function knows
        // its address.
        Ok(unsafe { Self::new(start.add(offset).cast(), length, owner) })
    }

    /// Returns the first byte.
    pub fn address(&self) -> NonNull<AtomicU64> {
        self.address
    }

    /// Returns the length in bytes.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Returns the file that backs the pages.
    pub fn file(&self) -> Option<DmaFile> {
        self.owner.file()
    }

    /// Closes the file.
    pub fn close_file(&mut self) {
        self.owner.close_file();
    }
}

/// Memory of the program's allocator.
struct Allocation {
    start: NonNull<u8>,
    layout: Layout,
}

impl PageOwner for Allocation {}

impl Drop for Allocation {
    fn drop(&mut self) {
        // SAFETY: the allocator returned `start` for this layout, and `self`, its only owner, is
        // being dropped.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn pages_of_the_allocator_are_aligned_and_zero() {
        let huge = HUGE_PAGE_SIZE as usize;
        for length in [
            PAGE_SIZE,
            3 * PAGE_SIZE,
            LARGE_BYTES,
            huge,
            huge + PAGE_SIZE,
        ] {
            let mut pages = BufferPages::from_allocator(length).expect("memory");
            let alignment = if length < huge { PAGE_SIZE } else { huge };
            assert_eq!(pages.address().addr().get() % alignment, 0);
            assert_eq!(pages.length(), length);
            assert_eq!(pages.file(), None);
            pages.close_file();
            for word in [0, length / 8 - 1] {
                // SAFETY: the word is inside of the pages.
                let word = unsafe { pages.address().add(word).as_ref() };
                assert_eq!(word.swap(1, Ordering::Relaxed), 0);
            }
        }
    }

    #[test]
    fn what_no_allocator_has_is_refused() {
        for length in [usize::MAX / 2 + 1 - PAGE_SIZE, usize::MAX - PAGE_SIZE + 1] {
            let error = BufferPages::from_allocator(length).expect_err("too much");
            assert_eq!(error, BusError::Os(errno::ENOMEM));
        }
    }
}
