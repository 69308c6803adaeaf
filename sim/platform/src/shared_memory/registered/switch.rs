//! The system calls that put pages of a file where a process has private memory, and back.
//!
//! A part is a range of whole pages. In the file it is at the offset that is its address.

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

/// Makes private memory shared, with the contents that it has.
///
/// The caller has seen that the part is private memory of no file, readable and writable, not in
/// use by this function, and that its place in the file is mapped nowhere.
pub(super) fn share(file: &File, part: &Range<usize>) -> io::Result<()> {
    discard(file, part)?;
    for pages in pages_with_contents(part) {
        write(file, &pages)?;
    }
    // Each failure that can be tried again leaves the private memory, or, at worst, nothing:
    // everything is in the file by now.
    map(file, part, libc::MAP_SHARED | libc::MAP_FIXED)
        .or_else(|_| map(file, part, libc::MAP_SHARED | libc::MAP_FIXED))?;
    let start = ptr::without_provenance_mut(part.start);
    // SAFETY: says only what children get of the part, which is shared memory of the file now; it
    // would be shared with them, too, if this failed for want of memory.
    unsafe { libc::madvise(start, part.len(), libc::MADV_DONTFORK) };
    Ok(())
}

/// Makes shared memory private, with the contents that it has.
///
/// The caller has seen that the part is shared memory of the file, readable and writable.
pub(super) fn unshare(file: &File, part: &Range<usize>) -> io::Result<()> {
    let private = Private::new(part.len())?;
    let mut at = part.start as u64;
    while let Some(data) = data_from(file, at, part.end as u64)? {
        let inside = data.start as usize - part.start;
        private.fill(file, inside, &data)?;
        at = data.end;
    }
    if let Err(error) = private.move_to(part) {
        // Nothing is there, at worst; what was there before is still in the file.
        map(file, part, libc::MAP_SHARED | libc::MAP_FIXED)?;
        return Err(error);
    }
    Ok(())
}

/// Gives pages of the file back to the system: they are zeros from now on.
pub(super) fn discard(file: &File, part: &Range<usize>) -> io::Result<()> {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let (offset, length) = (part.start as u64, part.len() as u64);
    Ok(fallocate(file, flags, offset, length)?)
}

/// In a child made by `fork`, in which nothing is at a part that the parent has shared: gives it
/// the pages as private ones. Does not allocate.
pub(super) fn inherit(file: &File, part: &Range<usize>) {
    // What the parent has mapped there since is left alone.
    let flags = libc::MAP_PRIVATE | libc::MAP_FIXED_NOREPLACE;
    if let Err(error) = map(file, part, flags) {
        // There is nobody to tell.
        drop(error);
    }
}

/// An address of the stack of the calling thread.
#[inline(never)]
pub(super) fn stack_address() -> usize {
    let local = 0u8;
    ptr::from_ref(std::hint::black_box(&local)).addr()
}

/// Calls the functions at each fork: before it in the parent, after it in the parent, after it in
/// the child.
pub(super) fn at_fork(before: Handler, in_parent: Handler, in_child: Handler) {
    // SAFETY: the functions are there for the life of the library, which is never unloaded. It
    // fails only without memory; children then find nothing at what is shared.
    unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
}

/// Unlocks what the handler of a fork has locked, whose guard it has forgotten.
pub(super) fn unlock<T>(mutex: &Mutex<T>) {
    // SAFETY: `before_fork` has locked it in this thread, or in the thread that this one is a copy
    // of, and nobody has a guard.
    unsafe { mutex.force_unlock() };
}

/// Maps a part of the file at its address.
fn map(file: &File, part: &Range<usize>, flags: libc::c_int) -> io::Result<()> {
    let start = ptr::without_provenance_mut(part.start);
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the callers' contracts. With MAP_FIXED the part is memory of the program that it
    // has registered, or shared memory of the file; either way the file has the same bytes at the
    // same address, so whoever has references to them does not notice. Otherwise nothing is there.
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
        // Kernels that do not know MAP_FIXED_NOREPLACE.
        //
        // SAFETY: this has just been mapped, and nobody knows of it.
        unsafe { libc::munmap(mapped, part.len()) };
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    Ok(())
}

/// Copies private memory to the file.
fn write(file: &File, part: &Range<usize>) -> io::Result<()> {
    let mut at = part.start;
    while at < part.end {
        // SAFETY: the kernel reads memory of the program, as a device would, and answers with an
        // error if it is not there.
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

/// The pages of private memory that have been touched; the others are zeros. All of them, if the
/// kernel does not say.
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

/// The next part of the file, from `at` on and before `end`, that is no hole.
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

/// Private memory that nobody else knows of.
struct Private {
    start: *mut libc::c_void,
    length: usize,
}

impl Private {
    fn new(length: usize) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping at an address of the kernel's choice disturbs nobody.
        let start = unsafe { libc::mmap(ptr::null_mut(), length, protection, flags, -1, 0) };
        match start == libc::MAP_FAILED {
            true => Err(io::Error::last_os_error()),
            false => Ok(Self { start, length }),
        }
    }

    /// Copies a part of the file to byte `at`.
    fn fill(&self, file: &File, at: usize, data: &Range<u64>) -> io::Result<()> {
        let length = (data.end - data.start) as usize;
        assert!(at <= self.length && length <= self.length - at);
        // SAFETY: inside of the mapping, of which there is no other reference.
        let bytes = unsafe {
            let start = self.start.cast::<u8>().add(at);
            std::slice::from_raw_parts_mut(start, length)
        };
        file.read_exact_at(bytes, data.start)
    }

    /// Puts the pages in the place of `part`, in one step.
    fn move_to(self, part: &Range<usize>) -> io::Result<()> {
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        let target: *mut libc::c_void = ptr::without_provenance_mut(part.start);
        // SAFETY: the part is shared memory of the program, whose bytes are also in this mapping,
        // so whoever has references to them does not notice. This mapping is ours.
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
        // SAFETY: the mapping is ours, and has not been moved.
        unsafe { libc::munmap(self.start, self.length) };
    }
}
