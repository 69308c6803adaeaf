//! Zeroed pages for buffers of the driver: memory of the kernel, which a child made by fork does
//! not inherit.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU64;

use crate::memfd;
use crate::shared_mapping::SharedMapping;
use ferroce_driver::bus::{BufferPages, BusError, DmaFile, HUGE_PAGE_SIZE, PageOwner};

/// Large mappings begin at a huge page.
const HUGE_PAGE_BYTES: usize = HUGE_PAGE_SIZE as usize;

/// Kind of memory for the driver's buffers. A child made by fork sees zeros there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BufferMemory {
    /// Memory of this process alone; takes pages when they are touched.
    Private,
    /// A file in memory, which another process can map ([`BufferPages::file`]).
    Shared,
    /// Like `Private`, but mapping it takes all pages: large buffers should be few, large pages.
    Pinned,
}

impl BufferMemory {
    /// Allocates `length` bytes, a multiple of the page size and not zero.
    ///
    /// # Errors
    ///
    /// [`BusError::Os`]: for example, no descriptor is left for a file in memory, or making one is
    /// not permitted.
    pub fn allocate(self, length: usize) -> Result<BufferPages, BusError> {
        let pages = match self {
            Self::Private => PrivateMapping::new(length).map(PrivateMapping::into_pages),
            Self::Pinned => PrivateMapping::new(length).map(|mapping| {
                mapping.prefer_huge_pages();
                mapping.into_pages()
            }),
            Self::Shared => SharedPages::new(length).map(SharedPages::into_pages),
        };
        pages.map_err(|error| BusError::Os(error.raw_os_error().unwrap_or(libc::ENOMEM)))
    }
}

/// A file in memory and its mapping.
#[derive(Debug)]
struct SharedPages {
    mapping: SharedMapping,
    /// Open until the memory is mapped for the device.
    file: Option<OwnedFd>,
}

impl SharedPages {
    fn new(length: usize) -> io::Result<Self> {
        let file = memfd::create(length)?;
        Ok(Self {
            mapping: SharedMapping::new(file.as_fd(), 0, length)?,
            file: Some(file),
        })
    }

    fn into_pages(self) -> BufferPages {
        let (address, length) = (self.mapping.address().cast(), self.mapping.length());
        // SAFETY: a new mapping of a new file of zeros; it is unmapped when `self` is dropped.
        unsafe { BufferPages::new(address, length, self) }
    }
}

impl PageOwner for SharedPages {
    fn file(&self) -> Option<DmaFile> {
        self.file.as_ref().map(|file| DmaFile {
            descriptor: file.as_raw_fd(),
            offset: 0,
        })
    }

    fn close_file(&mut self) {
        self.file = None;
    }
}

/// Anonymous memory.
#[derive(Debug)]
struct PrivateMapping {
    address: NonNull<AtomicU64>,
    length: usize,
}

impl PrivateMapping {
    /// Maps `length` bytes; a large mapping begins at a huge page.
    fn new(length: usize) -> io::Result<Self> {
        if length < HUGE_PAGE_BYTES {
            return Self::anywhere(length);
        }
        let too_long = || io::Error::from_raw_os_error(libc::ENOMEM);
        let padded = length.checked_add(HUGE_PAGE_BYTES);
        let mapping = Self::anywhere(padded.ok_or_else(too_long)?)?;
        Ok(mapping.trim(length))
    }

