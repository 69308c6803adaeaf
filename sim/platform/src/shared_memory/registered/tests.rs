use std::os::unix::fs::FileExt;
use std::os::unix::fs::MetadataExt;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use ferroce_driver::bus::PAGE_SIZE;

use super::*;

const PAGES_OF_ALL: usize = 64;
/// Words of a page.
const WORDS: usize = PAGE_SIZE / 8;

/// Private memory between two pages of another kind, so that it does not merge with a neighbour.
struct Memory {
    start: usize,
    pages: usize,
}

impl Memory {
    fn new() -> Self {
        let memory = Self {
            start: map(ptr::null_mut(), PAGES_OF_ALL + 2, 0) + PAGE_SIZE,
            pages: PAGES_OF_ALL,
        };
        for fence in [memory.start - PAGE_SIZE, memory.range().end] {
            // SAFETY: a page of this test.
            let failed = unsafe { libc::mprotect(at(fence), PAGE_SIZE, libc::PROT_READ) };
            assert_eq!(failed, 0);
        }
        memory
    }

    fn range(&self) -> Range<usize> {
        self.pages(0..self.pages)
    }

    fn pages(&self, pages: Range<usize>) -> Range<usize> {
        self.start + pages.start * PAGE_SIZE..self.start + pages.end * PAGE_SIZE
    }

    fn word(&self, word: usize) -> &AtomicU64 {
        assert!(word < self.pages * WORDS);
        // SAFETY: inside of memory that is mapped for the life of the test, which accesses it
        // through atomics.
        unsafe { AtomicU64::from_ptr(ptr::with_exposed_provenance_mut(self.start + 8 * word)) }
    }

    fn set(&self, word: usize, value: u64) {
        self.word(word).store(value, Ordering::Relaxed);
    }

    fn get(&self, word: usize) -> u64 {
        self.word(word).load(Ordering::Relaxed)
    }

    /// Writes another value in every second page; the others are not touched.
    fn fill(&self, first: u64) {
        for page in (0..self.pages).step_by(2) {
            self.set(page * WORDS + page, first + page as u64);
        }
    }

    fn check(&self, first: u64) {
        for page in 0..self.pages {
            let expected = if page % 2 == 0 {
                first + page as u64
            } else {
                0
            };
            assert_eq!(self.get(page * WORDS + page), expected, "page {page}");
            assert_eq!(self.get(page * WORDS + WORDS - 1), 0, "page {page}");
        }
    }

    /// Unmaps everything, and maps new memory at the same address.
    fn renew(&self) {
        map(at(self.start), self.pages, libc::MAP_FIXED);
    }

    fn rights(&self, page: usize) -> String {
        let text = std::fs::read_to_string("/proc/self/maps").expect("everywhere");
        let address = self.start + page * PAGE_SIZE;
        let number = |text| usize::from_str_radix(text, 16).expect("a number");
        let line = text.lines().find(|line| {
            let (range, _) = line.split_once(' ').expect("well formed");
            let (start, end) = range.split_once('-').expect("well formed");
            (number(start)..number(end)).contains(&address)
        });
        let line = line.expect("it is mapped");
        line.split(' ').nth(1).expect("well formed").to_owned()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: memory of this test, to which no reference exists.
        unsafe { libc::munmap(at(self.start - PAGE_SIZE), (self.pages + 2) * PAGE_SIZE) };
    }
}

fn at(address: usize) -> *mut libc::c_void {
    ptr::with_exposed_provenance_mut(address)
}

fn map(address: *mut libc::c_void, pages: usize, flags: i32) -> usize {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = flags | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping, or a replacement of memory of this test.
    let start = unsafe { libc::mmap(address, pages * PAGE_SIZE, protection, flags, -1, 0) };
    assert_ne!(start, libc::MAP_FAILED);
    start.expose_provenance()
}

impl Pages {
    /// Returns a word as the other process sees it.
    fn seen(&self, memory: &Memory, word: usize) -> u64 {
        let (file, _) = self.file.as_ref().expect("something is shared");
        let mut bytes = [0; 8];
        let offset = (memory.start + 8 * word) as u64;
        file.read_exact_at(&mut bytes, offset).expect("inside");
        u64::from_ne_bytes(bytes)
    }

    fn pages_in_file(&self) -> u64 {
        let (file, _) = self.file.as_ref().expect("something is shared");
        file.metadata().expect("ours").blocks() * 512 / PAGE_SIZE as u64
    }
}

