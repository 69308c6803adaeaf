//! Allocator of number ranges: IOVAs, MTT entries.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use parking_lot::Mutex;

/// Number of pieces that might fit and are tried, smallest first, before a piece is used that fits
/// at any alignment.
const MAX_TRIES: usize = 8;

/// Allocates ranges of a space of numbers, from small free pieces first. Thread-safe.
///
/// The number of free pieces, and with it the memory used, is at most the number of allocated
/// ranges plus one. Allocation and release take logarithmic time in that number, unless the space
/// is nearly exhausted.
#[derive(Debug)]
pub(crate) struct RangeAllocator {
    free: Mutex<FreePieces>,
}

/// Free pieces; no two of them are adjacent.
#[derive(Debug, Default)]
struct FreePieces {
    /// Length by start.
    by_start: BTreeMap<u64, u64>,
    /// Length and start.
    by_length: BTreeSet<(u64, u64)>,
    /// Number of pieces that were examined.
    #[cfg(test)]
    examined: u64,
}

/// A requested range, whose start leaves `residue` when divided by `alignment`.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    length: u64,
    /// A power of two.
    alignment: u64,
    residue: u64,
}

impl Wanted {
    /// Returns the start of the range in the piece, if it fits.
    fn place_in(&self, piece: u64, piece_length: u64) -> Option<u64> {
        let skip = self.residue.wrapping_sub(piece) & (self.alignment - 1);
        (skip.checked_add(self.length)? <= piece_length).then(|| piece + skip)
    }
}

impl FreePieces {
    fn insert(&mut self, start: u64, length: u64) {
        if length > 0 {
            self.by_start.insert(start, length);
            self.by_length.insert((length, start));
        }
    }

    /// Removes the piece that begins at `start`; returns its length.
    fn remove(&mut self, start: u64) -> Option<u64> {
        let length = self.by_start.remove(&start)?;
        self.by_length.remove(&(length, start));
        Some(length)
    }

    /// Returns a piece that the requested range fits into, and the start of the range in it.
    fn find(&mut self, wanted: &Wanted) -> Option<(u64, u64)> {
        // A piece of this length fits at any alignment.
        let ample = wanted.length.saturating_add(wanted.alignment - 1);
        self.try_first(MAX_TRIES, wanted.length, ample, wanted)
            .or_else(|| self.try_first(1, ample, u64::MAX, wanted))
            // No ample piece is left: all others.
            .or_else(|| self.try_first(usize::MAX, wanted.length, ample, wanted))
    }

    /// Returns the first of at most `count` pieces with `shortest <= length < limit` that the range
    /// fits into.
    fn try_first(
        &mut self,
        tries: usize,
        shortest: u64,
        limit: u64,
        wanted: &Wanted,
    ) -> Option<(u64, u64)> {
        let mut examined = 0;
        let candidates = self.by_length.range((shortest, 0)..(limit, 0)).take(tries);
        let found = candidates
            .inspect(|_| examined += 1)
            .find_map(|&(length, piece)| Some((piece, wanted.place_in(piece, length)?)));
        #[cfg(test)]
        {
            self.examined += examined;
        }
        found
    }
}

impl RangeAllocator {
    pub(crate) fn new(space: Range<u64>) -> Self {
        let mut free = FreePieces::default();
        free.insert(space.start, space.end.saturating_sub(space.start));
        Self {
            free: Mutex::new(free),
        }
    }

    /// Allocates a range of `length` numbers whose start leaves `residue` when divided by
    /// `alignment`, a power of two. Returns `None` when there is none, or `length` is zero.
    pub(crate) fn allocate(&self, length: u64, alignment: u64, residue: u64) -> Option<u64> {
        assert!(alignment.is_power_of_two(), "own call with a bad alignment");
        if length == 0 {
            return None;
        }
        let wanted = Wanted {
            length,
            alignment,
            residue,
        };
        let mut free = self.free.lock();
        let (piece, start) = free.find(&wanted)?;
        let piece_length = free.remove(piece)?;
        free.insert(piece, start - piece);
        free.insert(start + length, piece_length - (start - piece) - length);
        Some(start)
    }

    /// Enlarges an allocated range, which ends at `end`, by `length` numbers. Returns false, and
    /// leaves everything as it is, unless they are free.
    pub(crate) fn extend(&self, end: u64, length: u64) -> bool {
        let mut free = self.free.lock();
        match free.by_start.get(&end) {
            Some(&piece_length) if piece_length >= length => {
                free.remove(end);
                free.insert(end + length, piece_length - length);
                true
            }
            _ => length == 0,
        }
    }