    fn anywhere(length: usize) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // A child of fork must not get a copy-on-write share of memory that a device writes: the
        // parent would continue with pages that the device does not use. With MADV_WIPEONFORK the
        // child sees zeros, so that an inherited object finds an empty queue rather than unmapped
        // memory.
        //
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no existing
        // memory, and the advice applies to the new mapping only.
        let address = unsafe {
            let address = libc::mmap(ptr::null_mut(), length, protection, flags, -1, 0);
            if address == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            if libc::madvise(address, length, libc::MADV_WIPEONFORK) != 0 {
                libc::madvise(address, length, libc::MADV_DONTFORK);
            }
            address
        };
        let address = NonNull::new(address.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Self { address, length })
    }

    /// Unmaps the memory before the first huge page and after `length` bytes from there.
    fn trim(self, length: usize) -> Self {
        let start = self.address.as_ptr() as usize;
        let first = start.next_multiple_of(HUGE_PAGE_BYTES);
        let (before, end) = (first - start, start + self.length);
        let after = end - (first + length);
        let pages = self.address.as_ptr().cast::<u8>();
        // SAFETY: both ranges lie in the mapping, which is one huge page longer than `length`, and
        // are unused: the mapping has not been published yet.
        let address = unsafe {
            if before > 0 {
                libc::munmap(pages.cast(), before);
            }
            if after > 0 {
                libc::munmap(pages.add(before + length).cast(), after);
            }
            NonNull::new_unchecked(pages.add(before).cast())
        };
        std::mem::forget(self);
        Self { address, length }
    }

    fn into_pages(self) -> BufferPages {
        let (address, length) = (self.address, self.length);
        // SAFETY: a new mapping of zeros, which is unmapped when `self` is dropped.
        unsafe { BufferPages::new(address, length, self) }
    }

    fn prefer_huge_pages(&self) {
        if self.length >= HUGE_PAGE_BYTES {
            // SAFETY: the call gives advice on a mapping that this value owns. A refusal, when the
            // kernel has no transparent huge pages, only costs time.
            unsafe {
                let address = self.address.as_ptr().cast();
                libc::madvise(address, self.length, libc::MADV_HUGEPAGE);
            }
        }
    }
}

impl PageOwner for PrivateMapping {}

impl Drop for PrivateMapping {
    fn drop(&mut self) {
        // SAFETY: address and length are one mapping, and `self`, its only owner, is being dropped.
        unsafe {
            libc::munmap(self.address.as_ptr().cast(), self.length);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use ferroce_driver::bus::PAGE_SIZE;

    const KINDS: [BufferMemory; 3] = [
        BufferMemory::Private,
        BufferMemory::Shared,
        BufferMemory::Pinned,
    ];

    /// Goal: fork leaves the pages to the parent. Method: the child reports the value that it sees
    /// and writes another, then the parent reads again.
    #[test]
    fn a_child_of_fork_sees_zeros() {
        for kind in KINDS {
            let pages = kind.allocate(PAGE_SIZE).expect("one page");
            // SAFETY: the page is valid and zeroed, and is freed only below.
            let word = unsafe { pages.address().as_ref() };
            word.store(5, Ordering::Relaxed);
            // SAFETY: the child calls only what is allowed in the child of a process with threads;
            // the parent waits for that child.
            let status = unsafe {
                let child = libc::fork();
                if child == 0 {
                    let seen = word.swap(7, Ordering::Relaxed);
                    libc::_exit(seen as i32);
                }
                let mut status = -1;
                assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
                status
            };
            assert_eq!(status, 0, "{kind:?}: the child has seen the parent's page");
            assert_eq!(word.load(Ordering::Relaxed), 5, "{kind:?}");
        }
    }

    #[test]
    fn large_buffers_begin_at_a_huge_page() {
        let huge = HUGE_PAGE_BYTES;
        for kind in [BufferMemory::Private, BufferMemory::Pinned] {
            for length in [huge, huge + PAGE_SIZE, 3 * huge] {
                let pages = kind.allocate(length).expect("memory");
                assert_eq!(pages.address().as_ptr() as usize % huge, 0);
                for offset in [0, length / 8 - 1] {
                    // SAFETY: the word is inside of the mapping.
                    let word = unsafe { pages.address().add(offset).as_ref() };
                    assert_eq!(word.swap(1, Ordering::Relaxed), 0);
                }
            }
        }
    }

    #[test]
    fn shared_pages_are_those_of_the_file() {
        let owner = SharedPages::new(2 * PAGE_SIZE).expect("memory");
        let file = owner.file.as_ref().expect("a file");
        let other = SharedMapping::new(file.as_fd(), 0, 2 * PAGE_SIZE).expect("a mapping");
        let mut pages = owner.into_pages();
        assert_eq!(pages.file().map(|file| file.offset), Some(0));
        pages.close_file();
        assert_eq!(pages.file(), None);
        // SAFETY: both words are inside of their mappings.
        let (one, two) = unsafe {
            let words = PAGE_SIZE / 8;
            let two = other.address().cast::<AtomicU64>().add(words);
            (pages.address().add(words).as_ref(), two.as_ref())
        };
        one.store(9, Ordering::Relaxed);
        assert_eq!(two.load(Ordering::Relaxed), 9);
    }
}
