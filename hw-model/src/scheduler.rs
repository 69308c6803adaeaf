//! Selects the next queue pair: each processing unit serves its active queue pairs round robin.

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
}

impl Scheduler {
    /// Returns a scheduler in which no queue pair has work.
    pub fn new(units: usize) -> Self {
        Self {
            active: vec![VecDeque::new(); units.max(1)],
            count: 0,
            waiting: [0; WORDS],
        }
    }

    /// Returns the processing unit to which the queue pair at `index` is pinned. Adjacent queue
    /// pairs go to different units; queue pairs at equal distances, such as one for each thread,
    /// are spread pseudo-randomly.
    #[inline]
    pub fn unit_of(&self, index: u32) -> usize {
        let units = self.active.len();
        if units == 1 {
            return 0;
        }
        let block = (index as usize / units) as u64;
        let turn = block.wrapping_mul(BLOCK_HASH) >> (u64::BITS - HASH_BITS);
        (index as usize + turn as usize) % units
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

    /// Takes a destroyed queue pair out of its list.
    pub fn remove(&mut self, index: u32) {
        let unit = self.unit_of(index);
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

    /// Clears all lists (reset).
    pub fn clear(&mut self) {
        self.active.iter_mut().for_each(VecDeque::clear);
        self.count = 0;
        self.waiting = [0; WORDS];
    }
}

/// Returns the word and the bit of a unit.
#[inline]
fn place_of(unit: usize) -> (usize, u64) {
    let bits = u64::BITS as usize;
    (unit / bits, 1 << (unit % bits))
}
