//! Memory that a program registers, shared with the process that simulates its card.
//!
//! Memory from `malloc` or `mmap` is private: another process reaches it by system calls only.
//! While such memory is registered, its pages are pages of a memory file, which the other process
//! maps. After the registration they are private again: what programs and allocators expect of
//! private memory (of `madvise`, `mremap`, and of `free` and `realloc`, which use them) holds for
//! all memory that is not registered.
//!
//! There is one file, as large as an address space, with holes where nothing is shared: the page at
//! an address is the page of the file at the same offset. So a page is shared in one way only,
//! however many registrations it has, and the other process knows the program's addresses.
//!
//! The program's mappings are read from `/proc/self/maps` each time, as it maps and unmaps memory
//! without notice (`maps` defines the memory that is excluded). After any failure the memory is as
//! before, and is accessed like private memory.
//!
//! The memory must not be written while its pages are copied. The registering thread blocks
//! signals, so that no handler writes to it; the program's other threads do not run, because in
//! simulated time only one thread runs.
//!
//! A child made by `fork` gets private copies of the pages: the parent does not see its writes.
//! (Writes of the parent while the memory is registered are visible to the child, in pages that the
//! child has not written.)

mod maps;
mod switch;

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;

use ferroce_driver::bus::DmaFile;
use ferroce_linux::eventfds::with_signals_blocked;
use parking_lot::Mutex;
use rustix::fs::fstat;
use rustix::process::{Resource, getrlimit};

use self::maps::{Identity, Maps};
use super::sealed_file;

/// Size of the file of a program's registered memory, which marks its offsets as addresses: all
/// 48-bit addresses.
pub const ADDRESS_SPACE: u64 = 1 << 48;
/// Registrations of less than this are not shared.
const LEAST_BYTES: usize = 64 << 10;
/// Bytes that are copied at a time, so that little memory is needed twice.
const PART_BYTES: usize = 64 << 20;

/// The pages of this process.
static PAGES: Mutex<Pages> = Mutex::new(Pages::new());

/// Registered memory that is shared as long as this value lives.
#[derive(Debug)]
pub struct Registered {
    range: Range<usize>,
    file: DmaFile,
}

impl Registered {
    /// Shares the pages `address..address + length`, multiples of the page size. Returns `None` if
    /// they stay private.
    pub fn share(address: usize, length: usize) -> Option<Self> {
        let range = address..address.checked_add(length)?;
        let mut pages = PAGES.lock();
        if !pages.is_worth_it(&range) {
            return None;
        }
        watch_forks();
        match pages.share(&range) {
            Ok(descriptor) => Some(Self {
                file: DmaFile {
                    descriptor,
                    offset: address as u64,
                },
                range,
            }),
            Err(error) => {
                tracing::debug!(address, length, %error, "registered memory stays private");
                None
            }
        }
    }

    /// Returns the location of the memory, for a process that maps it.
    pub fn file(&self) -> DmaFile {
        self.file
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        PAGES.lock().give_back(&self.range);
    }
}

/// Lets children have private pages.
fn watch_forks() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| switch::at_fork(before_fork, after_fork_in_parent, after_fork_in_child));
}

extern "C" fn before_fork() {
    std::mem::forget(PAGES.lock());
}

extern "C" fn after_fork_in_parent() {
    switch::unlock(&PAGES);
}

/// No allocation: the parent may have had several threads.
extern "C" fn after_fork_in_child() {
    switch::unlock(&PAGES);
    PAGES.lock().become_child();
}

/// The shared pages.
#[derive(Debug)]
struct Pages {
    file: Option<(File, Identity)>,
    /// Registered ranges, in no order; the same range may occur twice.
    registered: Vec<Range<usize>>,
    /// Ranges shared and not restored. The program may have unmapped them.
    shared: Vec<Range<usize>>,
    /// True in a child of the process that has shared something.
    is_child: bool,
}

impl Pages {
    const fn new() -> Self {
        Self {
            file: None,
            registered: Vec::new(),
            shared: Vec::new(),
            is_child: false,
        }
    }

    /// Returns true if the memory is large, or shared already.
    fn is_worth_it(&self, range: &Range<usize>) -> bool {
        let overlaps = |other: &Range<usize>| other.start < range.end && range.start < other.end;
        range.len() >= LEAST_BYTES || self.shared.iter().any(overlaps)
    }

