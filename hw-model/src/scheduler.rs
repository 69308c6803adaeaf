//! Selects the next queue pair: each processing unit serves its active queue pairs round robin.
//!
//! A queue pair is pinned to a processing unit when it is created.

use std::collections::VecDeque;

use crate::contexts::queue_pair::QueuePair;

/// Fibonacci hashing: the integer nearest to 2^64 divided by the golden ratio.
const BLOCK_HASH: u64 = 0x9e37_79b9_7f4a_7c15;
/// Bits of the hash that are used: enough for all units.
const HASH_BITS: u32 = 16;
/// Words of a bitmap with one bit for each possible unit.
const WORDS: usize = 256 / u64::BITS as usize;

/// The queue pairs that have work, a list for each processing unit.
#[derive(Debug)]
pub struct Scheduler {
    active: Vec<VecDeque<u32>>,
    /// Number of queue pairs in all lists.
    count: usize,
    /// Bitmap of units whose list is not empty. Every event reads it for all units, while each list
    /// is in a different line of the processor's cache.
    waiting: [u64; WORDS],
    /// The unit of each queue pair, by index; as long as the highest index that was ever placed.
    unit_of: Vec<u8>,
    /// Number of queue pairs that are pinned to each unit.
    pinned: Vec<u32>,
}

impl Scheduler {
    /// Returns a scheduler in which no queue pair has work.
    pub fn new(units: usize) -> Self {
        Self {
            active: vec![VecDeque::new(); units.max(1)],
            count: 0,
            waiting: [0; WORDS],
            unit_of: Vec::new(),
            pinned: vec![0; units.max(1)],
        }
    }

    /// Pins a new queue pair to one of the processing units that have the fewest, and returns the
    /// unit: a unit with one more than the others would limit the rate of all. Of these units it is
    /// the preferred one, or the next after it.
    pub fn place(&mut self, index: u32) -> u8 {
        let units = self.pinned.len();
        let fewest = self.pinned.iter().min().copied().unwrap_or_default();
        let preferred = preferred_unit(index, units);
        let mut following = (0..units).map(|step| (preferred + step) % units);
        let unit = following.find(|unit| self.pinned[*unit] == fewest);
        let unit = unit.unwrap_or(preferred);
        self.pinned[unit] += 1;
        if self.unit_of.len() <= index as usize {
            self.unit_of.resize(index as usize + 1, 0);
        }
        self.unit_of[index as usize] = unit as u8;
        unit as u8
    }

    /// Returns the processing unit to which the queue pair at `index` is pinned.
    #[inline]
    pub fn unit_of(&self, index: u32) -> usize {
        self.unit_of
            .get(index as usize)
            .copied()
            .map_or(0, usize::from)
    }

    /// Appends a queue pair to the list of its unit, unless it is in it.
    #[inline]
    pub fn activate(&mut self, qp: &mut QueuePair) {
        if !qp.scheduled {
            qp.scheduled = true;
            let unit = self.unit_of(qp.index);
            self.active[unit].push_back(qp.index);
            self.count += 1;
            let (word, bit) = place_of(unit);
            self.waiting[word] |= bit;
        }
    }

    /// Returns true if a queue pair of `unit` has work.
    #[inline]
    pub fn has_work(&self, unit: usize) -> bool {
        let (word, bit) = place_of(unit);
        self.waiting[word] & bit != 0
    }

    /// Returns the units that have an active queue pair, in order.
    #[inline]
    pub fn units_with_work(&self) -> impl Iterator<Item = usize> {
        let words = self.waiting.iter().enumerate();
        words.flat_map(|(word, bits)| {
            let mut rest = *bits;
            std::iter::from_fn(move || {
                let bit = rest.trailing_zeros();
                rest &= rest.wrapping_sub(1);
                (bit < u64::BITS).then_some(word * u64::BITS as usize + bit as usize)
            })
        })
    }

