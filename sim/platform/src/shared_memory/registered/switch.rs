//! The system calls that replace private memory by pages of a file, and back.
//!
//! A part is a range of whole pages. In the file it is at the offset that equals its address.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::ptr;

use ferroce_driver::bus::PAGE_SIZE;
use parking_lot::Mutex;
use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};
use rustix::io::Errno;

/// In an entry of `/proc/self/pagemap`: the page is there, or in the swap area.
const HAS_CONTENTS: u64 = 0b11 << 62;
/// Pages whose entries are read at a time.
const ENTRIES: usize = 512;

/// A function that is called at a fork.
pub(super) type Handler = unsafe extern "C" fn();

/// Makes private memory shared, with its contents.
///
/// The caller has checked that the part is private memory of no file, readable and writable, not in
/// use by this function, and that its offset in the file is mapped nowhere.
pub(super) fn share(file: &File, part: &Range<usize>) -> io::Result<()> {
    discard(file, part)?;
    for pages in pages_with_contents(part) {
        write(file, &pages)?;
    }
    // On failure the memory stays private or, at worst, becomes a hole. The file already has all
    // contents.
    map(file, part, libc::MAP_SHARED | libc::MAP_FIXED)
        .or_else(|_| map(file, part, libc::MAP_SHARED | libc::MAP_FIXED))?;
    let start = ptr::without_provenance_mut(part.start);
    // SAFETY: the advice only affects children; the part is shared memory of the file now. On
    // failure (no memory) children would share it, too.
    unsafe { libc::madvise(start, part.len(), libc::MADV_DONTFORK) };
    Ok(())
}

/// Makes shared memory private, with its contents.
///
/// The caller has checked that the part is shared memory of the file, readable and writable.
pub(super) fn unshare(file: &File, part: &Range<usize>) -> io::Result<()> {
    let private = Private::new(part.len())?;
    let mut at = part.start as u64;
    while let Some(data) = data_from(file, at, part.end as u64)? {
        let inside = data.start as usize - part.start;
        private.fill(file, inside, &data)?;
        at = data.end;
    }
    if let Err(error) = private.move_to(part) {
        // At worst there is a hole; the contents are still in the file.
        map(file, part, libc::MAP_SHARED | libc::MAP_FIXED)?;
        return Err(error);
    }
    Ok(())
}

/// Frees pages of the file: they are zero from now on.
pub(super) fn discard(file: &File, part: &Range<usize>) -> io::Result<()> {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let (offset, length) = (part.start as u64, part.len() as u64);
    Ok(fallocate(file, flags, offset, length)?)
}

/// Gives a child made by `fork` private copies of the pages of a part that the parent has shared
/// and that is a hole in the child. Does not allocate.
pub(super) fn inherit(file: &File, part: &Range<usize>) {
    // Mappings that the parent has made there since are kept.
    let flags = libc::MAP_PRIVATE | libc::MAP_FIXED_NOREPLACE;
    if let Err(error) = map(file, part, flags) {
        // A child has no way to report it.
        drop(error);
    }
}

/// Returns an address of the stack of the calling thread.
#[inline(never)]
pub(super) fn stack_address() -> usize {
    let local = 0u8;
    ptr::from_ref(std::hint::black_box(&local)).addr()
}

/// Registers functions for each fork: before it in the parent, after it in the parent, after it in
/// the child.
pub(super) fn at_fork(before: Handler, in_parent: Handler, in_child: Handler) {
    // SAFETY: the functions exist for the life of the library, which is never unloaded. On failure
    // (no memory) children have holes in place of shared memory.
    unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
}

/// Unlocks a mutex that a fork handler has locked, whose guard it has forgotten.
pub(super) fn unlock<T>(mutex: &Mutex<T>) {
    // SAFETY: `before_fork` has locked it in this thread, or in the thread of which this one is a
    // copy, and no guard exists.
    unsafe { mutex.force_unlock() };
}

