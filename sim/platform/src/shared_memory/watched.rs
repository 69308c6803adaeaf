//! Mapped files that other processes may truncate at any time. An access past the end of a file
//! raises SIGBUS. Its handler ([`crate::os::faults`]) calls [`replace_at`], which replaces the
//! whole mapping by private memory of this process, all zero. The access then succeeds, no other
//! process sees it, and [`Watched::is_lost`] returns true.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use crate::os::faults;

/// Mappings that are watched at a time, in the whole process.
pub const MAX_WATCHED: usize = 8192;

/// A mapped file; `end` is zero in an unused entry.
struct Entry {
    start: AtomicUsize,
    end: AtomicUsize,
    is_taken: AtomicBool,
    is_lost: AtomicBool,
}

/// Table for the handler: a signal handler cannot take a lock.
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

/// Returns how many mappings of this process have been replaced.
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
    /// Reserves an entry. Installs the handler first.
    ///
    /// # Errors
    /// The error of the system; `OutOfMemory` if [`MAX_WATCHED`] are in use.
    pub fn claim() -> io::Result<Self> {
        faults::install()?;
        faults::replace_files_by(replace_at);
        let entry = ENTRIES
            .iter()
            .position(|entry| !entry.is_taken.swap(true, Ordering::AcqRel))
            .ok_or(io::ErrorKind::OutOfMemory)?;
        ENTRIES[entry].is_lost.store(false, Ordering::SeqCst);
        Ok(Self { entry })
    }

    /// Starts to watch the mapping `start..start + length`.
    pub fn watch(&self, start: usize, length: usize) {
        let entry = &ENTRIES[self.entry];
        entry.start.store(start, Ordering::SeqCst);
        entry.end.store(start + length, Ordering::SeqCst);
    }

    /// Stops watching: the addresses may be reused soon.
    pub fn forget(&self) {
        ENTRIES[self.entry].end.store(0, Ordering::SeqCst);
    }

    /// Returns true if a part of the file was missing in an access; the mapping is detached then.
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

/// Replaces the mapped file that contains `address` by zeroed memory. Returns true if there is one.
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
    // SAFETY: the range is a mapping that stays while its entry is filled: memory that is being
    // accessed cannot be dropped meanwhile. mmap is a plain system call, and errno is restored.
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