#[test]
fn memory_is_shared_while_it_is_registered() {
    let (mut pages, memory) = (Pages::new(), Memory::new());
    memory.fill(1000);
    pages.share(&memory.range()).expect("plain memory");
    assert_eq!(pages.pages_in_file(), PAGES_OF_ALL as u64 / 2);
    memory.check(1000);
    assert_eq!(memory.rights(0), "rw-s");
    for (word, value) in [(3, 7), (WORDS + 1, 8)] {
        memory.set(word, value);
        assert_eq!(pages.seen(&memory, word), value);
    }
    let (file, _) = pages.file.as_ref().expect("shared");
    let offset = (memory.start + 8 * 5 * WORDS) as u64;
    file.write_all_at(&9u64.to_ne_bytes(), offset)
        .expect("inside");
    assert_eq!(memory.get(5 * WORDS), 9);

    pages.give_back(&memory.range());
    assert_eq!(memory.rights(0), "rw-p");
    let words = [3, WORDS + 1, 5 * WORDS].map(|word| memory.get(word));
    assert_eq!(words, [7, 8, 9]);
    assert_eq!(pages.pages_in_file(), 0);
    assert_eq!((pages.registered.len(), pages.shared.len()), (0, 0));
    for (word, _) in [(3, 7), (WORDS + 1, 8), (5 * WORDS, 9)] {
        memory.set(word, 0);
    }
    memory.check(1000);
}

/// Goal: pages are shared while any registration contains them, in any order of registrations.
#[test]
fn registrations_overlap() {
    let (mut pages, memory) = (Pages::new(), Memory::new());
    memory.fill(2000);
    let parts = [0..40, 20..64, 20..64, 30..31, 0..64].map(|part| memory.pages(part));
    for part in &parts {
        assert!(pages.is_worth_it(part), "a page, if it is shared already");
        pages.share(part).expect("plain memory");
        memory.check(2000);
    }
    for (gone, rights) in [
        (0, ["rw-s", "rw-s", "rw-s"]),
        (4, ["rw-p", "rw-s", "rw-s"]),
        (1, ["rw-p", "rw-s", "rw-s"]),
        (2, ["rw-p", "rw-s", "rw-p"]),
        (3, ["rw-p", "rw-p", "rw-p"]),
    ] {
        pages.give_back(&parts[gone]);
        let found = [5, 30, 50].map(|page| memory.rights(page));
        assert_eq!(found, rights, "without {gone}");
        memory.check(2000);
    }
    assert_eq!(pages.pages_in_file(), 0);
}

/// Goal: after the program maps memory again at an address, the new memory is shared, not the old.
#[test]
fn memory_is_mapped_anew() {
    let (mut pages, memory) = (Pages::new(), Memory::new());
    memory.fill(3000);
    pages.share(&memory.range()).expect("plain memory");
    memory.renew();
    pages.share(&memory.pages(0..32)).expect("plain memory");
    assert_eq!(memory.rights(0), "rw-s");
    assert_eq!(memory.get(0), 0);
    memory.set(0, 5);
    assert_eq!(pages.seen(&memory, 0), 5);
    pages.give_back(&memory.range());
    assert_eq!((memory.rights(0), memory.get(0)), ("rw-s".into(), 5));
    pages.give_back(&memory.pages(0..32));
    assert_eq!((memory.rights(0), memory.get(0)), ("rw-p".into(), 5));
    memory.fill(3000);
    assert_eq!(pages.pages_in_file(), 0);

    // The registration ends after its memory was unmapped.
    pages.share(&memory.range()).expect("plain memory");
    memory.renew();
    memory.set(0, 6);
    pages.give_back(&memory.range());
    assert_eq!((memory.rights(0), memory.get(0)), ("rw-p".into(), 6));
    assert_eq!(pages.pages_in_file(), 0);
}

/// Goal: memory that the program moves while it is registered keeps its contents, whatever is
/// mapped at the old address.
#[test]
fn memory_is_moved_while_it_is_registered() {
    let (mut pages, memory, other) = (Pages::new(), Memory::new(), Memory::new());
    memory.fill(4000);
    pages.share(&memory.range()).expect("plain memory");
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    let length = memory.range().len();
    // SAFETY: both are memory of this test.
    let moved = unsafe { libc::mremap(at(memory.start), length, length, flags, at(other.start)) };
    assert_ne!(moved, libc::MAP_FAILED);
    memory.renew();
    let refused = pages.share(&memory.range());
    assert!(refused.is_err(), "its place in the file is in use");
    assert!(pages.share(&other.range()).is_err(), "it is somewhere else");
    other.check(4000);
    pages.give_back(&memory.range());
    other.check(4000);
    assert_eq!(memory.rights(0), "rw-p");
}