    /// Shares the pages of a range, and counts it as registered. Returns the file's descriptor.
    fn share(&mut self, range: &Range<usize>) -> io::Result<i32> {
        if self.is_child {
            return Err(unsupported("a child of the process with the device"));
        }
        self.open()?;
        // A signal handler might write to the memory.
        let result = with_signals_blocked(|| self.share_parts(range));
        if result.is_err() {
            self.restore(range);
        } else {
            self.registered.push(range.clone());
        }
        result
    }

    fn share_parts(&mut self, range: &Range<usize>) -> io::Result<i32> {
        let (file, identity) = self.file.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let private = Maps::read()?.private_parts(range, identity, switch::stack_address())?;
        for part in private.iter().flat_map(parts) {
            switch::share(file, &part)?;
            self.shared.push(part);
        }
        Ok(file.as_raw_fd())
    }

    /// Creates the file, or checks that it is still open: some programs close all descriptors that
    /// they do not know.
    fn open(&mut self) -> io::Result<()> {
        // A write beyond the limit raises a signal.
        let limit = getrlimit(Resource::Fsize).current;
        if limit.is_some_and(|limit| limit < ADDRESS_SPACE) {
            return Err(unsupported("files may not be so large"));
        }
        match &self.file {
            Some((file, identity)) => {
                if identity_of(file)? == *identity {
                    Ok(())
                } else {
                    Err(unsupported("the file has been closed"))
                }
            }
            None => {
                let file = sealed_file("ferroce-registered", ADDRESS_SPACE)?;
                let identity = identity_of(&file)?;
                self.file = Some((file, identity));
                Ok(())
            }
        }
    }

    /// Ends a registration: pages without another registration become private.
    fn give_back(&mut self, range: &Range<usize>) {
        if let Some(place) = self.registered.iter().position(|other| other == range) {
            self.registered.swap_remove(place);
            self.restore(range);
        }
    }

    /// Makes those pages of a range private that have no registration.
    fn restore(&mut self, range: &Range<usize>) {
        if self.is_child {
            return;
        }
        with_signals_blocked(|| {
            for part in without(std::slice::from_ref(range), &self.registered) {
                if let Err(error) = self.restore_part(&part) {
                    tracing::debug!(?part, %error, "memory stays shared");
                }
            }
        });
    }

    fn restore_part(&mut self, range: &Range<usize>) -> io::Result<()> {
        let Some((file, identity)) = &self.file else {
            return Ok(());
        };
        if identity_of(file)? != *identity {
            return Err(unsupported("the file has been closed"));
        }
        let maps = Maps::read()?;
        let shared = maps.shared_parts(range, identity);
        for part in shared.iter().flat_map(parts) {
            switch::unshare(file, &part)?;
        }
        // Pages that are still mapped, perhaps elsewhere, must stay in the file.
        let held = maps.held_parts(identity, &shared);
        let free = without(std::slice::from_ref(range), &held);
        for part in &free {
            switch::discard(file, part)?;
        }
        self.shared = without(&self.shared, &free);
        Ok(())
    }

    fn become_child(&mut self) {
        self.is_child = true;
        if let Some((file, _)) = &self.file {
            for part in &self.shared {
                switch::inherit(file, part);
            }
        }
    }
}

fn unsupported(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, why)
}

fn identity_of(file: &File) -> io::Result<Identity> {
    let stat = fstat(file)?;
    Ok(Identity {
        device: (
            rustix::fs::major(stat.st_dev),
            rustix::fs::minor(stat.st_dev),
        ),
        inode: stat.st_ino,
    })
}

/// Splits a range into parts that are copied at a time.
fn parts(range: &Range<usize>) -> impl Iterator<Item = Range<usize>> + use<> {
    let end = range.end;
    let starts = range.clone().step_by(PART_BYTES);
    starts.map(move |start| start..end.min(start.saturating_add(PART_BYTES)))
}

/// Returns the parts of `ranges` that are in none of `others`.
fn without(ranges: &[Range<usize>], others: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut rest = ranges.to_vec();
    for other in others {
        let cut = |range: Range<usize>| {
            let before = range.start..range.end.min(other.start);
            let behind = range.start.max(other.end)..range.end;
            [before, behind].into_iter().filter(|part| !part.is_empty())
        };
        rest = rest.into_iter().flat_map(cut).collect();
    }
    rest
}

#[cfg(test)]
mod tests;
