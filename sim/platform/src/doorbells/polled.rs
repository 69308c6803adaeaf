//! Doorbell pages that another process writes: contract 1.3, `ferroce_spec::doorbell`.
//!
//! A store to shared memory does not notify this process. So software counts doorbells for each
//! page and for the whole function, and the model compares these counts with the last ones that it
//! saw. A client can write anything into the pages; that costs the model some checks and nothing
//! else: one call of [`PageTaker::next_doorbell`] goes through the pages at most once.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ferroce_spec::doorbell::{
    DOORBELL_PAGES_SIZE, FUNCTION_SUMMARY_SLOT, PAGE_SUMMARY_SLOT, RESERVED_SLOTS, SLEEPING_SLOT,
    SLOT_SIZE,
};
#[cfg(not(all(test, loom)))]
use {
    crate::shared_memory::Mapping,
    ferroce_spec::doorbell::{PAGE_SIZE, PAGES, SLOTS, SLOTS_PER_PAGE},
};
#[cfg(all(test, loom))]
use {
    ferroce_test_support::loom_memory::Mapping,
    loom_tests::{PAGE_SIZE, PAGES, SLOTS, SLOTS_PER_PAGE},
};

use crate::shared_memory::sealed_file;

/// The doorbell pages of one client.
#[derive(Debug)]
pub struct DoorbellPages {
    file: Arc<OwnedFd>,
    memory: Mapping,
}

impl DoorbellPages {
    /// Creates pages, all zero, in a file whose size cannot be changed.
    ///
    /// # Errors
    /// The error of the system.
    pub fn new() -> io::Result<Self> {
        let size = DOORBELL_PAGES_SIZE as usize;
        let file = sealed_file("ferroce doorbells", size as u64)?;
        let memory = Mapping::new(&file, size)?;
        Ok(Self {
            file: Arc::new(file.into()),
            memory,
        })
    }

    /// Returns the file for a client to map.
    pub fn file(&self) -> &Arc<OwnedFd> {
        &self.file
    }

    /// Publishes whether the device sleeps.
    pub fn set_sleeping(&self, sleeps: bool) {
        let flag = self.memory.word((SLEEPING_SLOT * SLOT_SIZE) as usize);
        flag.store(u64::from(sleeps), Ordering::SeqCst);
    }

    /// Returns the value of a slot, like a read over PCIe.
    pub fn value(&self, slot: u32) -> u64 {
        let offset = (slot * SLOT_SIZE) as usize;
        self.memory.word(offset).load(Ordering::Acquire)
    }

    fn page_summary(&self, page: u32) -> u64 {
        let offset = page * PAGE_SIZE + PAGE_SUMMARY_SLOT * SLOT_SIZE;
        self.memory.word(offset as usize).load(Ordering::SeqCst)
    }

    fn function_summary(&self) -> u64 {
        let offset = FUNCTION_SUMMARY_SLOT * SLOT_SIZE;
        self.memory.word(offset as usize).load(Ordering::SeqCst)
    }

    /// Takes the doorbell of a slot, if there is one.
    fn take(&self, slot: u32) -> Option<u64> {
        let word = self.memory.word((slot * SLOT_SIZE) as usize);
        if word.load(Ordering::Relaxed) == 0 {
            return None;
        }
        Some(word.swap(0, Ordering::AcqRel)).filter(|value| *value != 0)
    }
}

/// The model's view of [`DoorbellPages`]: the values that it saw last, and its position.
#[derive(Debug)]
pub struct PageTaker {
    pages: Arc<DoorbellPages>,
    function_summary: u64,
    page_summaries: Box<[u64; PAGES as usize]>,
    /// Sum of the page counts that were seen.
    counted: u64,
    /// Upper bound of the pages that have ever had a doorbell.
    used_pages: u32,
    must_look_at_all: bool,
    /// Pages to be compared: `next_page..end_page`.
    next_page: u32,
    end_page: u32,
    /// Slots to be checked.
    next_slot: u32,
    end_slot: u32,
}