#[test]
fn what_is_not_plain_stays_private() {
    let mut pages = Pages::new();
    let memory = Memory::new();
    memory.fill(5000);
    assert!(!pages.is_worth_it(&memory.pages(0..1)));
    // SAFETY: a page of this test.
    let failed = unsafe { libc::mprotect(at(memory.start), PAGE_SIZE, libc::PROT_READ) };
    assert_eq!(failed, 0);
    assert!(pages.share(&memory.range()).is_err());
    memory.check(5000);
    pages.share(&memory.pages(1..64)).expect("plain memory");
    memory.check(5000);

    let heap = vec![7u8; LEAST_BYTES + 2 * PAGE_SIZE];
    let start = heap.as_ptr().addr().next_multiple_of(PAGE_SIZE);
    assert!(pages.share(&(start..start + LEAST_BYTES)).is_err());
    let stack = [7u8; 3 * PAGE_SIZE];
    let start = stack.as_ptr().addr().next_multiple_of(PAGE_SIZE);
    assert!(pages.share(&(start..start + PAGE_SIZE)).is_err());
    assert!(heap.iter().chain(&stack).all(|byte| *byte == 7));
    assert!(pages.share(&(0..PAGE_SIZE)).is_err(), "nothing is there");
    assert!(pages.share(&(1 << 60..1 << 61)).is_err(), "nothing can be");
}

/// Goal: a program that closes unknown descriptors keeps its memory.
#[test]
fn the_file_is_closed_by_the_program() {
    let (mut pages, memory) = (Pages::new(), Memory::new());
    memory.fill(6000);
    pages.share(&memory.range()).expect("plain memory");
    let (_, identity) = pages.file.take().expect("shared");
    pages.file = Some((File::open("/dev/null").expect("everywhere"), identity));
    let other = Memory::new();
    assert!(pages.share(&other.range()).is_err());
    pages.give_back(&memory.range());
    memory.check(6000);
    assert_eq!(memory.rights(0), "rw-s", "it cannot be changed any more");
}

/// Goal: a child has the contents, and its writes are private.
#[test]
fn children_have_their_own_pages() {
    const DONE: i32 = 17;
    let (memory, later) = (Memory::new(), Memory::new());
    memory.fill(7000);
    let registered = Registered::share(memory.start, memory.range().len()).expect("plain memory");
    let file = registered.file();
    assert_eq!(file.offset, memory.start as u64);
    let second = Registered::share(later.start, later.range().len()).expect("plain memory");
    // SAFETY: the child calls nothing that takes locks, and ends without returning.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        let is_there = memory.get(2 * WORDS + 2) == 7002 && memory.get(WORDS) == 0;
        memory.set(0, 1);
        later.set(0, 1);
        let is_kept = memory.get(0) == 1 && memory.get(4 * WORDS + 4) == 7004;
        drop((registered, second));
        let code = if is_there && is_kept { DONE } else { 1 };
        // SAFETY: ends the child.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: the child of this test.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(waited, child);
    assert_eq!(libc::WEXITSTATUS(status), DONE, "status {status}");
    assert_eq!(later.get(0), 0);
    memory.check(7000);
    drop(registered);
    memory.check(7000);
    drop(second);
    assert_eq!(memory.rights(0), "rw-p");
}

#[test]
fn ranges_are_cut() {
    let without = |others: &[Range<usize>]| without(&[10..20, 30..40], others);
    assert_eq!(without(&[]), [10..20, 30..40]);
    assert_eq!(without(&[0..10, 20..30]), [10..20, 30..40]);
    assert_eq!(without(&[12..13, 15..35]), [10..12, 13..15, 35..40]);
    assert!(without(&[0..25, 25..50]).is_empty());
    let large = 0..2 * PART_BYTES + 1;
    let lengths: Vec<_> = parts(&large).map(|part| part.len()).collect();
    assert_eq!(lengths, [PART_BYTES, PART_BYTES, 1]);
}
