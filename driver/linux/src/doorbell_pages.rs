//! The doorbell pages of BAR2 where the bus has mapped them.
//!
//! A card sees each store. A model in another process sees none: it polls the pages, which are
//! memory. The driver marks the pages to poll and wakes a sleeping model
//! ([`ferroce_spec::doorbell`]).

use std::sync::atomic::{AtomicU64, Ordering, fence};

use ferroce_spec::doorbell::{
    FUNCTION_SUMMARY_SLOT, PAGE_SUMMARY_SLOT, SLEEPING_SLOT, SLOT_SIZE, SLOTS_PER_PAGE,
};

use crate::shared_mapping::SharedMapping;

/// Doorbell slots, from slot 0 on.
#[derive(Debug)]
pub struct DoorbellPages {
    mapping: SharedMapping,
    slots: u32,
    is_polled: bool,
}

impl DoorbellPages {
    /// Creates the doorbell slots in `mapping`. `is_polled`: `Capability.polled_doorbells` of the
    /// device.
    pub fn new(mapping: SharedMapping, is_polled: bool) -> Self {
        let pages = mapping.length() / (SLOTS_PER_PAGE * SLOT_SIZE) as usize;
        let slots =
            u32::try_from(pages).map_or(u32::MAX, |pages| pages.saturating_mul(SLOTS_PER_PAGE));
        Self {
            mapping,
            slots,
            is_polled,
        }
    }

    /// Returns the number of slots.
    #[inline]
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// Rings doorbell `slot`; `wake` writes the register of that name. A doorbell of an unmapped
    /// slot is dropped.
    ///
    /// Everything that this thread stored before is visible to a device that sees the doorbell.
    #[inline]
    pub fn ring(&self, slot: u32, value: u64, wake: impl FnOnce()) {
        if slot >= self.slots {
            return;
        }
        if !self.is_polled {
            return self.store(slot, value);
        }
        self.slot(slot).store(value, Ordering::Release);
        let page = slot - slot % SLOTS_PER_PAGE;
        self.slot(page + PAGE_SUMMARY_SLOT)
            .fetch_add(1, Ordering::SeqCst);
        self.slot(FUNCTION_SUMMARY_SLOT)
            .fetch_add(1, Ordering::SeqCst);
        if self.slot(SLEEPING_SLOT).load(Ordering::SeqCst) != 0 {
            wake();
        }
    }

    /// Performs the one store that a card needs: 64 bits at once, never merged, repeated or
    /// omitted.
    #[inline]
    fn store(&self, slot: u32, value: u64) {
        fence(Ordering::Release);
        let place = self.slot(slot).as_ptr();
        // SAFETY: the slot is a valid, aligned word (see `slot`), and a store of 8 aligned bytes
        // is what the device expects there. No reference to the plain word exists.
        unsafe { place.write_volatile(value) };
    }

    /// Returns word `slot`, which must be smaller than `slots`.
    #[inline]
    fn slot(&self, slot: u32) -> &AtomicU64 {
        debug_assert!(slot < self.slots);
        // SAFETY: the mapping is valid while `self` lives, begins at a page and holds `slots`
        // words, including this one: `ring` has checked `slot`, and the summaries and the sleeping
        // flag are in the page of that slot or in the first page; both are mapped. This process
        // accesses the pages only here, atomically. The server may write them at any time; each
        // such write is a store of a whole word by another agent.
        unsafe {
            self.mapping
                .address()
                .cast::<AtomicU64>()
                .add(slot as usize)
                .as_ref()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::os::fd::AsFd;

    use ferroce_spec::doorbell::PAGE_SIZE;

    use super::*;
    use crate::memfd;

    fn pages(is_polled: bool) -> DoorbellPages {
        let length = 2 * PAGE_SIZE as usize;
        let file = memfd::create(length).expect("a file in memory");
        let mapping = SharedMapping::new(file.as_fd(), 0, length).expect("its mapping");
        DoorbellPages::new(mapping, is_polled)
    }

    fn words(pages: &DoorbellPages) -> Vec<(u32, u64)> {
        (0..pages.slots)
            .map(|slot| (slot, pages.slot(slot).load(Ordering::SeqCst)))
            .filter(|&(_, word)| word != 0)
            .collect()
    }

    #[test]
    fn a_card_gets_the_store_and_nothing_else() {
        let pages = pages(false);
        pages.ring(SLOTS_PER_PAGE + 9, 0x1122, || {
            panic!("a card does not sleep")
        });
        assert_eq!(words(&pages), [(SLOTS_PER_PAGE + 9, 0x1122)]);
    }

    #[test]
    fn a_model_gets_its_summaries_and_is_woken_when_it_sleeps() {
        let pages = pages(true);
        let woken = Cell::new(0);
        let ring = |slot| pages.ring(slot, 0x33, || woken.set(woken.get() + 1));
        let second = SLOTS_PER_PAGE;
        ring(second + 9);
        ring(second + 10);
        ring(11);
        let expected = [
            (PAGE_SUMMARY_SLOT, 1),
            (FUNCTION_SUMMARY_SLOT, 3),
            (11, 0x33),
            (second + PAGE_SUMMARY_SLOT, 2),
            (second + 9, 0x33),
            (second + 10, 0x33),
        ];
        assert_eq!(words(&pages), expected);
        assert_eq!(woken.get(), 0);
        pages.slot(SLEEPING_SLOT).store(1, Ordering::SeqCst);
        ring(11);
        assert_eq!(woken.get(), 1);
    }

    #[test]
    fn a_slot_that_is_not_there_is_dropped() {
        let pages = pages(true);
        pages.ring(2 * SLOTS_PER_PAGE, 1, || ());
        pages.ring(u32::MAX, 1, || ());
        assert_eq!(words(&pages), []);
    }
}