impl PageTaker {
    /// Creates the view of `pages`, which are not yet written.
    pub fn new(pages: Arc<DoorbellPages>) -> Self {
        Self {
            pages,
            function_summary: 0,
            page_summaries: Box::new([0; PAGES as usize]),
            counted: 0,
            used_pages: 1,
            must_look_at_all: false,
            next_page: 0,
            end_page: 0,
            next_slot: 0,
            end_slot: 0,
        }
    }

    /// Returns the pages.
    pub fn pages(&self) -> &Arc<DoorbellPages> {
        &self.pages
    }

    /// Returns the next doorbell: its slot and its value.
    #[inline]
    pub fn next_doorbell(&mut self) -> Option<(u32, u64)> {
        if self.is_idle() && !self.begin() {
            return None;
        }
        self.take()
    }

    fn is_idle(&self) -> bool {
        self.next_slot == self.end_slot && self.next_page == self.end_page
    }

    fn take(&mut self) -> Option<(u32, u64)> {
        loop {
            while self.next_slot < self.end_slot {
                let slot = self.next_slot;
                self.next_slot += 1;
                if let Some(value) = self.pages.take(slot) {
                    return Some((slot, value));
                }
            }
            let page = self.next_changed_page()?;
            self.next_slot = page * SLOTS_PER_PAGE + RESERVED_SLOTS;
            self.end_slot = (page + 1) * SLOTS_PER_PAGE;
        }
    }

    /// Begins to go through the pages, if a doorbell was counted. Returns true if it was.
    fn begin(&mut self) -> bool {
        let summary = self.pages.function_summary();
        if summary == self.function_summary && !self.must_look_at_all {
            return false;
        }
        self.function_summary = summary;
        self.next_page = 0;
        self.end_page = self.used_pages;
        if std::mem::take(&mut self.must_look_at_all) {
            self.end_page = PAGES;
        }
        true
    }

    fn next_changed_page(&mut self) -> Option<u32> {
        loop {
            if self.next_page == self.end_page {
                // Software increments the page's count before the function's. If the sum of the
                // pages' counts is lower than the function's count, a page that was not in use has
                // a doorbell. (If both are equal, a page in use may have a doorbell that the
                // function's count does not include yet; that hides the new page until software
                // increments the function's count, too.)
                let missing = self.function_summary.wrapping_sub(self.counted) as i64;
                if self.end_page == PAGES || missing <= 0 {
                    return None;
                }
                self.end_page = PAGES;
            }
            let page = self.next_page;
            self.next_page += 1;
            let summary = self.pages.page_summary(page);
            let seen = &mut self.page_summaries[page as usize];
            if *seen != summary {
                self.counted = self.counted.wrapping_add(summary.wrapping_sub(*seen));
                *seen = summary;
                self.used_pages = self.used_pages.max(page + 1);
                return Some(page);
            }
        }
    }

    /// Takes all doorbells and drops them (reset). Does not wait for concurrent writers.
    pub fn forget(&mut self) {
        let doorbells = std::iter::from_fn(|| self.next_doorbell());
        doorbells.take(SLOTS as usize).for_each(drop);
        // A program that was killed between its two additions no longer counts.
        self.counted = self.function_summary;
    }

