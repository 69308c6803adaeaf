//! Mapped files that others may cut off at any time. An access behind the end of a file is a
//! SIGBUS, whose handler ([`crate::os::faults`]) asks here: the whole mapping is replaced by memory
//! of this process, all zero. The access then succeeds, nobody else sees it, and
//! [`Watched::is_lost`] tells.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use crate::os::faults;

/// Mappings that are watched at a time, in the whole process.
pub const MAX_WATCHED: usize = 8192;

/// Where a file is mapped; `end` is zero in an entry that is not in use.
struct Entry {
    start: AtomicUsize,
    end: AtomicUsize,
    is_taken: AtomicBool,
    is_lost: AtomicBool,
}

/// What the handler may look at: a signal handler cannot take a lock.
static ENTRIES: [Entry; MAX_WATCHED] = [const {
    Entry {
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        is_taken: AtomicBool::new(false),
        is_lost: AtomicBool::new(false),
    }
}; MAX_WATCHED];

/// Mappings replaced so far.
static LOSSES: AtomicU32 = AtomicU32::new(0);

/// How many mappings of this process have been replaced so far.
#[inline]
pub fn losses() -> u32 {
    LOSSES.load(Ordering::Relaxed)
}

/// A mapping that is watched as long as this value lives. The mapping has to live longer.
#[derive(Debug)]
pub struct Watched {
    entry: usize,
}

impl Watched {
    /// Room to watch one. Takes the handler's place first.
    ///
    /// # Errors
    /// That of the system; `OutOfMemory` if [`MAX_WATCHED`] are.
    pub fn claim() -> io::Result<Self> {
        faults::install()?;
        let entry = ENTRIES
            .iter()
            .position(|entry| !entry.is_taken.swap(true, Ordering::AcqRel))
            .ok_or(io::ErrorKind::OutOfMemory)?;
        ENTRIES[entry].is_lost.store(false, Ordering::SeqCst);
        Ok(Self { entry })
    }

    /// The mapping is there: `start..start + length`.
    pub fn watch(&self, start: usize, length: usize) {
        let entry = &ENTRIES[self.entry];
        entry.start.store(start, Ordering::SeqCst);
        entry.end.store(start + length, Ordering::SeqCst);
    }

    /// The mapping goes: its addresses may be those of something else soon.
    pub fn forget(&self) {
        ENTRIES[self.entry].end.store(0, Ordering::SeqCst);
    }

    /// Whether a part of the file was gone when it was accessed; the mapping is detached then.
    pub fn is_lost(&self) -> bool {
        ENTRIES[self.entry].is_lost.load(Ordering::SeqCst)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.forget();
        ENTRIES[self.entry].is_taken.store(false, Ordering::Release);
    }
}

/// Puts zeroed memory where the file is mapped in which `address` lies. Whether there is one.
///
/// Called in a signal handler.
pub fn replace_at(address: usize) -> bool {
    let entry = ENTRIES.iter().find(|entry| {
        let end = entry.end.load(Ordering::SeqCst);
        let start = entry.start.load(Ordering::SeqCst);
        (start..end).contains(&address)
    });
    entry.is_some_and(replace)
}

fn replace(entry: &Entry) -> bool {
    const PROTECTION: i32 = libc::PROT_READ | libc::PROT_WRITE;
    const FLAGS: i32 =
        libc::MAP_FIXED | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let start = entry.start.load(Ordering::SeqCst);
    let length = entry.end.load(Ordering::SeqCst).saturating_sub(start);
    // SAFETY: the range is a mapping of ours, which stays while its entry is filled: what is
    // accessed cannot be dropped meanwhile. mmap is a plain system call, and errno is put back.
    unsafe {
        let errno = *libc::__errno_location();
        let memory = libc::syscall(
            libc::SYS_mmap,
            start,
            length,
            PROTECTION as usize,
            FLAGS as usize,
            usize::MAX,
            0_usize,
        );
        *libc::__errno_location() = errno;
        entry.is_lost.store(true, Ordering::SeqCst);
        LOSSES.fetch_add(1, Ordering::SeqCst);
        memory != -1
    }
}
