//! Files that another process has handed over, mapped here: whoever owns one may cut it off at any
//! time, and an access behind its end is a SIGBUS.
//!
//! A seal against shrinking would help for memory files only, and not all clients set it (QEMU does
//! for `memory-backend-memfd`, not for `memory-backend-file`); and even a sealed file can have holes
//! for which there is no memory. So SIGBUS has a handler: it replaces the mapping in which the access
//! was by memory of this process, all zero. The access then succeeds, the owner does not see it, and
//! [`ForeignFile::is_lost`] tells. Accesses elsewhere end the process, as without the handler.

use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use std::os::fd::AsRawFd;

/// Files and parts of files mapped at a time, in the whole process.
pub const MAX_FILES: usize = 8192;

/// Where a file is mapped; `end` is zero in an entry that is not in use.
struct Entry {
    start: AtomicUsize,
    end: AtomicUsize,
    is_taken: AtomicBool,
    is_lost: AtomicBool,
}

/// What the handler may look at: a signal handler cannot take a lock.
static ENTRIES: [Entry; MAX_FILES] = [const {
    Entry {
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        is_taken: AtomicBool::new(false),
        is_lost: AtomicBool::new(false),
    }
}; MAX_FILES];

/// A mapping of a file, or a part of one, that belongs to somebody else.
#[derive(Debug)]
pub struct ForeignFile {
    base: NonNull<u8>,
    /// Where in the file it begins.
    offset: u64,
    length: usize,
    entry: usize,
}

// SAFETY: the mapping is owned by this value, not by a thread, and it gives no references into it.
unsafe impl Send for ForeignFile {}
// SAFETY: as above.
unsafe impl Sync for ForeignFile {}

impl ForeignFile {
    /// Maps all of a file, for reading and, if asked, for writing.
    ///
    /// # Errors
    /// That of the system; `OutOfMemory` if [`MAX_FILES`] are mapped.
    pub fn map(file: &File, is_writable: bool) -> io::Result<Self> {
        let length = file.metadata()?.len();
        Self::map_part(file, (0, length), is_writable)
    }

    /// Maps `length` bytes from `offset` on, which is a multiple of the page size, for reading and,
    /// if asked, for writing. If the file ends before, they are lost.
    ///
    /// # Errors
    /// As for [`Self::map`].
    pub fn map_part(
        file: &File,
        (offset, length): (u64, u64),
        is_writable: bool,
    ) -> io::Result<Self> {
        let length = usize::try_from(length)
            .ok()
            .filter(|length| (1..isize::MAX as usize).contains(length))
            .ok_or(io::ErrorKind::InvalidInput)?;
        let start = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
        install_handler()?;
        let entry = claim_entry().ok_or(io::ErrorKind::OutOfMemory)?;
        let protection = match is_writable {
            true => libc::PROT_READ | libc::PROT_WRITE,
            false => libc::PROT_READ,
        };
        // SAFETY: a new mapping at an address of the kernel's choice disturbs nobody.
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
            let error = io::Error::last_os_error();
            ENTRIES[entry].is_taken.store(false, Ordering::Release);
            return Err(error);
        };
        let start = base.as_ptr().expose_provenance();
        ENTRIES[entry].is_lost.store(false, Ordering::SeqCst);
        ENTRIES[entry].start.store(start, Ordering::SeqCst);
        ENTRIES[entry].end.store(start + length, Ordering::SeqCst);
        Ok(Self {
            base,
            offset,
            length,
            entry,
        })
    }

    /// Bytes.
    pub fn length(&self) -> u64 {
        self.length as u64
    }

    /// The address in this process of `length` bytes at `offset` in the file, if they are inside.
    pub fn address(&self, offset: u64, length: u64) -> Option<usize> {
        let inside = offset.checked_sub(self.offset)?;
        let end = inside.checked_add(length)?;
        (end <= self.length as u64).then(|| self.base.as_ptr().addr() + inside as usize)
    }

    /// Whether a part of the file was gone when it was accessed; the mapping is detached then.
    pub fn is_lost(&self) -> bool {
        ENTRIES[self.entry].is_lost.load(Ordering::SeqCst)
    }
}