    /// Called before the device sleeps, with its flag set. Returns true if no doorbell waits.
    pub fn is_quiet(&mut self) -> bool {
        let summaries = (0..PAGES).map(|page| self.pages.page_summary(page));
        let has_changed = summaries
            .zip(self.page_summaries.iter())
            .any(|(now, seen)| now != *seen);
        self.must_look_at_all |= has_changed;
        self.is_idle() && !has_changed && self.pages.function_summary() == self.function_summary
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::fs::File;
    use std::sync::atomic::AtomicBool;
    use std::time::{Duration, Instant};

    use super::*;

    /// Rings like software.
    fn ring(pages: &DoorbellPages, slot: u32, value: u64) {
        let word = |slot: u32| pages.memory.word((slot * SLOT_SIZE) as usize);
        word(slot).store(value, Ordering::Release);
        let page = slot / SLOTS_PER_PAGE * SLOTS_PER_PAGE;
        word(page + PAGE_SUMMARY_SLOT).fetch_add(1, Ordering::SeqCst);
        word(FUNCTION_SUMMARY_SLOT).fetch_add(1, Ordering::SeqCst);
    }

    fn new() -> (Arc<DoorbellPages>, PageTaker) {
        let pages = Arc::new(DoorbellPages::new().expect("memory"));
        (pages.clone(), PageTaker::new(pages))
    }

    /// Takes all pending doorbells, in several calls.
    fn take_all(taker: &mut PageTaker) -> Vec<(u32, u64)> {
        let mut taken = Vec::new();
        loop {
            taken.extend(std::iter::from_fn(|| taker.next_doorbell()));
            if taker.is_quiet() {
                return taken;
            }
        }
    }

    #[test]
    fn each_doorbell_comes_once_and_the_same_value_comes_again() {
        let (pages, mut taker) = new();
        assert_eq!(taker.next_doorbell(), None);
        assert!(taker.is_quiet());
        for _ in 0..3 {
            ring(&pages, 8, 77);
            assert_eq!(taker.next_doorbell(), Some((8, 77)));
            assert_eq!(taker.next_doorbell(), None);
        }
        let slots = [9, 511, 512 + 8, 300 * 512 + 100, PAGES * 512 - 1];
        for slot in slots {
            ring(&pages, slot, u64::from(slot));
        }
        assert!(!taker.is_quiet());
        let taken = take_all(&mut taker);
        let expected = slots.map(|slot| (slot, u64::from(slot)));
        assert_eq!(taken, expected);
        assert!(taker.is_quiet());
    }

    #[test]
    fn reserved_slots_are_no_doorbells() {
        let (pages, mut taker) = new();
        for slot in [3, 7, 512 + 1, 512 + 7] {
            ring(&pages, slot, 1);
        }
        assert_eq!(take_all(&mut taker), []);
        pages.set_sleeping(true);
        assert_eq!(pages.value(SLEEPING_SLOT), 1);
        pages.set_sleeping(false);
        assert_eq!(pages.value(SLEEPING_SLOT), 0);
    }

    #[test]
    fn a_page_whose_doorbell_was_counted_by_half_is_found_before_sleeping() {
        let (pages, mut taker) = new();
        let word = |slot: u32| pages.memory.word((slot * SLOT_SIZE) as usize);
        word(40 * 512 + 9).store(5, Ordering::Release);
        word(40 * 512).fetch_add(1, Ordering::SeqCst);
        assert_eq!(taker.next_doorbell(), None, "not counted for the function");
        assert!(!taker.is_quiet());
        assert_eq!(taker.next_doorbell(), Some((40 * 512 + 9, 5)));
        assert_eq!(take_all(&mut taker), []);
    }

    #[test]
    fn a_page_without_earlier_doorbells_is_found_at_once() {
        let (pages, mut taker) = new();
        for page in [0, PAGES - 1, 40] {
            let slot = page * SLOTS_PER_PAGE + 9;
            ring(&pages, slot, 1);
            assert_eq!(taker.next_doorbell(), Some((slot, 1)));
            assert_eq!(taker.next_doorbell(), None);
        }
    }

    #[test]
    fn counting_without_ringing_does_not_keep_the_model() {
        let (pages, mut taker) = new();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    ring(&pages, 7, 0);
                }
            });
            for _ in 0..1000 {
                assert_eq!(taker.next_doorbell(), None);
            }
            done.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn nothing_is_lost_between_threads() {
        const ROUNDS: u64 = 20_000;
        let (pages, mut taker) = new();
        let slots = [8, 9, 511, 70 * 512 + 8];
        std::thread::scope(|scope| {
            for slot in slots {
                let pages = &pages;
                scope.spawn(move || (1..=ROUNDS).for_each(|value| ring(pages, slot, value)));
            }
            let mut last = [0; 4];
            let deadline = Instant::now() + Duration::from_secs(60);
            while last != [ROUNDS; 4] && Instant::now() < deadline {
                for (slot, value) in take_all(&mut taker) {
                    let index = slots.iter().position(|s| *s == slot).expect("known");
                    assert!(value > last[index], "in order");
                    last[index] = value;
                }
            }
            assert_eq!(last, [ROUNDS; 4]);
        });
        assert!(take_all(&mut taker).is_empty());
    }

    #[test]
    fn the_file_keeps_its_size() {
        let (pages, _) = new();
        let file = File::from(pages.file().try_clone().expect("a descriptor"));
        assert!(file.set_len(0).is_err());
        assert!(file.set_len(1 << 30).is_err());
    }
}

