//! A queue of items that are known in advance, ordered by time.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use ferroce_units::Instant;

/// An item and its time.
#[derive(Debug)]
struct Due<T> {
    time: Instant,
    sequence: u64,
    item: T,
}

impl<T> PartialEq for Due<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for Due<T> {}

impl<T> PartialOrd for Due<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Due<T> {
    /// Orders the earliest item as the greatest, for [`BinaryHeap`].
    fn cmp(&self, other: &Self) -> Ordering {
        (other.time, other.sequence).cmp(&(self.time, self.sequence))
    }
}

/// Items by time; items with equal times in the order in which they were added.
#[derive(Debug)]
pub struct Agenda<T> {
    due: BinaryHeap<Due<T>>,
    sequence: u64,
}

impl<T> Default for Agenda<T> {
    fn default() -> Self {
        Self {
            due: BinaryHeap::new(),
            sequence: 0,
        }
    }
}

impl<T> Agenda<T> {
    /// Adds `item`, due at `time`.
    pub fn add(&mut self, time: Instant, item: T) {
        self.sequence += 1;
        let sequence = self.sequence;
        self.due.push(Due {
            time,
            sequence,
            item,
        });
    }

    /// Takes the next item that is due before `time`.
    pub fn next_before(&mut self, time: Instant) -> Option<(Instant, T)> {
        if self.due.peek()?.time >= time {
            return None;
        }
        self.due.pop().map(|due| (due.time, due.item))
    }

    /// Takes the next item.
    pub fn take_next(&mut self) -> Option<(Instant, T)> {
        self.due.pop().map(|due| (due.time, due.item))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_back_in_the_order_of_time_and_of_arrival() {
        let mut agenda = Agenda::default();
        for (time, item) in [(5, 'c'), (3, 'a'), (5, 'd'), (4, 'b'), (9, 'e')] {
            agenda.add(Instant(time), item);
        }
        let before: String =
            std::iter::from_fn(|| agenda.next_before(Instant(9)).map(|(_, item)| item)).collect();
        assert_eq!(before, "abcd");
        assert_eq!(agenda.take_next(), Some((Instant(9), 'e')));
    }
}
