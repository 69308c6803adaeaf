//! Mapped files of another process. Their owner may truncate them at any time, and an access past
//! the end of a file raises SIGBUS.
//!
//! A seal against shrinking would help for memory files only, and not all clients set it: QEMU does
//! for `memory-backend-memfd`, not for `memory-backend-file`. Even a sealed file can have holes for
//! which there is no memory. So each mapping is [`Watched`].

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;

use super::watched::Watched;

/// A mapping of a file of another process, or of a part of one.
#[derive(Debug)]
pub struct ForeignFile {
    base: NonNull<u8>,
    /// Offset of the mapping in the file.
    offset: u64,
    length: usize,
    watched: Watched,
}

// SAFETY: the mapping is owned by this value, not by a thread, and no references into it are given.
unsafe impl Send for ForeignFile {}
// SAFETY: no references into the mapping are given, only its address.
unsafe impl Sync for ForeignFile {}

impl ForeignFile {
    /// Maps all of a file, for reading and, if requested, for writing.
    ///
    /// # Errors
    /// The error of the system; `OutOfMemory` if [`super::watched::MAX_WATCHED`] are mapped.
    pub fn map(file: &File, is_writable: bool) -> io::Result<Self> {
        let length = file.metadata()?.len();
        Self::map_part(file, 0, length, is_writable)
    }

    /// Maps `length` bytes from `offset` on, which is a multiple of the page size, for reading and,
    /// if requested, for writing. If the file is shorter, the mapping is lost.
    ///
    /// # Errors
    /// Those of [`Self::map`].
    pub fn map_part(file: &File, offset: u64, length: u64, is_writable: bool) -> io::Result<Self> {
        let length = usize::try_from(length)
            .ok()
            .filter(|length| (1..isize::MAX as usize).contains(length))
            .ok_or(io::ErrorKind::InvalidInput)?;
        let start = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
        let watched = Watched::claim()?;
        let protection = if is_writable {
            libc::PROT_READ | libc::PROT_WRITE
        } else {
            libc::PROT_READ
        };
        // SAFETY: without `MAP_FIXED` the kernel chooses a free address, so no existing mapping is
        // replaced.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                protection,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                start,
            )
        };
        let Some(base) = NonNull::new(base.cast::<u8>()).filter(|_| base != libc::MAP_FAILED)
        else {
            return Err(io::Error::last_os_error());
        };
        watched.watch(base.as_ptr().expose_provenance(), length);
        Ok(Self {
            base,
            offset,
            length,
            watched,
        })
    }

    /// Returns the length in bytes.
    pub fn length(&self) -> u64 {
        self.length as u64
    }

    /// Returns the address in this process of `length` bytes at `offset` in the file, if they are
    /// inside.
    pub fn address(&self, offset: u64, length: u64) -> Option<usize> {
        let inside = offset.checked_sub(self.offset)?;
        let end = inside.checked_add(length)?;
        (end <= self.length as u64).then(|| self.base.as_ptr().addr() + inside as usize)
    }

    /// Returns true if a part of the file was missing in an access; the mapping is detached then.
    pub fn is_lost(&self) -> bool {
        self.watched.is_lost()
    }
}

impl Drop for ForeignFile {
    fn drop(&mut self) {
        self.watched.forget();
        // SAFETY: `map` has mapped the range, or the handler has replaced it; users of its address
        // have stopped, as the documentation of `MemoryMap::map` requires.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{MemfdFlags, memfd_create};

    use super::*;
    use crate::os::faults;
    use crate::shared_memory::watched::MAX_WATCHED;
    use ferroce_host::memory::{MemoryMap, Rights};

    const SIZE: u64 = 64 << 10;
    const IOVA: u64 = 1 << 20;

    fn memory_file() -> File {
        let file = File::from(memfd_create("test", MemfdFlags::CLOEXEC).expect("memory"));
        file.set_len(SIZE).expect("memory");
        file
    }

    #[test]
    fn a_truncated_file_is_lost_without_further_harm() {
        let (file, other) = (memory_file(), memory_file());
        let mapped = ForeignFile::map(&file, true).expect("room");
        let beside = ForeignFile::map(&other, true).expect("room");
        let mut map = MemoryMap::default();
        let address = mapped.address(0, SIZE).expect("inside");
        map.map(IOVA, address, SIZE, Rights::ReadWrite)
            .expect("free");
        let address = beside.address(0, SIZE).expect("inside");
        map.map(IOVA + SIZE, address, SIZE, Rights::ReadWrite)
            .expect("free");
        map.write(IOVA + 100, &[7; 200]).expect("mapped");
        file.set_len(4096).expect("it is ours");
        assert!(!mapped.is_lost());
        let mut bytes = [1; 100];
        // On a thread that blocks signals, like the thread that runs the model.
        std::thread::scope(|scope| {
            crate::os::with_signals_blocked(|| {
                scope.spawn(|| {
                    faults::allow();
                    map.read(IOVA + 8192, &mut bytes).expect("mapped");
                    map.write(IOVA + 3 * 4096 - 50, &[3; 100]).expect("mapped");
                });
            });
        });
        assert_eq!(bytes, [0; 100]);
        assert!(mapped.is_lost() && !beside.is_lost());
        map.write(IOVA + SIZE, &[9]).expect("mapped");
        let mut first = [0];
        std::os::unix::fs::FileExt::read_exact_at(&other, &mut first, 0).expect("there");
        assert_eq!(first, [9], "the other file is still mapped");
    }

    #[test]
    fn addresses_are_inside_of_the_file() {
        let file = memory_file();
        let mapped = ForeignFile::map(&file, false).expect("room");
        assert_eq!(mapped.length(), SIZE);
        let base = mapped.address(0, 1).expect("inside");
        assert_eq!(mapped.address(SIZE - 1, 1), Some(base + SIZE as usize - 1));
        assert_eq!(mapped.address(SIZE - 1, 2), None);
        assert_eq!(mapped.address(u64::MAX, 2), None);
        file.set_len(0).expect("it is ours");
        assert!(ForeignFile::map(&file, true).is_err(), "empty");
    }

    #[test]
    fn a_part_of_a_file_is_mapped() {
        let file = memory_file();
        let part = ForeignFile::map_part(&file, 8192, 4096, true).expect("room");
        let address = part.address(8192, 4096).expect("inside");
        assert_eq!(part.address(8192 + 4000, 96), Some(address + 4000));
        assert_eq!(part.address(8192 + 4000, 97), None);
        assert_eq!(part.address(8191, 1), None);
        let mut map = MemoryMap::default();
        map.map(IOVA, address, 4096, Rights::ReadWrite)
            .expect("free");
        map.write(IOVA + 5, &[7]).expect("mapped");
        let mut byte = [0];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut byte, 8197).expect("there");
        assert_eq!(byte, [7]);
        for (offset, length) in [(5, 4096), (0, 0), (u64::MAX - 4095, 4096), (0, 1 << 63)] {
            let mapped = ForeignFile::map_part(&file, offset, length, true);
            assert!(mapped.is_err(), "{offset} {length}");
        }
    }

    #[test]
    fn entries_are_given_back() {
        let file = memory_file();
        for _ in 0..2 * MAX_WATCHED {
            drop(ForeignFile::map(&file, true).expect("room"));
        }
    }
}
