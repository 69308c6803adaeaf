//! Files mapped into several processes, accessed through atomics and through owned byte buffers.
//!
//! Another process with the same file may write anything at any time. So no value read here is
//! trusted; every access is bounds-checked against the mapped length.
#![expect(unsafe_code, reason = "maps files and hands out views of the mapping")]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

pub mod foreign;
pub mod registered;
pub mod watched;

use watched::Watched;

use crate::os::memory_calls;
use ferroce_host::prefetch;

/// Name of the files with which a function exports its own memory as a dma-buf. By it a function of
/// another process recognises one.
pub const EXPORT_NAME: &str = "ferroce-dma-buf";

/// Creates a file of memory, all zero, whose size is sealed: other processes that map it cannot
/// truncate it.
///
/// # Errors
/// The error of the system.
pub fn sealed_file(name: &str, length: u64) -> io::Result<File> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = File::from(memfd_create(name, flags)?);
    file.set_len(length)?;
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    fcntl_add_seals(&file, seals)?;
    Ok(file)
}

static NEXT_MAPPING: AtomicU32 = AtomicU32::new(1);

/// A shared mapping of a file, or of a part of it.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    length: usize,
    /// Distinguishes mappings, so that a buffer is only returned to its own mapping.
    id: u32,
    /// Buffers taken and not yet returned.
    outstanding: u32,
    /// Set if other processes may truncate the file.
    watched: Option<Watched>,
}

