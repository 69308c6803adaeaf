//! Tags: the driver's own record of the work requests of a shared receive queue.
//!
//! They complete in any order and through any CQ, so each gets a tag that its completion echoes. A
//! tag is a slot number with a generation in the upper bits, so that a tag that is echoed twice, or
//! belongs to an earlier work request, is not taken for an outstanding one. The poster takes slots
//! under the queue's lock; pollers return them without a lock.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::rings::shadow::OwnLine;

/// End of a chain of slots.
const NONE: u32 = u32::MAX;
/// Bit of a slot's state: its tag is outstanding. Tags have the 31 bits below.
const OUTSTANDING: u32 = 1 << 31;

#[derive(Debug)]
struct TagSlot {
    wr_id: AtomicU64,
    /// The slot's tag, and whether it is outstanding.
    state: AtomicU32,
    /// Next slot of the chain that contains this slot while it is free.
    next: AtomicU32,
}

/// The tags of a shared receive queue.
#[derive(Debug)]
pub(crate) struct TagTable {
    slots: Box<[TagSlot]>,
    given_back: OwnLine<GivenBack>,
}

/// State written by pollers.
#[derive(Debug)]
struct GivenBack {
    /// First slot of the chain of returned slots.
    first: AtomicU32,
    /// Work requests that have completed, modulo 2^32.
    count: AtomicU32,
}

/// The poster's chain of free slots.
#[derive(Debug)]
pub(crate) struct FreeTags {
    first: u32,
}

impl TagTable {
    /// Creates `1 << log_slots` tags, all free. `log_slots` is at most 30.
    pub(crate) fn new(log_slots: u8) -> (Self, FreeTags) {
        let count = 1u32 << log_slots;
        let slot = |number: u32| TagSlot {
            wr_id: AtomicU64::new(0),
            state: AtomicU32::new(number),
            next: AtomicU32::new(if number + 1 == count {
                NONE
            } else {
                number + 1
            }),
        };
        let table = Self {
            slots: (0..count).map(slot).collect(),
            given_back: OwnLine(GivenBack {
                first: AtomicU32::new(NONE),
                count: AtomicU32::new(0),
            }),
        };
        (table, FreeTags { first: 0 })
    }

    #[inline]
    fn slot(&self, tag: u32) -> &TagSlot {
        &self.slots[tag as usize & (self.slots.len() - 1)]
    }

    /// Poster: issues a tag for a new work request; `None` when all are outstanding.
    #[inline]
    pub(crate) fn issue(&self, free: &mut FreeTags, wr_id: u64) -> Option<u32> {
        if free.first == NONE {
            // Acquire: pairs with the pollers' stores of the links.
            free.first = self.given_back.0.first.swap(NONE, Ordering::Acquire);
            if free.first == NONE {
                return None;
            }
        }
        let slot = self.slot(free.first);
        free.first = slot.next.load(Ordering::Relaxed);
        let generation = self.slots.len() as u32;
        let tag = slot.state.load(Ordering::Relaxed).wrapping_add(generation) & !OUTSTANDING;
        slot.wr_id.store(wr_id, Ordering::Relaxed);
        slot.state.store(tag | OUTSTANDING, Ordering::Release);
        Some(tag)
    }

    /// Poller: retires the work request with this tag, which has completed, and returns its
    /// `wr_id`. Returns `None` when the tag is not outstanding.
    #[inline]
    pub(crate) fn retire(&self, tag: u32) -> Option<u64> {
        if tag & OUTSTANDING != 0 {
            return None;
        }
        let slot = self.slot(tag);
        let outstanding = tag | OUTSTANDING;
        if slot.state.load(Ordering::Acquire) != outstanding {
            return None;
        }
        let wr_id = slot.wr_id.load(Ordering::Relaxed);
        // Of several pollers that have the same tag, one succeeds.
        slot.state
            .compare_exchange(outstanding, tag, Ordering::AcqRel, Ordering::Relaxed)
            .ok()?;
        self.give_back(tag & (self.slots.len() as u32 - 1));
        Some(wr_id)
    }

    /// Returns the number of work requests that have completed, modulo 2^32.
    pub(crate) fn retired_count(&self) -> u32 {
        self.given_back.0.count.load(Ordering::Acquire)
    }

    /// Puts a slot in front of the chain. The chain is only ever emptied as a whole, so a first
    /// slot that is loaded twice is still the first slot.
    #[inline]
    fn give_back(&self, number: u32) {
        let chain = &self.given_back.0;
        chain.count.fetch_add(1, Ordering::Release);
        let slot = self.slot(number);
        let mut first = chain.first.load(Ordering::Relaxed);
        loop {
            slot.next.store(first, Ordering::Relaxed);
            match chain.first.compare_exchange_weak(
                first,
                number,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => first = now,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use parking_lot::Mutex;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn tags_complete_once_and_in_any_order() {
        let (table, mut free) = TagTable::new(2);
        let tags: Vec<u32> = (0..4).filter_map(|i| table.issue(&mut free, i)).collect();
        assert_eq!(tags.len(), 4);
        assert_eq!(table.issue(&mut free, 9), None);
        assert_eq!(table.retire(tags[2]), Some(2));
        assert_eq!(table.retire(tags[2]), None, "echoed twice");
        let again = table.issue(&mut free, 5).expect("one is free");
        assert_eq!(again & 3, tags[2] & 3, "the same slot");
        assert_eq!(table.retire(tags[2]), None, "of an earlier generation");
        assert_eq!(table.retire(again | OUTSTANDING), None);
        assert_eq!(table.retire(again), Some(5));
    }

    proptest! {
        #[test]
        fn garbage_retires_only_what_is_outstanding(
            steps in prop::collection::vec((any::<bool>(), any::<u32>()), 1..300), log in 0u8..4,
        ) {
            let (table, mut free) = TagTable::new(log);
            let mut outstanding = BTreeMap::new();
            for (posts, random) in steps {
                if posts {
                    let tag = table.issue(&mut free, random.into());
                    prop_assert_eq!(tag.is_some(), outstanding.len() < 1 << log);
                    if let Some(tag) = tag {
                        prop_assert!(outstanding.insert(tag, u64::from(random)).is_none());
                    }
                } else {
                    // Mostly plausible tags.
                    let guess = if random & 7 == 0 { random } else { random % 64 };
                    prop_assert_eq!(table.retire(guess), outstanding.remove(&guess));
                }
            }
        }
    }

    /// Goal: pollers return tags without a lock, and none is lost or issued twice. Method: one
    /// thread posts, three retire what it has posted.
    #[test]
    fn several_threads_retire() {
        const COUNT: u64 = 40_000;
        let (table, mut free) = TagTable::new(4);
        let posted = Mutex::new(Vec::new());
        let sum = AtomicU64::new(0);
        let left = AtomicU64::new(COUNT);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while left.load(Ordering::Relaxed) > 0 {
                        let Some(tag) = posted.lock().pop() else {
                            std::thread::yield_now();
                            continue;
                        };
                        let wr_id = table.retire(tag).expect("outstanding");
                        sum.fetch_add(wr_id, Ordering::Relaxed);
                        left.fetch_sub(1, Ordering::Relaxed);
                    }
                });
            }
            let mut next = 0;
            while next < COUNT {
                match table.issue(&mut free, next) {
                    Some(tag) => {
                        posted.lock().push(tag);
                        next += 1;
                    }
                    None => std::thread::yield_now(),
                }
            }
        });
        assert_eq!(sum.load(Ordering::Relaxed), COUNT * (COUNT - 1) / 2);
    }
}
