//! Memory of an on-demand region whose pages come and go while the device uses them. They are those
//! of a file, so that their content stays.

use std::cell::Cell;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};

use ferroce_verbs_client::memory::Buffer;

const PAGE: usize = 4096;
/// Pages of one invalidation at most.
const PAGES_MAX: u64 = 16;
/// The generator of Knuth's MMIX.
const FACTOR: u64 = 6_364_136_223_846_793_005;

/// The file under a buffer, and the state of the choice of pages.
pub struct Paged {
    file: File,
    random: Cell<u64>,
}

impl Paged {
    /// Puts pages of a new file in place of those of a buffer.
    pub fn new(buffer: &Buffer, seed: u64) -> Self {
        // SAFETY: the name ends with NUL; the file has no other owner.
        let file =
            unsafe { File::from_raw_fd(libc::memfd_create(c"random".as_ptr(), libc::MFD_CLOEXEC)) };
        file.set_len(buffer.length() as u64).expect("room");
        let paged = Self {
            file,
            random: Cell::new(seed),
        };
        paged.map(buffer, 0, buffer.length());
        paged
    }

    fn below(&self, limit: u64) -> usize {
        let next = self.random.get().wrapping_mul(FACTOR).wrapping_add(1);
        self.random.set(next);
        ((next >> 33) % limit) as usize
    }

    /// Drops some pages from the page tables, or maps them anew at the same addresses.
    pub fn invalidate(&self, buffer: &Buffer) {
        let all = buffer.length() / PAGE;
        let first = self.below(all as u64);
        let pages = (1 + self.below(PAGES_MAX)).min(all - first);
        let (start, length) = (first * PAGE, pages * PAGE);
        if self.below(2) == 0 {
            return self.map(buffer, start, length);
        }
        let address = buffer.address(start) as *mut _;
        // SAFETY: pages of a shared file: their content stays.
        let status = unsafe { libc::madvise(address, length, libc::MADV_DONTNEED) };
        assert_eq!(status, 0);
    }

    fn map(&self, buffer: &Buffer, start: usize, length: usize) {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_FIXED;
        let (address, file) = (buffer.address(start) as *mut _, self.file.as_raw_fd());
        // SAFETY: pages of the buffer, which is accessed through copies only, by the same pages of
        // the file each time.
        let mapped =
            unsafe { libc::mmap(address, length, rights, flags, file, start as libc::off_t) };
        assert_eq!(mapped, address);
    }
}
