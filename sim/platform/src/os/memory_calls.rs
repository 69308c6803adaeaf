//! System calls that change mappings. They bypass libc's functions, which `mapping_calls` of
//! `embed` overrides. Also a table of the address ranges that may contain registered memory: such
//! calls must not change it unnoticed.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

/// Size of a chunk of the address space: the unit of the table.
const CHUNK_SHIFT: u32 = 16;
/// Chunks in the table; those whose numbers are congruent share an entry.
const CHUNKS: usize = 1 << 16;
/// Addresses that are tried for memory of our own.
const PLACES: usize = 8;

/// Registrations by chunk.
static REGISTERED: [AtomicU32; CHUNKS] = [const { AtomicU32::new(0) }; CHUNKS];

/// Result of a system call, or the errno.
pub type Answer = Result<usize, i32>;

/// Makes a call that a program has requested, with its own arguments, or one that maps, moves or
/// unmaps memory that belongs to the caller.
///
/// # Errors
/// The errno.
pub fn system_call(number: libc::c_long, arguments: [usize; 6]) -> Answer {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the program is responsible for the effect of its request; moved memory is kept
    // (see `mapping_calls` of `embed`), and nothing refers to memory that its owner unmaps.
    match unsafe { libc::syscall(number, a, b, c, d, e, f) } {
        -1 => Err(io::Error::last_os_error()
            .raw_os_error()
            .unwrap_or(libc::EINVAL)),
        result => Ok(result as usize),
    }
}

fn chunks(address: usize, length: usize) -> impl Iterator<Item = &'static AtomicU32> {
    let first = address >> CHUNK_SHIFT;
    let last = address.saturating_add(length.saturating_sub(1)) >> CHUNK_SHIFT;
    // A range as large as the table covers all of it.
    let last = last.min(first + CHUNKS - 1);
    (first..=last).map(|chunk| &REGISTERED[chunk % CHUNKS])
}

/// Begins a registration.
pub fn register(address: usize, length: usize) {
    for count in chunks(address, length) {
        count.fetch_add(1, Ordering::SeqCst);
    }
}

/// Ends a registration.
pub fn deregister(address: usize, length: usize) {
    for count in chunks(address, length) {
        count.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Returns true if memory in a range may be registered.
#[inline]
pub fn may_be_registered(address: usize, length: usize) -> bool {
    length > 0 && chunks(address, length).any(|count| count.load(Ordering::Relaxed) != 0)
}

/// Makes `mmap` without `MAP_FIXED`, if possible at an address where nothing is registered: a
/// program may have unmapped registered memory unnoticed. It takes no lock, so that the model can
/// map, too.
///
/// # Errors
/// The errno.
pub fn map_apart(arguments: [usize; 6]) -> Answer {
    let length = arguments[1];
    let mut place = system_call(libc::SYS_mmap, arguments)?;
    let mut rejected = [None; PLACES];
    for slot in &mut rejected {
        if !may_be_registered(place, length) {
            break;
        }
        let Ok(other) = system_call(libc::SYS_mmap, arguments) else {
            break;
        };
        *slot = Some(std::mem::replace(&mut place, other));
    }
    for place in rejected.into_iter().flatten() {
        let _ = unmap(place, length);
    }
    Ok(place)
}

/// Maps pages of a shared mapping a second time, with the current rights of the first mapping.
/// Returns the address. All pages must be in one mapping of the kernel.
///
/// # Errors
/// The errno; EINVAL for private pages, and huge ones.
pub fn map_again(pages: &Range<usize>) -> Answer {
    /// mremap(2): with an old size of zero, the new mapping is of the same pages.
    const NOTHING_OF_THE_OLD_ONE: usize = 0;
    let flags = libc::MREMAP_MAYMOVE as usize;
    let arguments = [
        pages.start,
        NOTHING_OF_THE_OLD_ONE,
        pages.len(),
        flags,
        0,
        0,
    ];
    system_call(libc::SYS_mremap, arguments)
}

/// Unmaps memory of our own.
///
/// # Errors
/// The errno.
pub fn unmap(address: usize, length: usize) -> Answer {
    system_call(libc::SYS_munmap, [address, length, 0, 0, 0, 0])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: memory of our own is not at an address where a program has registered memory and then
    /// unmapped it unnoticed.
    #[test]
    fn own_memory_lies_apart_from_registrations() {
        const LENGTH: usize = 1 << CHUNK_SHIFT;
        let how = (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let (protection, flags) = (how.0 as usize, how.1 as usize);
        let map_at = |hint| map_apart([hint, LENGTH, protection, flags, usize::MAX, 0]);
        let first = map_at(0).expect("memory");
        unmap(first, LENGTH).expect("mapped");
        register(first, LENGTH);
        assert!(may_be_registered(first, LENGTH));
        // The kernel would return this address again.
        let second = map_at(first).expect("memory");
        deregister(first, LENGTH);
        unmap(second, LENGTH).expect("mapped");
        assert!(second.abs_diff(first) >= LENGTH, "{first:#x}, {second:#x}");
    }
}
