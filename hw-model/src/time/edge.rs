//! The edge between two blocks: a bounded FIFO that delivers later and pushes back.

use std::collections::VecDeque;

use ferroce_units::Instant;

/// Items for which an edge has memory from the beginning: few, because a ring goes around in all of
/// its memory.
const FIRST_CAPACITY: usize = 4;

/// A bounded queue of items, each with the instant at which it is delivered.
///
/// Items leave in the order of that instant, and those of the same instant in the order in which
/// they came: an item that waits for host memory does not hold back those behind it.
#[derive(Debug)]
pub struct Edge<T> {
    capacity: usize,
    items: VecDeque<(Instant, T)>,
}

impl<T> Edge<T> {
    /// An empty edge for at most `capacity` items.
    ///
    /// It takes memory as it needs: a ring with room for thousands of items that holds a few would
    /// sweep the processor's cache.
    pub fn new(capacity: usize) -> Self {
        let items = VecDeque::with_capacity(capacity.min(FIRST_CAPACITY));
        Self { capacity, items }
    }

    /// Items that it holds at most.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Items that it holds.
    #[inline]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns true if the block in front must wait: back-pressure.
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
    /// The caller has looked at [`Edge::is_full`]; an item too many is a fault of the model.
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

    /// Takes the next item, even if it is still on the way, and says when it will be there: the
    /// block behind knows how to plan its work.
    #[inline]
    pub fn pop_ahead(&mut self) -> Option<(Instant, T)> {
        self.items.pop_front()
    }

    /// As [`Edge::pop_ahead`], if the item will be there by `until`.
    #[inline]
    pub fn pop_until(&mut self, until: Instant) -> Option<(Instant, T)> {
        match self.items.front() {
            Some((ready, _)) if *ready <= until => self.items.pop_front(),
            _ => None,
        }
    }

    /// As [`Edge::pop_until`], but the first item that the block behind takes, past those that it
    /// does not. Without one, the error is the time at which one will be there.
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

    /// As [`Edge::pop`], but leaves an item that `takes` refuses: the block behind pushes back.
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

    /// Changes all items.
    pub fn for_each_mut(&mut self, mut change: impl FnMut(&mut T)) {
        self.items.iter_mut().for_each(|(_, item)| change(item));
    }

    /// Forgets the items that `keep` does not want.
    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        self.items.retain(|(_, item)| keep(item));
    }

    /// Returns the time of the next delivery.
    #[inline]
    pub fn next_delivery(&self) -> Option<Instant> {
        self.items.front().map(|(ready, _)| *ready)
    }

    /// The next item, which stays where it is.
    #[inline]
    pub fn front(&self) -> Option<&T> {
        self.items.front().map(|(_, item)| item)
    }

    /// As [`Edge::next_delivery`], unless the block behind refuses the next item.
    #[inline]
    pub fn next_delivery_if(&self, takes: impl FnOnce(&T) -> bool) -> Option<Instant> {
        let (ready, item) = self.items.front()?;
        takes(item).then_some(*ready)
    }

    /// Forgets everything (reset), giving the items to `dispose`.
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