/// Maps a part of the file at its address.
fn map(file: &File, part: &Range<usize>, flags: libc::c_int) -> io::Result<()> {
    let start = ptr::without_provenance_mut(part.start);
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the callers guarantee the state of the part. With MAP_FIXED it is registered memory
    // of the program, or shared memory of the file; either way the file has the same bytes at the
    // same address, so references to them stay valid. Without it nothing is mapped there.
    let mapped = unsafe {
        libc::mmap(
            start,
            part.len(),
            protection,
            flags,
            file.as_raw_fd(),
            part.start as libc::off_t,
        )
    };
    if mapped == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    if mapped != start {
        // For kernels that do not know MAP_FIXED_NOREPLACE.
        //
        // SAFETY: the range was just mapped, and has no references.
        unsafe { libc::munmap(mapped, part.len()) };
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    Ok(())
}

/// Copies private memory to the file.
fn write(file: &File, part: &Range<usize>) -> io::Result<()> {
    let mut at = part.start;
    while at < part.end {
        // SAFETY: the kernel reads memory of the program, like a device, and returns an error if it
        // is not mapped.
        let written = unsafe {
            libc::pwrite(
                file.as_raw_fd(),
                ptr::without_provenance(at),
                part.end - at,
                at as libc::off_t,
            )
        };
        match usize::try_from(written) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => at += written,
            Err(_) => return Err(io::Error::last_os_error()),
        }
    }
    Ok(())
}

/// Returns the pages of private memory that have been touched; the others are zero. Returns all
/// pages if the kernel does not report this.
fn pages_with_contents(part: &Range<usize>) -> Vec<Range<usize>> {
    let Ok(pagemap) = File::open("/proc/self/pagemap") else {
        return vec![part.clone()];
    };
    let mut found: Vec<Range<usize>> = Vec::new();
    let mut entries = [0; ENTRIES * size_of::<u64>()];
    for start in part.clone().step_by(ENTRIES * PAGE_SIZE) {
        let count = ((part.end - start) / PAGE_SIZE).min(ENTRIES);
        let entries = &mut entries[..count * size_of::<u64>()];
        let offset = start / PAGE_SIZE * size_of::<u64>();
        if pagemap.read_exact_at(entries, offset as u64).is_err() {
            return vec![part.clone()];
        }
        for (index, entry) in entries.chunks_exact(size_of::<u64>()).enumerate() {
            let entry = entry.try_into().map_or(u64::MAX, u64::from_ne_bytes);
            let page = start + index * PAGE_SIZE;
            match found.last_mut() {
                _ if entry & HAS_CONTENTS == 0 => {}
                Some(last) if last.end == page => last.end += PAGE_SIZE,
                _ => found.push(page..page + PAGE_SIZE),
            }
        }
    }
    found
}

/// Returns the next part of the file, from `at` on and before `end`, that is no hole.
fn data_from(file: &File, at: u64, end: u64) -> io::Result<Option<Range<u64>>> {
    if at >= end {
        return Ok(None);
    }
    let start = match seek(file, SeekFrom::Data(at)) {
        Ok(start) if start < end => start,
        Ok(_) | Err(Errno::NXIO) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let hole = seek(file, SeekFrom::Hole(start))?;
    Ok(Some(start..hole.min(end)))
}

/// Private memory that only this module uses.
struct Private {
    start: *mut libc::c_void,
    length: usize,
}

impl Private {
    fn new(length: usize) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: without `MAP_FIXED` the kernel chooses a free address, so no existing mapping is
        // replaced.
        let start = unsafe { libc::mmap(ptr::null_mut(), length, protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            Err(io::Error::last_os_error())
        } else {
            Ok(Self { start, length })
        }
    }

    /// Copies a part of the file to byte `at`.
    fn fill(&self, file: &File, at: usize, data: &Range<u64>) -> io::Result<()> {
        let length = (data.end - data.start) as usize;
        assert!(at <= self.length && length <= self.length - at);
        // SAFETY: inside of the mapping, to which there is no other reference.
        let bytes = unsafe {
            let start = self.start.cast::<u8>().add(at);
            std::slice::from_raw_parts_mut(start, length)
        };
        file.read_exact_at(bytes, data.start)
    }

    /// Replaces `part` by the pages, in one step.
    fn move_to(self, part: &Range<usize>) -> io::Result<()> {
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        let target: *mut libc::c_void = ptr::without_provenance_mut(part.start);
        // SAFETY: the part is shared memory of the program, whose bytes are also in this mapping,
        // so references to them stay valid. This mapping has no references.
        let moved = unsafe { libc::mremap(self.start, self.length, part.len(), flags, target) };
        if moved == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        std::mem::forget(self);
        Ok(())
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        // SAFETY: this value owns the mapping, which has not been moved.
        unsafe { libc::munmap(self.start, self.length) };
    }
}