/// Every order of the accesses of programs and the model: tests/scripts/loom.
///
/// Not checked: the sleeping flag, because loom treats `SeqCst` accesses as acquire and release;
/// and two doorbells in one slot, because loom lets a store fall between both halves of a swap.
#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::atomic::AtomicU64;
    use loom::thread;

    use super::*;

    // The smallest number of pages and slots.
    pub(super) const PAGES: u32 = 2;
    pub(super) const SLOTS_PER_PAGE: u32 = RESERVED_SLOTS + 2;
    pub(super) const PAGE_SIZE: u32 = SLOTS_PER_PAGE * SLOT_SIZE;
    pub(super) const SLOTS: u32 = PAGES * SLOTS_PER_PAGE;
    const SLOT_OF_SECOND_PAGE: u32 = SLOTS_PER_PAGE + RESERVED_SLOTS;

    fn taker() -> PageTaker {
        let words: Vec<_> = (0..SLOTS).map(|slot| (slot * SLOT_SIZE) as usize).collect();
        let file = sealed_file("no doorbells", 1).expect("a file");
        PageTaker::new(Arc::new(DoorbellPages {
            file: Arc::new(file.into()),
            memory: Mapping::with(&words, &[], &[]),
        }))
    }

    /// Rings as the driver does (`ferroce_driver`, bus/doorbell_pages.rs).
    fn ring(pages: &DoorbellPages, slot: u32, value: u64) {
        let word = |slot: u32| pages.memory.word((slot * SLOT_SIZE) as usize);
        word(slot).store(value, Ordering::Release);
        let page = slot / SLOTS_PER_PAGE * SLOTS_PER_PAGE;
        word(page + PAGE_SUMMARY_SLOT).fetch_add(1, Ordering::SeqCst);
        word(FUNCTION_SUMMARY_SLOT).fetch_add(1, Ordering::SeqCst);
    }

    /// Takes the remaining doorbells: finishes the current pass over the pages, and makes another
    /// one.
    fn take_rest(taker: &mut PageTaker, taken: &mut Vec<(u32, u64)>) {
        for _ in 0..2 {
            taken.extend(std::iter::from_fn(|| taker.next_doorbell()));
        }
    }

    #[test]
    fn a_doorbell_comes_once() {
        for slot in [RESERVED_SLOTS, SLOT_OF_SECOND_PAGE] {
            loom::model(move || {
                let mut taker = taker();
                let pages = taker.pages().clone();
                let ringing = thread::spawn(move || ring(&pages, slot, 7));
                let mut taken = Vec::from_iter(taker.next_doorbell());
                ringing.join().expect("the program ends");
                take_rest(&mut taker, &mut taken);
                assert_eq!(taken, [(slot, 7)]);
            });
        }
    }

    #[test]
    fn doorbells_of_two_programs_come_once_each_with_what_was_written_before() {
        loom::model(|| {
            let mut taker = taker();
            let work = Arc::new(AtomicU64::new(0));
            let ringing: Vec<_> = (0..2)
                .map(|program| {
                    let (pages, work) = (taker.pages().clone(), work.clone());
                    thread::spawn(move || {
                        if program == 0 {
                            work.store(5, Ordering::Relaxed);
                        }
                        ring(&pages, RESERVED_SLOTS + program, 7);
                    })
                })
                .collect();
            // The model may find the first doorbell when software has counted only the second.
            let mut taken = Vec::from_iter(taker.next_doorbell());
            if taken == [(RESERVED_SLOTS, 7)] {
                assert_eq!(work.load(Ordering::Relaxed), 5);
            }
            for program in ringing {
                program.join().expect("the program ends");
            }
            take_rest(&mut taker, &mut taken);
            taken.sort_unstable();
            assert_eq!(taken, [(RESERVED_SLOTS, 7), (RESERVED_SLOTS + 1, 7)]);
        });
    }
}
