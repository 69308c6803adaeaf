//! The edge between two blocks: a bounded FIFO with delayed delivery and back-pressure.

use std::collections::VecDeque;

use ferroce_units::Instant;

/// Items for which an edge initially has memory: few, because a ring sweeps all of its memory.
const FIRST_CAPACITY: usize = 4;

/// A bounded queue of items, each with its delivery time.
///
/// Items leave in the order of delivery time, and in FIFO order if the times are equal: an item
/// that waits for host memory does not hold back later items.
#[derive(Debug)]
pub struct Edge<T> {
    capacity: usize,
    items: VecDeque<(Instant, T)>,
}

impl<T> Edge<T> {
    /// Returns an empty edge for at most `capacity` items.
    ///
    /// It allocates memory on demand: a ring with room for thousands of items but few items in it
    /// would sweep the processor's cache.
    pub fn new(capacity: usize) -> Self {
        let items = VecDeque::with_capacity(capacity.min(FIRST_CAPACITY));
        Self { capacity, items }
    }

    /// Returns the maximum number of items.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Returns the number of items.
    #[inline]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns true if the producer must wait: back-pressure.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.items.len() >= self.capacity
    }

    /// Returns true if it holds no item.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Sends `item`, which is delivered at `ready`.
    ///
    /// The caller has checked [`Edge::is_full`]; an excess item is a bug of the model.
    #[inline]
    pub fn push(&mut self, ready: Instant, item: T) {
        debug_assert!(!self.is_full(), "an edge overflows");
        match self.items.back() {
            Some((last, _)) if *last > ready => self.insert(ready, item),
            _ => self.items.push_back((ready, item)),
        }
    }

    #[cold]
    fn insert(&mut self, ready: Instant, item: T) {
        let position = self.items.partition_point(|(other, _)| *other <= ready);
        self.items.insert(position, (ready, item));
    }

    /// Takes the next item that has been delivered by `now`.
    #[inline]
    pub fn pop(&mut self, now: Instant) -> Option<T> {
        match self.items.front() {
            Some((ready, _)) if *ready <= now => self.items.pop_front().map(|(_, item)| item),
            _ => None,
        }
    }

    /// Takes the next item, even if it is not delivered yet, and returns its delivery time: the
    /// consumer can plan its work.
    #[inline]
    pub fn pop_ahead(&mut self) -> Option<(Instant, T)> {
        self.items.pop_front()
    }

    /// As [`Edge::pop_ahead`], if the item is delivered by `until`.
    #[inline]
    pub fn pop_until(&mut self, until: Instant) -> Option<(Instant, T)> {
        match self.items.front() {
            Some((ready, _)) if *ready <= until => self.items.pop_front(),
            _ => None,
        }
    }

    /// As [`Edge::pop_until`], but takes the first item that the consumer accepts, past others.
    /// Without one, the error is the time at which one will be delivered.
    pub fn pop_past(
        &mut self,
        until: Instant,
        takes: impl Fn(&T) -> bool,
    ) -> Result<(Instant, T), Option<Instant>> {
        let place = self.items.iter().position(|(_, item)| takes(item));
        let place = place.ok_or(None)?;
        match self.items.get(place) {
            Some((ready, _)) if *ready > until => Err(Some(*ready)),
            _ => self.items.remove(place).ok_or(None),
        }
    }

    /// As [`Edge::pop`], but leaves an item that `takes` refuses: back-pressure of the consumer.
    #[inline]
    pub fn pop_if(&mut self, now: Instant, takes: impl FnOnce(&T) -> bool) -> Option<T> {
        match self.items.front() {
            Some((ready, item)) if *ready <= now && takes(item) => self.pop(now),
            _ => None,
        }
    }

    /// Returns true if less than half of the room is left.
    #[inline]
    pub fn is_nearly_full(&self) -> bool {
        2 * self.items.len() >= self.capacity
    }

    /// Calls `change` for each item.
    pub fn for_each_mut(&mut self, mut change: impl FnMut(&mut T)) {
        self.items.iter_mut().for_each(|(_, item)| change(item));
    }

    /// Drops the items for which `keep` returns false.
    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        self.items.retain(|(_, item)| keep(item));
    }

    /// Returns the time of the next delivery.
    #[inline]
    pub fn next_delivery(&self) -> Option<Instant> {
        self.items.front().map(|(ready, _)| *ready)
    }

    /// Returns the next item without taking it.
    #[inline]
    pub fn front(&self) -> Option<&T> {
        self.items.front().map(|(_, item)| item)
    }

    /// As [`Edge::next_delivery`], unless the consumer refuses the next item.
    #[inline]
    pub fn next_delivery_if(&self, takes: impl FnOnce(&T) -> bool) -> Option<Instant> {
        let (ready, item) = self.items.front()?;
        takes(item).then_some(*ready)
    }

    /// Drops all items (reset), passing them to `dispose`.
    pub fn clear(&mut self, mut dispose: impl FnMut(T)) {
        self.items.drain(..).for_each(|(_, item)| dispose(item));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delivers_in_order_and_pushes_back() {
        let mut edge = Edge::new(2);
        let now = Instant(5);
        edge.push(now, 'a');
        assert!(!edge.is_full());
        edge.push(now, 'b');
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

    #[test]
    fn an_item_that_is_ready_overtakes_one_that_waits_for_host_memory() {
        let mut edge = Edge::new(8);
        for (ready, item) in [(3, 'a'), (9, 'b'), (3, 'c'), (4, 'd'), (9, 'e')] {
            edge.push(Instant(ready), item);
        }
        assert_eq!(edge.next_delivery(), Some(Instant(3)));
        let order: String = std::iter::from_fn(|| edge.pop(Instant(4))).collect();
        assert_eq!(order, "acd");
        assert_eq!(edge.pop_ahead(), Some((Instant(9), 'b')));
        assert_eq!(edge.pop_ahead(), Some((Instant(9), 'e')));
    }
}
