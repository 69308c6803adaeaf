//! The edge between two blocks: a bounded FIFO that delivers later and pushes back.

use crate::timing::{EdgeName, Timing, Work};
use ferroce_transport::Instant;
use std::collections::VecDeque;

/// A bounded FIFO. Time is charged here and nowhere else.
#[derive(Debug)]
pub struct Edge<T> {
    name: EdgeName,
    capacity: usize,
    items: VecDeque<(Instant, T)>,
    busy_until: Instant,
}

impl<T> Edge<T> {
    /// An empty edge for at most `capacity` items.
    pub fn new(name: EdgeName, capacity: usize) -> Self {
        Self {
            name,
            capacity,
            items: VecDeque::with_capacity(capacity),
            busy_until: Instant(0),
        }
    }

    /// Items that it holds at most.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Whether the block in front must wait: back-pressure.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.items.len() >= self.capacity
    }

    /// Whether nothing is on the way.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Sends `item`, for which the block in front did `work`.
    ///
    /// The caller has looked at [`Edge::is_full`]; an item too many is a fault of the model.
    #[inline]
    pub fn push(&mut self, now: Instant, timing: &Timing, work: &Work, item: T) {
        debug_assert!(!self.is_full(), "{:?} overflows", self.name);
        let cost = timing.cost(self.name, work);
        let start = now.max(self.busy_until);
        self.busy_until = start + cost.occupancy;
        self.items.push_back((start + cost.latency, item));
    }

    /// Takes the next item that has been delivered by `now`.
    #[inline]
    pub fn pop(&mut self, now: Instant) -> Option<T> {
        match self.items.front() {
            Some((ready, _)) if *ready <= now => self.items.pop_front().map(|(_, item)| item),
            _ => None,
        }
    }

    /// As [`Edge::pop`], but leaves an item that `takes` refuses: the block behind pushes back.
    #[inline]
    pub fn pop_if(&mut self, now: Instant, takes: impl FnOnce(&T) -> bool) -> Option<T> {
        match self.items.front() {
            Some((ready, item)) if *ready <= now && takes(item) => self.pop(now),
            _ => None,
        }
    }

    /// Whether less than half of the room is left.
    #[inline]
    pub fn is_nearly_full(&self) -> bool {
        2 * self.items.len() >= self.capacity
    }

    /// Forgets the items that `keep` does not want.
    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        self.items.retain(|(_, item)| keep(item));
    }

    /// When the next item will be delivered.
    pub fn next_delivery(&self) -> Option<Instant> {
        self.items.front().map(|(ready, _)| *ready)
    }

    /// Forgets everything (reset), giving the items to `dispose`.
    pub fn clear(&mut self, mut dispose: impl FnMut(T)) {
        self.busy_until = Instant(0);
        self.items.drain(..).for_each(|(_, item)| dispose(item));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delivers_in_order_and_pushes_back() {
        let mut edge = Edge::new(EdgeName::Doorbell, 2);
        let (now, timing, work) = (Instant(5), Timing::Functional, Work::default());
        edge.push(now, &timing, &work, 'a');
        assert!(!edge.is_full());
        edge.push(now, &timing, &work, 'b');
        assert!(edge.is_full());
        assert_eq!(
            edge.pop(Instant(4)),
            None,
            "not delivered before it was sent"
        );
        assert_eq!(edge.pop(now), Some('a'));
        assert_eq!(edge.pop(now), Some('b'));
        assert_eq!(edge.pop(now), None);
    }
}
