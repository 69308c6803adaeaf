//! Pages that two processes share.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;

use rustix::fs::{
    MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create,
};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::page::ProgramPages;

/// The mapped pages of a program.
#[derive(Debug)]
pub struct SharedPages(NonNull<ProgramPages>);

// SAFETY: `SharedPages` owns the mapping, and the mapping contains only atomics, so it may be used
// and unmapped by any thread.
#[expect(unsafe_code, reason = "a mapping of atomics")]
unsafe impl Send for SharedPages {}
// SAFETY: the mapping contains only atomics, and `&SharedPages` gives access only to them.
#[expect(unsafe_code, reason = "a mapping of atomics")]
unsafe impl Sync for SharedPages {}

impl SharedPages {
    /// Creates a file for the pages of a program: all zero, and sealed so that no process can
    /// shorten it.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn create() -> io::Result<OwnedFd> {
        let file = memfd_create(
            "ferroce-pages",
            MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING,
        )?;
        ftruncate(&file, size_of::<ProgramPages>() as u64)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok(file)
    }

    /// Maps a file that [`Self::create`] made.
    ///
    /// # Errors
    /// `InvalidInput` if the file is too short or is not sealed; otherwise the error of the
    /// operating system.
    pub fn map(file: impl AsFd) -> io::Result<Self> {
        let length = size_of::<ProgramPages>();
        let is_sealed = fcntl_get_seals(&file)?.contains(SealFlags::SHRINK);
        if !is_sealed || fstat(&file)?.st_size < length as i64 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: without `MAP_FIXED` the kernel chooses a free address, so no existing mapping is
        // replaced.
        #[expect(unsafe_code, reason = "a system call")]
        let address = unsafe {
            mmap(
                std::ptr::null_mut(),
                length,
                protection,
                MapFlags::SHARED,
                &file,
                0,
            )?
        };
        let pages = NonNull::new(address.cast());
        pages
            .map(Self)
            .ok_or_else(|| io::ErrorKind::InvalidInput.into())
    }

    /// Returns the pages.
    #[inline]
    #[expect(unsafe_code, reason = "a mapping of atomics")]
    pub fn pages(&self) -> &ProgramPages {
        // SAFETY: the mapping is as long as the structure, aligned to pages, lives as long as
        // `self`, and the seals keep the file from being shortened. Every bit pattern is a valid
        // atomic integer.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for SharedPages {
    fn drop(&mut self) {
        // SAFETY: `self` owns the mapping of exactly this length, and references from `pages`
        // cannot outlive `self`.
        #[expect(unsafe_code, reason = "a system call")]
        let result = unsafe { munmap(self.0.as_ptr().cast(), size_of::<ProgramPages>()) };
        debug_assert!(result.is_ok(), "{result:?}");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::page::Turn;
    use crate::request::Wait;

    const LIMIT: Duration = Duration::from_secs(5);

    #[test]
    fn the_turn_goes_to_and_fro() {
        let file = SharedPages::create().expect("memory");
        let world = SharedPages::map(&file).expect("mapped");
        let program = SharedPages::map(&file).expect("mapped");
        world.pages().threads[3].reset(42);
        let thread = thread::spawn(move || {
            let page = &program.pages().threads[3];
            for time_ps in 1..=1000 {
                while page.wait_while(Turn::World, 10, LIMIT) == Turn::World {}
                page.request.set(&Wait::At { time_ps });
                assert!(page.pass(Turn::World));
            }
            while page.wait_while(Turn::World, 10, LIMIT) == Turn::World {}
            page.turn()
        });
        let page = &world.pages().threads[3];
        for time_ps in 1..=1000 {
            assert!(page.pass(Turn::Thread));
            while page.wait_while(Turn::Thread, 10, LIMIT) == Turn::Thread {}
            assert_eq!(page.request.get(), Some(Wait::At { time_ps }));
        }
        page.end();
        assert_eq!(thread.join().expect("no panic"), Turn::Ended);
        assert!(!page.pass(Turn::Thread));
        assert_eq!(page.tid.load(Ordering::Relaxed), 42);
    }

    #[test]
    fn a_file_that_can_be_cut_off_is_refused() {
        let file = memfd_create("short", MemfdFlags::CLOEXEC).expect("memory");
        assert!(SharedPages::map(&file).is_err());
    }
}