impl Drop for ForeignFile {
    fn drop(&mut self) {
        let entry = &ENTRIES[self.entry];
        entry.end.store(0, Ordering::SeqCst);
        // SAFETY: the range was mapped by `map`, or replaced by the handler; who used its address
        // has ended that, as the doc comment of `MemoryMap::map` asks.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.length) };
        entry.is_taken.store(false, Ordering::Release);
    }
}

fn claim_entry() -> Option<usize> {
    ENTRIES
        .iter()
        .position(|entry| !entry.is_taken.swap(true, Ordering::AcqRel))
}

/// Lets SIGBUS reach this thread: the kernel ends a process whose thread blocks it and accesses what
/// is not there.
pub fn allow_bus_errors() {
    // SAFETY: the set is initialised before it is read.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGBUS);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
    }
}

fn install_handler() -> io::Result<()> {
    static RESULT: OnceLock<Option<i32>> = OnceLock::new();
    let error = RESULT.get_or_init(|| {
        // SAFETY: all zero is an action with an empty mask; `on_bus_error` does only what a signal
        // handler may do.
        let result = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_bus_error as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut())
        };
        (result != 0).then(|| {
            io::Error::last_os_error()
                .raw_os_error()
                .unwrap_or(libc::EIO)
        })
    });
    error.map_or(Ok(()), |errno| Err(io::Error::from_raw_os_error(errno)))
}

extern "C" fn on_bus_error(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    _context: *mut libc::c_void,
) {
    // SAFETY: with SA_SIGINFO the kernel passes a valid siginfo_t; for SIGBUS si_addr is set.
    let address = unsafe { (*info).si_addr() }.addr();
    let entry = ENTRIES.iter().find(|entry| {
        let end = entry.end.load(Ordering::SeqCst);
        let start = entry.start.load(Ordering::SeqCst);
        (start..end).contains(&address)
    });
    let is_replaced = entry.is_some_and(replace);
    if !is_replaced {
        // SAFETY: signal() may be called in a handler. The access is repeated on return, and ends
        // the process as it would have without this handler.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// Puts zeroed memory where the file was mapped. Called in a signal handler.
fn replace(entry: &Entry) -> bool {
    let start = entry.start.load(Ordering::SeqCst);
    let length = entry.end.load(Ordering::SeqCst).saturating_sub(start);
    // SAFETY: the range is a mapping of ours, which stays while its entry is filled: what is
    // accessed cannot be dropped meanwhile. mmap is a plain system call, and errno is put back.
    unsafe {
        let errno = *libc::__errno_location();
        let memory = libc::mmap(
            std::ptr::without_provenance_mut(start),
            length,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_FIXED | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        );
        *libc::__errno_location() = errno;
        entry.is_lost.store(true, Ordering::SeqCst);
        memory != libc::MAP_FAILED
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{MemoryMap, Rights};
    use rustix::fs::{MemfdFlags, memfd_create};

    const SIZE: u64 = 64 << 10;
    const IOVA: u64 = 1 << 20;

    fn memory_file() -> File {
        let file = File::from(memfd_create("test", MemfdFlags::CLOEXEC).expect("memory"));
        file.set_len(SIZE).expect("memory");
        file
    }

    #[test]
    fn a_file_that_is_cut_off_is_lost_and_harms_nobody() {
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
        // On a thread that blocks signals, as the one that runs the model does.
        std::thread::scope(|scope| {
            crate::os::with_signals_blocked(|| {
                scope.spawn(|| {
                    allow_bus_errors();
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
        let part = ForeignFile::map_part(&file, (8192, 4096), true).expect("room");
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
            let mapped = ForeignFile::map_part(&file, (offset, length), true);
            assert!(mapped.is_err(), "{offset} {length}");
        }
    }

    #[test]
    fn entries_are_given_back() {
        let file = memory_file();
        for _ in 0..2 * MAX_FILES {
            drop(ForeignFile::map(&file, true).expect("room"));
        }
    }
}
