//! The memory that the card may write.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum number of ranges. With more, all memory counts as written by the card.
const MAX_RANGES: usize = 4096;

/// Ranges of memory; none is ever removed.
#[derive(Debug)]
pub struct CardMemory {
    /// Starts and ends; an end of zero: not yet written.
    ranges: [[AtomicUsize; 2]; MAX_RANGES],
    count: AtomicUsize,
}

/// The ranges of this program.
pub static CARD_MEMORY: CardMemory = CardMemory::new();

impl CardMemory {
    /// Creates an empty set.
    pub const fn new() -> Self {
        Self {
            ranges: [const { [const { AtomicUsize::new(0) }; 2] }; MAX_RANGES],
            count: AtomicUsize::new(0),
        }
    }

    fn known(&self) -> impl Iterator<Item = Range<usize>> {
        let count = self.count.load(Ordering::Acquire).min(MAX_RANGES);
        self.ranges[..count].iter().map(|[start, end]| {
            let end = end.load(Ordering::Acquire);
            start.load(Ordering::Relaxed)..end
        })
    }

    /// Adds a range.
    pub fn add(&self, start: usize, length: usize) {
        let end = start.saturating_add(length);
        if self
            .known()
            .any(|known| known.start <= start && end <= known.end)
        {
            return;
        }
        let place = self.count.fetch_add(1, Ordering::AcqRel);
        if let Some([first, last]) = self.ranges.get(place) {
            first.store(start, Ordering::Relaxed);
            last.store(end, Ordering::Release);
        }
    }

    /// Returns true if the card may write to memory that has several addresses: a range of all
    /// addresses was added. Then the card and the program may use different addresses for one byte.
    pub fn has_other_addresses(&self) -> bool {
        self.known().any(|known| known == (0..usize::MAX))
    }

    /// Returns true if the card may write to any of these addresses, or if no range is known.
    pub fn touches(&self, addresses: &Range<u64>) -> bool {
        let count = self.count.load(Ordering::Acquire);
        let is_in = |known: Range<usize>| {
            (known.start as u64) < addresses.end && addresses.start < known.end as u64
        };
        count == 0 || count > MAX_RANGES || self.known().any(is_in)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_is_found() {
        let memory = Box::new(CardMemory::new());
        assert!(memory.touches(&(0..1)), "nothing is known");
        memory.add(0x1000, 0x1000);
        memory.add(0x1800, 0x800);
        memory.add(0x8000, 1);
        assert_eq!(memory.count.load(Ordering::Relaxed), 2);
        assert!(memory.touches(&(0xfff..0x1001)));
        assert!(!memory.touches(&(0xff8..0x1000)));
        assert!(!memory.touches(&(0x2000..0x2008)));
        assert!(memory.touches(&(0x8000..0x8004)));
        for number in 0..MAX_RANGES {
            memory.add(0x10_0000 + 0x10 * number, 1);
        }
        assert!(memory.touches(&(0x2000..0x2008)), "too many");
    }
}