    /// Returns the index of the next queue pair of `unit` and leaves it in the list.
    #[inline]
    pub fn next(&self, unit: usize) -> Option<u32> {
        self.active[unit].front().copied()
    }

    /// Takes the index of the next queue pair of `unit`. It may have been destroyed since.
    #[inline]
    pub fn take_next(&mut self, unit: usize) -> Option<u32> {
        let index = self.active[unit].pop_front()?;
        self.count -= 1;
        self.note_empty(unit);
        Some(index)
    }

    /// Returns true if no queue pair has work.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.count == 0
    }

    /// Returns the number of queue pairs in the list of `unit`.
    #[inline]
    pub fn len(&self, unit: usize) -> usize {
        self.active[unit].len()
    }

    /// Takes a destroyed queue pair out of its list and from its unit.
    pub fn remove(&mut self, index: u32) {
        let unit = self.unit_of(index);
        self.pinned[unit] = self.pinned[unit].saturating_sub(1);
        let list = &mut self.active[unit];
        self.count -= list.len();
        list.retain(|active| *active != index);
        self.count += list.len();
        self.note_empty(unit);
    }

    #[inline]
    fn note_empty(&mut self, unit: usize) {
        if self.active[unit].is_empty() {
            let (word, bit) = place_of(unit);
            self.waiting[word] &= !bit;
        }
    }

    /// Clears all lists and unpins all queue pairs (reset).
    pub fn clear(&mut self) {
        self.active.iter_mut().for_each(VecDeque::clear);
        self.count = 0;
        self.waiting = [0; WORDS];
        self.unit_of.clear();
        self.pinned.fill(0);
    }
}

/// Returns the processing unit that a queue pair prefers. Adjacent queue pairs prefer different
/// units; queue pairs at equal distances, such as one for each thread, are spread pseudo-randomly.
fn preferred_unit(index: u32, units: usize) -> usize {
    let block = (index as usize / units) as u64;
    let turn = block.wrapping_mul(BLOCK_HASH) >> (u64::BITS - HASH_BITS);
    (index as usize + turn as usize) % units
}

/// Returns the word and the bit of a unit.
#[inline]
fn place_of(unit: usize) -> (usize, u64) {
    let bits = u64::BITS as usize;
    (unit / bits, 1 << (unit % bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(scheduler: &mut Scheduler, indices: &[u32]) {
        for index in indices {
            scheduler.place(*index);
        }
    }

    /// Returns the number of queue pairs of each unit.
    fn share(scheduler: &Scheduler, indices: &[u32]) -> Vec<usize> {
        let count = |unit| {
            let pinned = indices.iter().map(|index| scheduler.unit_of(*index));
            pinned.filter(|other| *other == unit).count()
        };
        (0..scheduler.active.len()).map(count).collect()
    }

    /// Goal: no unit has two queue pairs more than another, wherever their indices begin and
    /// whichever were destroyed. Method: the first table entries of other programs are taken.
    #[test]
    fn units_have_equal_shares() {
        for first in 1..40 {
            let mut scheduler = Scheduler::new(8);
            let indices: Vec<u32> = (first..first + 32).collect();
            place(&mut scheduler, &indices);
            assert_eq!(share(&scheduler, &indices), [4; 8], "from {first} on");
            let (old, kept) = indices.split_at(12);
            old.iter().for_each(|index| scheduler.remove(*index));
            let new: Vec<u32> = (200..212).collect();
            place(&mut scheduler, &new);
            assert_eq!(share(&scheduler, &[kept, &new].concat()), [4; 8]);
        }
    }

    #[test]
    fn one_queue_pair_of_each_thread_does_not_always_meet_the_same_unit() {
        let mut scheduler = Scheduler::new(8);
        place(&mut scheduler, &(2..66).collect::<Vec<_>>());
        let first_ones: Vec<u32> = (2..66).step_by(8).collect();
        let most = share(&scheduler, &first_ones).into_iter().max();
        assert!(most < Some(4), "{most:?} of 8");
    }
}
