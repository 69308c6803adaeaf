//! BAR2 of a function in this process: its slots, and a record of the slots that were written.
//!
//! Any thread writes, without a lock; the model reads, under its lock. Written slots are marked in
//! a bitmap of three levels, so that "nothing was written" costs one load. A writer marks from the
//! bottom up, the reader clears from the top down and reads a word only after it has cleared the
//! bit above: a writer's mark is therefore either seen now or leaves its trace above.

use std::sync::atomic::{AtomicU64, Ordering};

use ferroce_spec::doorbell::SLOTS;
use zerocopy::FromZeros;

pub mod polled;

const BITS: usize = 64;
const WORDS: usize = SLOTS as usize / BITS;
const GROUPS: usize = WORDS / BITS;

const _: () = assert!(GROUPS <= BITS && SLOTS as usize == GROUPS * BITS * BITS);

/// The slots of BAR2.
pub struct Doorbells {
    values: Box<[AtomicU64]>,
    words: Box<[AtomicU64]>,
    groups: [AtomicU64; GROUPS],
    top: AtomicU64,
}

impl std::fmt::Debug for Doorbells {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Doorbells")
            .field("is_empty", &self.is_empty())
            .finish_non_exhaustive()
    }
}

impl Doorbells {
    /// Creates slots that are all zero, none written. Takes memory only for pages that are used.
    pub fn new() -> Self {
        let zeroed = |length| {
            // The allocator gets large zeroed blocks from the kernel without touching them.
            <[AtomicU64]>::new_box_zeroed_with_elems(length)
                .unwrap_or_else(|_| (0..length).map(|_| AtomicU64::new(0)).collect())
        };
        Self {
            values: zeroed(SLOTS as usize),
            words: zeroed(WORDS),
            groups: std::array::from_fn(|_| AtomicU64::new(0)),
            top: AtomicU64::new(0),
        }
    }

    /// Stores a value without marking the slot. Returns false if there is no such slot.
    #[inline]
    pub fn store(&self, slot: u32, value: u64) -> bool {
        match self.values.get(slot as usize) {
            Some(cell) => {
                cell.store(value, Ordering::Release);
                true
            }
            None => false,
        }
    }

    /// Returns the newest value of a slot that exists.
    #[inline]
    pub fn value(&self, slot: u32) -> u64 {
        self.values[slot as usize].load(Ordering::Acquire)
    }

    /// Marks a slot that exists as written.
    #[inline]
    pub fn mark(&self, slot: u32) {
        let slot = slot as usize;
        let (word, group) = (slot / BITS, slot / BITS / BITS);
        // Always a read-modify-write: it publishes the value that was stored before.
        self.words[word].fetch_or(1 << (slot % BITS), Ordering::SeqCst);
        set(&self.groups[group], word % BITS);
        set(&self.top, group);
    }

    /// Returns true if every marked slot is one that a [`Taker`] has begun to take.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.top.load(Ordering::SeqCst) == 0
    }
}

impl Default for Doorbells {
    fn default() -> Self {
        Self::new()
    }
}

/// Sets a bit. If the bit is already set, no write is needed: the reader clears it before it reads
/// the words below.
#[inline]
fn set(word: &AtomicU64, bit: usize) {
    if word.load(Ordering::SeqCst) >> bit & 1 == 0 {
        word.fetch_or(1 << bit, Ordering::SeqCst);
    }
}

/// The reader's position in the bitmap. There is one for each [`Doorbells`].
#[derive(Debug, Default)]
pub struct Taker {
    top: u64,
    group: usize,
    group_bits: u64,
    word: usize,
    word_bits: u64,
}

impl Taker {
    /// Returns the next marked slot.
    #[inline]
    pub fn next(&mut self, doorbells: &Doorbells) -> Option<u32> {
        if self.is_idle() && doorbells.is_empty() {
            return None;
        }
        self.take(doorbells)
    }

    /// Returns true if nothing is left of what was taken from the bitmap.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.top | self.group_bits | self.word_bits == 0
    }

    fn take(&mut self, doorbells: &Doorbells) -> Option<u32> {
        // Each iteration goes one level down or takes a group or the top; groups bound the
        // iterations.
        loop {
            if self.word_bits != 0 {
                let bit = pop(&mut self.word_bits);
                return Some((self.word * BITS + bit) as u32);
            }
            if self.group_bits != 0 {
                self.word = self.group * BITS + pop(&mut self.group_bits);
                self.word_bits = doorbells.words[self.word].swap(0, Ordering::SeqCst);
            } else if self.top != 0 {
                self.group = pop(&mut self.top);
                self.group_bits = doorbells.groups[self.group].swap(0, Ordering::SeqCst);
            } else {
                self.top = doorbells.top.swap(0, Ordering::SeqCst);
                if self.top == 0 {
                    return None;
                }
            }
        }
    }
}

#[inline]
fn pop(bits: &mut u64) -> usize {
    let bit = bits.trailing_zeros() as usize;
    *bits &= *bits - 1;
    bit
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn every_written_slot_comes_once() {
        let doorbells = Doorbells::new();
        let mut taker = Taker::default();
        let slots = [0, 1, 63, 64, 4095, 4096, 70_000, SLOTS - 1];
        for slot in slots {
            assert!(doorbells.store(slot, u64::from(slot) + 1));
            doorbells.mark(slot);
            doorbells.mark(slot);
        }
        assert!(!doorbells.store(SLOTS, 1));
        let mut taken: Vec<u32> = std::iter::from_fn(|| taker.next(&doorbells)).collect();
        taken.sort_unstable();
        assert_eq!(taken, slots);
        assert!(
            taken
                .iter()
                .all(|slot| doorbells.value(*slot) == u64::from(*slot) + 1)
        );
        assert!(doorbells.is_empty() && taker.is_idle());
    }

    #[test]
    fn nothing_is_lost_between_threads() {
        const ROUNDS: u64 = 50_000;
        let doorbells = Doorbells::new();
        let done = AtomicBool::new(false);
        let slots = [5, 6, 69, 9000];
        std::thread::scope(|scope| {
            let writers: Vec<_> = slots
                .iter()
                .map(|slot| {
                    scope.spawn(|| {
                        for value in 1..=ROUNDS {
                            doorbells.store(*slot, value);
                            doorbells.mark(*slot);
                        }
                    })
                })
                .collect();
            let reader = scope.spawn(|| {
                let (mut taker, mut seen) = (Taker::default(), [0; 4]);
                let deadline = Instant::now() + Duration::from_secs(60);
                while seen != [ROUNDS; 4] && Instant::now() < deadline {
                    let ended = done.load(Ordering::SeqCst);
                    let Some(slot) = taker.next(&doorbells) else {
                        assert!(!ended || seen == [ROUNDS; 4], "a mark was lost: {seen:?}");
                        continue;
                    };
                    let index = slots
                        .iter()
                        .position(|known| *known == slot)
                        .expect("known");
                    seen[index] = doorbells.value(slot);
                }
                seen
            });
            for writer in writers {
                writer.join().expect("ends");
            }
            done.store(true, Ordering::SeqCst);
            assert_eq!(reader.join().expect("ends"), [ROUNDS; 4]);
        });
    }
}