// SAFETY: the memory is owned by the mapping, not by a thread; shared references only allow atomic
// accesses, and buffers, each of which is owned.
unsafe impl Send for Mapping {}
// SAFETY: shared references only allow atomic accesses, and buffers, each of which is owned.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `length` bytes of `file`, which must be at least that long, and populates them. When it
    /// is truncated later, the mapping is replaced by private memory of this process
    /// ([`Self::is_lost`]).
    ///
    /// # Errors
    /// The error of fstat or mmap; `InvalidData` if the file is shorter.
    pub fn new(file: &File, length: usize) -> io::Result<Self> {
        Self::of_file(file, 0, length, libc::MAP_POPULATE)
    }

    /// Does the same for the part of the file from `offset` on, a multiple of the page size.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn part(file: &File, offset: u64, length: usize) -> io::Result<Self> {
        Self::of_file(file, offset, length, libc::MAP_POPULATE)
    }

    /// Does the same without populating the pages: most are never used.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn sparse(file: &File, length: usize) -> io::Result<Self> {
        Self::of_file(file, 0, length, 0)
    }

    fn of_file(file: &File, offset: u64, length: usize, flags: libc::c_int) -> io::Result<Self> {
        let watched = Watched::claim()?;
        // An access past the end of a file raises SIGBUS.
        if file.metadata()?.len() < offset.saturating_add(length as u64) || length == 0 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "file is too short",
            ));
        }
        let mut mapping = Self::map(length, libc::MAP_SHARED | flags, file.as_raw_fd(), offset)?;
        watched.watch(mapping.base.as_ptr().expose_provenance(), length);
        mapping.watched = Some(watched);
        Ok(mapping)
    }

    /// Returns true if the file was truncated, and the mapping is private memory since.
    pub fn is_lost(&self) -> bool {
        self.watched.as_ref().is_some_and(Watched::is_lost)
    }

    /// Returns `length` bytes of private memory of this process, all zero.
    ///
    /// # Errors
    /// The error of mmap.
    pub fn anonymous(length: usize) -> io::Result<Self> {
        Self::map(length, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
    }

    fn map(length: usize, flags: libc::c_int, descriptor: RawFd, offset: u64) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let (protection, flags) = (protection as usize, flags as usize);
        let offset = offset as usize;
        let arguments = [0, length, protection, flags, descriptor as usize, offset];
        let base = memory_calls::map_apart(arguments).map_err(io::Error::from_raw_os_error)?;
        let base = std::ptr::with_exposed_provenance_mut(base);
        let base = NonNull::new(base).ok_or(io::ErrorKind::OutOfMemory)?;
        let id = NEXT_MAPPING.fetch_add(1, Ordering::Relaxed);
        Ok(Self {
            base,
            length,
            id,
            outstanding: 0,
            watched: None,
        })
    }

    /// Returns the 8 bytes at `offset`, which must be aligned and inside; panics otherwise.
    #[inline]
    pub fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset % 8 == 0 && offset + 8 <= self.length);
        // SAFETY: inside the mapping, aligned, and the memory stays mapped as long as `self`.
        // All accesses to these bytes, here and in other processes, are atomic.
        unsafe { AtomicU64::from_ptr(self.base.add(offset).as_ptr().cast()) }
    }

    /// Returns the 4 bytes at `offset`, which must be aligned and inside; panics otherwise.
    #[inline]
    pub fn half_word(&self, offset: usize) -> &AtomicU32 {
        assert!(offset % 4 == 0 && offset + 4 <= self.length);
        // SAFETY: inside the mapping, aligned, and the memory stays mapped as long as `self`. All
        // accesses to these bytes, here and in other processes, are atomic.
        unsafe { AtomicU32::from_ptr(self.base.add(offset).as_ptr().cast()) }
    }

    /// Takes the bytes `offset..offset + length` as an owned buffer.
    ///
    /// The caller's protocol decides which process may hold which range at a time. A peer that
    /// breaks the protocol changes bytes while they are held: the holder then reads invalid data,
    /// as from a corrupted frame, and must copy a value before it checks and uses it.
    #[inline]
    pub fn take_buffer(&mut self, offset: usize, length: usize) -> Buffer {
        assert!(offset <= self.length && length <= self.length - offset);
        self.outstanding += 1;
        // SAFETY: `offset` is inside the mapping, asserted above.
        let start = unsafe { self.base.add(offset) };
        Buffer {
            start,
            length: length as u32,
            mapping: self.id,
        }
    }

    /// Returns true if a buffer belongs to this mapping.
    #[inline]
    pub fn owns(&self, buffer: &Buffer) -> bool {
        buffer.mapping == self.id
    }

    /// Returns true if buffers have not been returned.
    pub fn has_outstanding(&self) -> bool {
        self.outstanding != 0
    }

    /// Returns a buffer. One of another mapping is ignored: it keeps its own mapping alive.
    #[inline]
    pub fn give_back(&mut self, buffer: Buffer) {
        if self.owns(&buffer) {
            self.outstanding -= 1;
        }
    }

    /// Prefetches the cache line at `offset` for writing.
    #[inline]
    pub fn prefetch_for_write(&self, offset: usize) {
        if offset < self.length {
            prefetch::line_to_write(self.base.addr().get() + offset);
        }
    }

    /// Prefetches the cache line at `offset`.
    #[inline]
    pub fn prefetch(&self, offset: usize) {
        if offset < self.length {
            prefetch::line_to_read(self.base.addr().get() + offset);
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let watched = self.watched.take();
        // A buffer that was not returned keeps the memory mapped.
        if self.outstanding != 0 {
            std::mem::forget(watched);
        } else {
            if let Some(watched) = &watched {
                watched.forget();
            }
            // `map` has mapped the range; no buffer points into it any more, and no reference can,
            // because it would borrow `self`.
            let _ = memory_calls::unmap(self.base.addr().get(), self.length);
        }
    }
}

/// Some bytes of a [`Mapping`], owned until returned.
#[derive(Debug)]
pub struct Buffer {
    start: NonNull<u8>,
    length: u32,
    mapping: u32,
}

// SAFETY: a buffer owns its bytes like a Box; the mapping stays while the buffer exists.
unsafe impl Send for Buffer {}
// SAFETY: a buffer owns its bytes like a Box, and shared references only read.
unsafe impl Sync for Buffer {}

impl AsRef<[u8]> for Buffer {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the range is mapped while the buffer exists, and this process takes it only once.
        // See `take_buffer` about peers that break the protocol.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length as usize) }
    }
}

impl AsMut<[u8]> for Buffer {
    #[inline]
    fn as_mut(&mut self) -> &mut [u8] {
        // SAFETY: the range is mapped while the buffer exists, this process takes it only once, and
        // `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length as usize) }
    }
}
