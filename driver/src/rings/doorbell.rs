//! Allocator of doorbell slots.

use std::sync::Arc;

use ferroce_spec::doorbell::{PAGES, RESERVED_SLOTS, SLOTS_PER_PAGE};
use parking_lot::Mutex;

const WORDS_PER_PAGE: usize = (SLOTS_PER_PAGE / 64) as usize;

/// Allocates the doorbell slots of BAR2, lowest first, so that the slots in use are dense.
///
/// One process is one user context of the function, so all pages are one set.
#[derive(Debug)]
pub(crate) struct SlotAllocator {
    /// One bit for each slot; a set bit marks a slot in use. Grows page by page up to `pages`.
    used: Mutex<Vec<[u64; WORDS_PER_PAGE]>>,
    pages: usize,
}

/// A doorbell slot; free again when dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    number: u32,
    allocator: Arc<SlotAllocator>,
}

impl Slot {
    pub(crate) fn number(&self) -> u32 {
        self.number
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let (page, word, bit) = place(self.number);
        if let Some(page) = self.allocator.used.lock().get_mut(page) {
            page[word] &= !bit;
        }
    }
}

impl SlotAllocator {
    /// Creates an allocator for `1 << log_pages` pages, limited to the pages of the contract.
    pub(crate) fn new(log_pages: u8) -> Arc<Self> {
        let pages = 1u32.checked_shl(log_pages.into()).unwrap_or(PAGES);
        Arc::new(Self {
            used: Mutex::new(Vec::new()),
            pages: pages.min(PAGES) as usize,
        })
    }

    /// Allocates the lowest free slot.
    pub(crate) fn allocate(self: &Arc<Self>) -> Option<Slot> {
        let mut used = self.used.lock();
        if used.iter().all(page_is_full) {
            if used.len() == self.pages {
                return None;
            }
            used.push(new_page());
        }
        let page = used.iter().position(|page| !page_is_full(page))?;
        let word = used[page].iter().position(|&word| word != u64::MAX)?;
        let bit = used[page][word].trailing_ones();
        used[page][word] |= 1 << bit;
        let number = page as u32 * SLOTS_PER_PAGE + word as u32 * 64 + bit;
        Some(Slot {
            number,
            allocator: Arc::clone(self),
        })
    }
}

fn new_page() -> [u64; WORDS_PER_PAGE] {
    let mut page = [0; WORDS_PER_PAGE];
    page[0] = (1 << RESERVED_SLOTS) - 1;
    page
}

fn page_is_full(page: &[u64; WORDS_PER_PAGE]) -> bool {
    page.iter().all(|&word| word == u64::MAX)
}

fn place(slot: u32) -> (usize, usize, u64) {
    let page = (slot / SLOTS_PER_PAGE) as usize;
    let in_page = slot % SLOTS_PER_PAGE;
    (page, (in_page / 64) as usize, 1 << (in_page % 64))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn skips_the_reserved_slots_of_each_page() {
        let allocator = SlotAllocator::new(1);
        let slots: Vec<Slot> = std::iter::from_fn(|| allocator.allocate()).collect();
        assert_eq!(slots.len() as u32, 2 * (SLOTS_PER_PAGE - RESERVED_SLOTS));
        assert!(
            slots
                .iter()
                .all(|slot| slot.number % SLOTS_PER_PAGE >= RESERVED_SLOTS)
        );
        assert_eq!(slots[0].number, RESERVED_SLOTS);
        drop(slots);
        assert_eq!(
            allocator.allocate().map(|slot| slot.number),
            Some(RESERVED_SLOTS)
        );
    }

    #[test]
    fn an_absurd_number_of_pages_is_cut() {
        assert_eq!(SlotAllocator::new(200).pages, PAGES as usize);
    }

    proptest! {
        #[test]
        fn slots_are_unique(
            steps in prop::collection::vec((any::<bool>(), any::<usize>()), 1..600)
        ) {
            let allocator = SlotAllocator::new(0);
            let mut held: Vec<Slot> = Vec::new();
            for (release, random) in steps {
                if release && !held.is_empty() {
                    held.swap_remove(random % held.len());
                } else if let Some(slot) = allocator.allocate() {
                    prop_assert!(held.iter().all(|other| other.number != slot.number));
                    held.push(slot);
                } else {
                    prop_assert_eq!(held.len() as u32, SLOTS_PER_PAGE - RESERVED_SLOTS);
                }
            }
        }
    }
}
