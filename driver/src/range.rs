//! Allocator of number ranges: IOVAs, MTT entries.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::Range;

/// Hands out ranges of a space of numbers, first fit. Thread-safe.
///
/// The number of free pieces, and with it the memory used, is at most the number of ranges
/// handed out plus one.
#[derive(Debug)]
pub(crate) struct RangeAllocator {
    /// Start and length of each free piece; pieces never touch each other.
    free: Mutex<BTreeMap<u64, u64>>,
}

impl RangeAllocator {
    pub(crate) fn new(space: Range<u64>) -> Self {
        let mut free = BTreeMap::new();
        if space.start < space.end {
            free.insert(space.start, space.end - space.start);
        }
        Self {
            free: Mutex::new(free),
        }
    }

    /// A range of `length` numbers whose start leaves `residue` when divided by `alignment`, a
    /// power of two. `None` when there is none, or `length` is zero.
    pub(crate) fn allocate(&self, length: u64, alignment: u64, residue: u64) -> Option<u64> {
        assert!(alignment.is_power_of_two(), "own call with a bad alignment");
        if length == 0 {
            return None;
        }
        let residue = residue & (alignment - 1);
        let mut free = self.free.lock();
        let (piece, piece_length, start) = free.iter().find_map(|(&piece, &piece_length)| {
            let skip = residue.wrapping_sub(piece) & (alignment - 1);
            let fits = skip.checked_add(length)? <= piece_length;
            fits.then(|| (piece, piece_length, piece + skip))
        })?;
        free.remove(&piece);
        if start > piece {
            free.insert(piece, start - piece);
        }
        let rest = piece_length - (start - piece) - length;
        if rest > 0 {
            free.insert(start + length, rest);
        }
        Some(start)
    }

    /// Gives a range back: exactly one that [`RangeAllocator::allocate`] returned.
    pub(crate) fn release(&self, start: u64, length: u64) {
        let mut free = self.free.lock();
        let mut merged_start = start;
        let mut merged_length = length;
        if let Some((&before, &before_length)) = free.range(..start).next_back() {
            debug_assert!(before + before_length <= start, "range released twice");
            if before + before_length == start {
                free.remove(&before);
                merged_start = before;
                merged_length += before_length;
            }
        }
        if let Some(after_length) = free.remove(&(start + length)) {
            merged_length += after_length;
        }
        free.insert(merged_start, merged_length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pieces(allocator: &RangeAllocator) -> Vec<(u64, u64)> {
        allocator
            .free
            .lock()
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
