//! Free entries of a table, and the order in which they are allocated as QPNs and keys if software
//! does not choose.
//!
//! The order is ascending, as on most cards, or random, to expose programs that rely on an order or
//! on a peer with the same numbers.

use std::collections::VecDeque;
use std::ops::Range;

use ferroce_units::random::mixed;

use crate::ports::host::DmaError;

/// Reason why an object was not created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CreateError {
    /// The number that software has chosen is in use.
    Taken,
    /// No number is free, or the table does not have the number that software has chosen.
    NoNumber,
    /// Its context could not be written.
    Dma(DmaError),
}

impl From<DmaError> for CreateError {
    fn from(error: DmaError) -> Self {
        Self::Dma(error)
    }
}

/// Free numbers; the first one is allocated next.
#[derive(Debug, Default)]
pub struct FreeNumbers {
    numbers: VecDeque<u32>,
    table: Range<u32>,
}

impl FreeNumbers {
    /// Returns a list of `numbers`, which is a permutation of `table`.
    pub fn new(table: Range<u32>, numbers: impl IntoIterator<Item = u32>) -> Self {
        let numbers = numbers.into_iter().collect();
        Self { numbers, table }
    }

    /// Takes the number that software has chosen, or the next one. The search is short if software
    /// chooses in the same order.
    pub fn take(&mut self, chosen: Option<u32>) -> Result<u32, CreateError> {
        let Some(chosen) = chosen else {
            return self.numbers.pop_front().ok_or(CreateError::NoNumber);
        };
        if !self.table.contains(&chosen) {
            return Err(CreateError::NoNumber);
        }
        let place = self.numbers.iter().position(|number| *number == chosen);
        self.numbers.remove(place.ok_or(CreateError::Taken)?);
        Ok(chosen)
    }

    /// Makes `number` the next one to allocate.
    pub fn put_first(&mut self, number: u32) {
        self.numbers.push_front(number);
    }

    /// Makes `number` the last one to allocate.
    pub fn put_last(&mut self, number: u32) {
        self.numbers.push_back(number);
    }

    /// Returns the number of free numbers.
    pub fn count(&self) -> usize {
        self.numbers.len()
    }
}

/// A permutation of the entries of a table with `1 << bits` entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Numbering {
    seed: Option<u64>,
    bits: u8,
}

/// Enough rounds to separate neighbours.
const ROUNDS: u64 = 4;

impl Numbering {
    /// Returns a random order with this seed; `None`: ascending.
    pub fn new(seed: Option<u64>, bits: u8) -> Self {
        let bits = bits.min(31);
        Self { seed, bits }
    }

    /// Returns the entry that is allocated `n`th. Each step is a bijection, so each entry occurs
    /// once.
    pub fn entry(&self, n: u32) -> u32 {
        let Some(seed) = self.seed else {
            return n;
        };
        let mask = (1u32 << self.bits) - 1;
        let shift = u32::from(self.bits / 2).max(1);
        (0..ROUNDS).fold(n & mask, |entry, round| {
            let key = mixed(seed.wrapping_add(round));
            let entry = entry.wrapping_mul(key as u32 | 1) & mask;
            let entry = entry.wrapping_add((key >> 32) as u32) & mask;
            entry ^ (entry >> shift)
        })
    }

    /// Selects the next of `count` freed entries: the last one, or a random one.
    pub fn again(&self, count: usize, given: u64) -> Option<usize> {
        let last = count.checked_sub(1)?;
        Some(match self.seed {
            None => last,
            Some(seed) => (mixed(seed ^ mixed(given)) % count as u64) as usize,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_entry_has_its_turn() {
        for (seed, bits) in [(0, 0), (1, 1), (7, 4), (u64::MAX, 14), (3, 15)] {
            let order = Numbering::new(Some(seed), bits);
            let mut entries: Vec<u32> = (0..1 << bits).map(|n| order.entry(n)).collect();
            entries.sort_unstable();
            let all: Vec<u32> = (0..1 << bits).collect();
            assert_eq!(entries, all, "{seed} {bits}");
        }
    }

    #[test]
    fn the_order_is_the_seeds() {
        let first = |seed| {
            let order = Numbering::new(seed, 14);
            (0..8).map(|n| order.entry(n)).collect::<Vec<_>>()
        };
        assert_eq!(first(None), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(first(Some(5)), first(Some(5)));
        assert_ne!(first(Some(5)), first(Some(6)));
        let drawn = first(Some(5));
        let steps: Vec<i64> = drawn
            .windows(2)
            .map(|w| i64::from(w[1]) - i64::from(w[0]))
            .collect();
        assert!(steps.windows(2).all(|pair| pair[0] != pair[1]), "{drawn:?}");
    }

    #[test]
    fn software_chooses_among_the_free_numbers() {
        let mut free = FreeNumbers::new(2..6, 2..6);
        assert_eq!(free.take(Some(4)), Ok(4));
        assert_eq!(free.take(Some(4)), Err(CreateError::Taken));
        assert_eq!(free.take(Some(1)), Err(CreateError::NoNumber));
        assert_eq!(free.take(Some(6)), Err(CreateError::NoNumber));
        assert_eq!([2, 3, 5].map(|_| free.take(None)), [Ok(2), Ok(3), Ok(5)]);
        assert_eq!(free.take(None), Err(CreateError::NoNumber));
        free.put_last(3);
        free.put_last(2);
        free.put_first(5);
        assert_eq!(free.take(Some(2)), Ok(2));
        assert_eq!([5, 3].map(|_| free.take(None)), [Ok(5), Ok(3)]);
        assert_eq!(free.count(), 0);
    }

    #[test]
    fn what_is_free_again_is_given_again() {
        let ascending = Numbering::new(None, 4);
        assert_eq!(ascending.again(3, 9), Some(2));
        assert_eq!(ascending.again(0, 9), None);
        let drawn = Numbering::new(Some(1), 4);
        assert!((0..100).all(|given| drawn.again(3, given).is_some_and(|place| place < 3)));
        assert_eq!(drawn.again(0, 9), None);
    }
}
