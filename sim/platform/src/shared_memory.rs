//! Files mapped into several processes, reached through atomics and through owned byte buffers.
//!
//! Whoever maps the same file may write anything at any time. So nothing in here trusts a value
//! that was read; every access is bounds-checked against the length that was mapped.
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

/// A file of memory, all zero, whose size nobody can change: others who map it cannot take it away
/// from under this process.
///
/// # Errors
/// That of the system.
pub fn sealed_file(name: &str, length: u64) -> io::Result<File> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = File::from(memfd_create(name, flags)?);
    file.set_len(length)?;
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    fcntl_add_seals(&file, seals)?;
    Ok(file)
}

static NEXT_MAPPING: AtomicU32 = AtomicU32::new(1);

/// A shared mapping of a whole file.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    length: usize,
    /// Distinguishes mappings, so that a buffer is only given back to where it came from.
    id: u32,
    /// Buffers handed out and not yet given back.
    outstanding: u32,
    /// Others may cut the file off.
    watched: Option<Watched>,
}

// SAFETY: the memory is owned by the mapping, not by a thread; shared references only allow
// atomic accesses and buffers, which have an owner each.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `length` bytes of `file`, which must be at least that long. When it is cut off later,
    /// the mapping turns into memory of this process alone ([`Self::is_lost`]).
    ///
    /// # Errors
    /// That of fstat or mmap; `InvalidData` if the file is shorter.
    pub fn new(file: &File, length: usize) -> io::Result<Self> {
        let watched = Watched::claim()?;
        // An access behind the end of a file is a SIGBUS.
        if file.metadata()?.len() < length as u64 || length == 0 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "file is too short",
            ));
        }
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        let mut mapping = Self::map(length, flags, file.as_raw_fd())?;
        watched.watch(mapping.base.as_ptr().expose_provenance(), length);
        mapping.watched = Some(watched);
        Ok(mapping)
    }

    /// Whether the file was cut off, and this is memory of its own since.
    pub fn is_lost(&self) -> bool {
        self.watched.as_ref().is_some_and(Watched::is_lost)
    }

    /// `length` bytes of memory for this process alone, all zero.
    ///
    /// # Errors
    /// That of mmap.
    pub fn anonymous(length: usize) -> io::Result<Self> {
        Self::map(length, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)
    }

    fn map(length: usize, flags: libc::c_int, descriptor: RawFd) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice disturbs nobody.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                protection,
                flags,
                descriptor,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let id = NEXT_MAPPING.fetch_add(1, Ordering::Relaxed);
        Ok(Self {
            base,
            length,
            id,
            outstanding: 0,
            watched: None,
        })
    }

    /// The 8 bytes at `offset`, which must be aligned and inside (a bug of ours otherwise).
    #[inline]
    pub fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset % 8 == 0 && offset + 8 <= self.length);
        // SAFETY: inside the mapping, aligned, and the memory stays mapped as long as `self`.
        // All accesses to these bytes, here and in other processes, are atomic.
        unsafe { AtomicU64::from_ptr(self.base.add(offset).as_ptr().cast()) }
    }

    /// The 4 bytes at `offset`, which must be aligned and inside (a bug of ours otherwise).
    #[inline]
    pub fn half_word(&self, offset: usize) -> &AtomicU32 {
        assert!(offset % 4 == 0 && offset + 4 <= self.length);
        // SAFETY: as in `word`.
        unsafe { AtomicU32::from_ptr(self.base.add(offset).as_ptr().cast()) }
    }

    /// Hands out the bytes `offset..offset + length` as a buffer with an owner.
    ///
    /// The caller's protocol decides which process may hold which range at a time. A peer that
    /// breaks the protocol changes bytes under the holder's eyes: the holder then reads nonsense,
    /// exactly as from a corrupted frame, and must copy a value before it checks and uses it.
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

    /// Whether a buffer is out of this mapping.
    #[inline]
    pub fn owns(&self, buffer: &Buffer) -> bool {
        buffer.mapping == self.id
    }

    /// Whether buffers are out.
    pub fn has_outstanding(&self) -> bool {
        self.outstanding != 0
    }

    /// Takes a buffer back. One of another mapping is ignored: it keeps its own mapping alive.
    #[inline]
    pub fn give_back(&mut self, buffer: Buffer) {
        if self.owns(&buffer) {
            self.outstanding -= 1;
        }
    }

    /// Brings the cache line at `offset` near, to be written, without waiting for it.
    #[inline]
    pub fn prefetch_for_write(&self, offset: usize) {
        #[cfg(target_arch = "x86_64")]
        if offset < self.length {
            use core::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
            // SAFETY: as in `prefetch`.
            unsafe { _mm_prefetch::<_MM_HINT_ET0>(self.base.as_ptr().add(offset).cast()) };
        }
    }

    /// Brings the cache line at `offset` near, without waiting for it.
    #[inline]
    pub fn prefetch(&self, offset: usize) {
        #[cfg(target_arch = "x86_64")]
        if offset < self.length {
            use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: a prefetch changes nothing that a program can see, at any address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(self.base.as_ptr().add(offset).cast()) };
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let watched = self.watched.take();
        // A buffer that is still out keeps the memory mapped for ever.
        if self.outstanding != 0 {
            std::mem::forget(watched);
        } else {
            if let Some(watched) = &watched {
                watched.forget();
            }
            // SAFETY: the range was mapped by `new`; no buffer points into it any more, and no
            // reference can, because it would borrow `self`.
            unsafe { libc::munmap(self.base.as_ptr().cast(), self.length) };
        }
    }
}

/// Some bytes of a [`Mapping`], owned until given back.
#[derive(Debug)]
pub struct Buffer {
    start: NonNull<u8>,
    length: u32,
    mapping: u32,
}

// SAFETY: a buffer owns its bytes like a Box does; the mapping stays while it is out.
unsafe impl Send for Buffer {}
// SAFETY: as above; shared references only read.
unsafe impl Sync for Buffer {}

impl AsRef<[u8]> for Buffer {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the range is mapped while the buffer is out, and this process hands it out
        // only once. See `take_buffer` about peers that do not keep the protocol.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length as usize) }
    }
}

impl AsMut<[u8]> for Buffer {
    #[inline]
    fn as_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `as_ref`, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length as usize) }
    }
}
