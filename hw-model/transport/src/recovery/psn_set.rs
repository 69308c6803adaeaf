//! A set of PSNs inside a window.

use ferroce_wire::{Psn, REORDER_WINDOW_PACKETS};

use crate::span::span;

/// Bits of a word.
const WORD: u32 = u64::BITS;
/// Words of a set.
const WORDS: usize = (REORDER_WINDOW_PACKETS / WORD) as usize;

/// Returns true if `psn` is in the window that begins at `start`.
#[inline]
pub(crate) const fn is_in_window(start: Psn, psn: Psn) -> bool {
    span(start, psn) < REORDER_WINDOW_PACKETS
}

/// PSNs of a window of [`REORDER_WINDOW_PACKETS`]. The owner knows the start of the window and
/// removes the PSNs that leave it. 2^24 is a multiple of the window, so a PSN has the same bit on
/// both sides of the wrap.
#[derive(Debug, Clone)]
pub(crate) struct PsnSet([u64; WORDS]);

impl PsnSet {
    pub(crate) const EMPTY: PsnSet = PsnSet([0; WORDS]);

    #[inline]
    const fn place(psn: Psn) -> (usize, u64) {
        let bit = psn.value() % REORDER_WINDOW_PACKETS;
        ((bit / WORD) as usize, 1 << (bit % WORD))
    }

    #[inline]
    pub(crate) const fn contains(&self, psn: Psn) -> bool {
        let (word, mask) = Self::place(psn);
        self.0[word] & mask != 0
    }

    #[inline]
    pub(crate) const fn insert(&mut self, psn: Psn) {
        let (word, mask) = Self::place(psn);
        self.0[word] |= mask;
    }

    #[inline]
    pub(crate) const fn remove(&mut self, psn: Psn) {
        let (word, mask) = Self::place(psn);
        self.0[word] &= !mask;
    }

    /// Removes `count` PSNs from `first` on.
    pub(crate) fn remove_range(&mut self, first: Psn, count: u32) {
        if count >= REORDER_WINDOW_PACKETS {
            *self = Self::EMPTY;
        } else {
            (0..count).for_each(|index| self.remove(first.add(index)));
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_reaches_across_the_wrap() {
        let start = Psn::new(0xff_fff0);
        let mut set = PsnSet::EMPTY;
        for index in (0..REORDER_WINDOW_PACKETS).step_by(3) {
            set.insert(start.add(index));
        }
        for index in 0..REORDER_WINDOW_PACKETS {
            assert!(is_in_window(start, start.add(index)));
            assert_eq!(set.contains(start.add(index)), index % 3 == 0);
        }
        assert!(!is_in_window(start, start.add(REORDER_WINDOW_PACKETS)));
        assert!(!is_in_window(start, start.sub(1)));
        set.remove_range(start, 100);
        assert!(!set.contains(start.add(99)) && set.contains(start.add(102)));
        set.remove_range(start, REORDER_WINDOW_PACKETS);
        assert!(set.is_empty());
    }
}