    /// Releases a range: exactly one that [`RangeAllocator::allocate`] returned, with what
    /// [`RangeAllocator::extend`] added to it.
    pub(crate) fn release(&self, start: u64, length: u64) {
        let mut free = self.free.lock();
        let mut merged_start = start;
        let mut merged_length = length;
        let before = free.by_start.range(..start).next_back();
        if let Some((&before, &before_length)) = before {
            debug_assert!(before + before_length <= start, "range released twice");
            if before + before_length == start {
                free.remove(before);
                merged_start = before;
                merged_length += before_length;
            }
        }
        if let Some(after_length) = free.remove(start + length) {
            merged_length += after_length;
        }
        free.insert(merged_start, merged_length);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pieces(allocator: &RangeAllocator) -> Vec<(u64, u64)> {
        allocator
            .free
            .lock()
            .by_start
            .iter()
            .map(|(&start, &length)| (start, length))
            .collect()
    }

    #[test]
    fn empty_space_and_empty_request_give_nothing() {
        assert_eq!(RangeAllocator::new(5..5).allocate(1, 1, 0), None);
        assert_eq!(RangeAllocator::new(0..8).allocate(0, 1, 0), None);
        assert_eq!(RangeAllocator::new(0..8).allocate(9, 1, 0), None);
        assert_eq!(RangeAllocator::new(0..8).allocate(u64::MAX, 8, 7), None);
    }

    #[test]
    fn alignment_with_residue() {
        let allocator = RangeAllocator::new(0x1000..0x100_0000);
        let start = allocator.allocate(0x1000, 0x20_0000, 0x5_3000);
        assert_eq!(start, Some(0x5_3000));
        assert_eq!(
            allocator.allocate(0x1000, 0x20_0000, 0x5_3000),
            Some(0x25_3000)
        );
        allocator.release(0x5_3000, 0x1000);
        allocator.release(0x25_3000, 0x1000);
        assert_eq!(pieces(&allocator), [(0x1000, 0xff_f000)]);
    }

    #[test]
    fn a_range_grows_into_the_free_piece_after_it() {
        let allocator = RangeAllocator::new(0..64);
        assert_eq!(allocator.allocate(8, 8, 0), Some(0));
        assert_eq!(allocator.allocate(8, 32, 0), Some(32));
        assert!(!allocator.extend(8, 25), "another range is there");
        assert!(allocator.extend(8, 0));
        assert!(allocator.extend(8, 4));
        assert!(allocator.extend(12, 20));
        assert!(!allocator.extend(32, 1));
        assert!(allocator.extend(32, 0));
        assert_eq!(pieces(&allocator), [(40, 24)]);
        allocator.release(0, 32);
        allocator.release(32, 8);
        assert_eq!(pieces(&allocator), [(0, 64)]);
    }

    /// Goal: the cost of a range does not depend on the number of ranges. Method: ranges longer
    /// than a huge page whose starts are congruent modulo its size, so that none fits into the gaps
    /// between the others; then all are released.
    #[test]
    fn congruent_ranges_cost_the_same_however_many_there_are() {
        const HUGE_PAGE: u64 = 2 << 20;
        const RANGES: u64 = 20_000;
        let length = HUGE_PAGE + 4096;
        let allocator = RangeAllocator::new(4096..1 << 47);
        let mut most = 0;
        let mut allocate = || {
            let before = allocator.free.lock().examined;
            let start = allocator.allocate(length, HUGE_PAGE, 8192);
            most = most.max(allocator.free.lock().examined - before);
            start.expect("the space is large")
        };
        let starts: Vec<u64> = (0..RANGES).map(|_| allocate()).collect();
        for start in starts.iter().step_by(2) {
            allocator.release(*start, length);
        }
        let end = starts.iter().max().expect("some") + length;
        for _ in starts.iter().step_by(2) {
            assert!(allocate() < end, "what was given back is used again");
        }
        assert!(most <= MAX_TRIES as u64 + 1, "{most} pieces examined");
    }

    /// Goal: a range that fits is found, even in the last piece that is examined. Method: only one
    /// of many short pieces has a suitable alignment.
    #[test]
    fn the_only_place_is_found_in_a_space_that_is_used_up() {
        let allocator = RangeAllocator::new(0..64 * 16);
        for _ in 0..64 {
            allocator.allocate(16, 1, 0).expect("room");
        }
        for index in 0..64 {
            let skip = if index == 63 { 0 } else { 1 };
            allocator.release(index * 16 + skip, 9);
        }
        assert_eq!(allocator.allocate(9, 16, 0), Some(63 * 16));
        assert_eq!(allocator.allocate(9, 16, 0), None);
    }

    proptest! {
        #[test]
        fn ranges_never_overlap_and_all_come_back(
            steps in prop::collection::vec((1u64..64, 0u32..6, any::<u64>(), any::<bool>()), 1..200)
        ) {
            let space = 16..1024;
            let allocator = RangeAllocator::new(space.clone());
            let mut held: Vec<(u64, u64)> = Vec::new();
            for (length, log_alignment, random, release) in steps {
                if release && !held.is_empty() {
                    let (start, length) = held.swap_remove(random as usize % held.len());
                    allocator.release(start, length);
                    continue;
                }
                let alignment = 1 << log_alignment;
                if let Some(start) = allocator.allocate(length, alignment, random) {
                    prop_assert_eq!(start % alignment, random % alignment);
                    prop_assert!(start >= space.start && start + length <= space.end);
                    for &(other, other_length) in &held {
                        prop_assert!(start + length <= other || other + other_length <= start);
                    }
                    held.push((start, length));
                }
            }
            for (start, length) in held {
                allocator.release(start, length);
            }
            prop_assert_eq!(pieces(&allocator), [(space.start, space.end - space.start)]);
        }
    }
}
