//! Keeps a child made by fork from using the parent's device.
//!
//! The child has the parent's file descriptors and a copy of its memory, including locks held by
//! threads that do not exist in the child. So a bus records the process that opened it and is gone
//! for every other process. Memory that a device shares with the parent is not inherited; zero
//! pages replace it, so that an inherited object finds an empty queue rather than unmapped memory.

use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

/// Number of forks between the first process and this one.
static GENERATION: AtomicU32 = AtomicU32::new(0);
/// Memory that reads as zeros in children.
static RANGES: RangeList = RangeList::new();
/// Ranges of one link of the list.
const RANGES_PER_LINK: usize = 64;
/// Address of an entry that another thread is filling in. No mapping begins there.
const CLAIMED: usize = 1;

/// The process in which something was opened.
#[derive(Debug, Clone, Copy)]
pub struct ForkMark(u32);

impl ForkMark {
    /// Marks the current process.
    pub fn of_this_process() -> Self {
        watch();
        Self(GENERATION.load(Ordering::Relaxed))
    }

    /// Returns true if the current process is a child of the one that made the mark.
    #[inline]
    pub fn is_foreign(self) -> bool {
        self.0 != GENERATION.load(Ordering::Relaxed)
    }
}

/// Memory that a child sees as zero pages while this value lives. The memory is mapped with
/// `MADV_DONTFORK`.
#[derive(Debug)]
pub struct WipedOnFork {
    range: &'static Range,
}

impl WipedOnFork {
    /// Registers a mapping of the caller, which must not unmap it while this value lives.
    pub fn new(address: usize, length: usize) -> Self {
        watch();
        Self {
            range: RANGES.add(address, length),
        }
    }
}

impl Drop for WipedOnFork {
    fn drop(&mut self) {
        self.range.address.store(0, Ordering::Release);
    }
}

fn watch() {
    static HANDLER: Once = Once::new();
    HANDLER.call_once(|| {
        // SAFETY: the handler is a function of this library, which is never unloaded, and does only
        // what is async-signal-safe, as POSIX asks of a child of a multi-threaded process.
        let errno = unsafe { libc::pthread_atfork(None, None, Some(after_in_child)) };
        // It fails only when memory is exhausted.
        assert_eq!(errno, 0, "no memory for the handler of fork");
    });
}

/// Runs in the child before anything else: no locks, no allocations.
unsafe extern "C" fn after_in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    RANGES.for_each(|address, length| {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
        // SAFETY: the range is in the list, so its owner had it mapped when the process forked,
        // with MADV_DONTFORK: nothing is mapped there in the child. Only the owner refers to it.
        unsafe {
            libc::mmap(
                address as *mut libc::c_void,
                length,
                protection,
                flags,
                -1,
                0,
            );
        }
    });
}

/// One range; the address is zero when the entry is free.
#[derive(Debug)]
struct Range {
    address: AtomicUsize,
    length: AtomicUsize,
}

/// A lock-free list, as a child cannot take locks. It only grows.
struct RangeList {
    first: AtomicPtr<Link>,
}

struct Link {
    ranges: [Range; RANGES_PER_LINK],
    next: *const Link,
}

impl RangeList {
    const fn new() -> Self {
        Self {
            first: AtomicPtr::new(ptr::null_mut()),
        }
    }

    fn links(&self) -> impl Iterator<Item = &'static Link> {
        let mut next = self.first.load(Ordering::Acquire).cast_const();
        std::iter::from_fn(move || {
            // SAFETY: every link was leaked by `add`, complete before it was published with
            // release, and is only read or changed through atomics since.
            let link = unsafe { next.as_ref() }?;
            next = link.next;
            Some(link)
        })
    }

    fn add(&self, address: usize, length: usize) -> &'static Range {
        loop {
            let mut ranges = self.links().flat_map(|link| &link.ranges);
            if let Some(range) = ranges.find(|range| range.claim()) {
                range.length.store(length, Ordering::Relaxed);
                range.address.store(address, Ordering::Release);
                return range;
            }
            self.grow();
        }
    }

    fn grow(&self) {
        let first = self.first.load(Ordering::Acquire);
        let ranges = [const { Range::free() }; RANGES_PER_LINK];
        let link = Box::into_raw(Box::new(Link {
            ranges,
            next: first,
        }));
        let published = Ordering::AcqRel;
        let result = self
            .first
            .compare_exchange(first, link, published, Ordering::Relaxed);
        if result.is_err() {
            // Another thread added a link first; that link has free entries.
            //
            // SAFETY: the link came from the box just above and was not published.
            drop(unsafe { Box::from_raw(link) });
        }
    }

    fn for_each(&self, mut body: impl FnMut(usize, usize)) {
        for range in self.links().flat_map(|link| &link.ranges) {
            let address = range.address.load(Ordering::Acquire);
            if address > CLAIMED {
                body(address, range.length.load(Ordering::Relaxed));
            }
        }
    }
}

impl Range {
    const fn free() -> Self {
        Self {
            address: AtomicUsize::new(0),
            length: AtomicUsize::new(0),
        }
    }

    fn claim(&self) -> bool {
        let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
        relaxed_is_free(&self.address)
            && self
                .address
                .compare_exchange(0, CLAIMED, acquire, relaxed)
                .is_ok()
    }
}

/// Returns true if the entry seems free. A relaxed load keeps the cache line shared: most entries
/// of a long list are in use.
fn relaxed_is_free(address: &AtomicUsize) -> bool {
    address.load(Ordering::Relaxed) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the list finds each range exactly as long as it is registered, over several links.
    #[test]
    fn ranges_come_and_go() {
        static LIST: RangeList = RangeList::new();
        let count = 3 * RANGES_PER_LINK;
        let seen = || {
            let mut seen = Vec::new();
            LIST.for_each(|address, length| seen.push((address, length)));
            seen.sort_unstable();
            seen
        };
        let ranges: Vec<&Range> = (1..=count).map(|n| LIST.add(n << 12, n)).collect();
        assert_eq!(
            seen(),
            (1..=count).map(|n| (n << 12, n)).collect::<Vec<_>>()
        );
        for range in &ranges[1..] {
            range.address.store(0, Ordering::Release);
        }
        assert_eq!(seen(), [(1 << 12, 1)]);
        LIST.add(5 << 12, 7);
        assert_eq!(seen(), [(1 << 12, 1), (5 << 12, 7)]);
        assert_eq!(LIST.links().count(), 3, "places are used again");
    }
}
