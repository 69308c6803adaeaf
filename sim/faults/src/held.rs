//! Frames that are delayed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ferroce_units::Instant;

/// Maximum number of delayed frames: more than 10 ms of 4096-byte frames at 100 Gb/s.
pub const MAX_HELD: usize = 1 << 15;

/// A frame, ordered by its time; frames with equal times stay in order.
#[derive(Debug)]
struct Entry<F> {
    key: (Instant, u64),
    frame: F,
}

impl<F> PartialEq for Entry<F> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<F> Eq for Entry<F> {}

impl<F> PartialOrd for Entry<F> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<F> Ord for Entry<F> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}

/// Delayed frames.
#[derive(Debug)]
pub struct Held<F> {
    frames: BinaryHeap<Reverse<Entry<F>>>,
    sequence: u64,
}

impl<F> Default for Held<F> {
    fn default() -> Self {
        Self {
            frames: BinaryHeap::new(),
            sequence: 0,
        }
    }
}

impl<F> Held<F> {
    /// Delays a frame until `due`. Returns it if too many are delayed.
    ///
    /// # Errors
    /// The frame.
    pub fn push(&mut self, due: Instant, frame: F) -> Result<(), F> {
        if self.frames.len() >= MAX_HELD {
            return Err(frame);
        }
        self.sequence += 1;
        let key = (due, self.sequence);
        self.frames.push(Reverse(Entry { key, frame }));
        Ok(())
    }

    /// Takes the next frame that is due.
    #[inline]
    pub fn pop(&mut self, now: Instant) -> Option<F> {
        if self.next()? > now {
            return None;
        }
        self.frames.pop().map(|Reverse(entry)| entry.frame)
    }

    /// Returns when the next frame is due.
    #[inline]
    #[must_use]
    pub fn next(&self) -> Option<Instant> {
        self.frames.peek().map(|Reverse(entry)| entry.key.0)
    }

    /// Returns the number of delayed frames.
    #[must_use]
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Returns true if no frame is delayed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_at_their_time_and_in_order() {
        let mut held = Held::default();
        for (due, frame) in [(30, 'c'), (10, 'a'), (10, 'b')] {
            held.push(Instant::from_ns(due), frame).expect("room");
        }
        assert_eq!(held.next(), Some(Instant::from_ns(10)));
        assert_eq!(held.pop(Instant::from_ns(9)), None);
        let taken: Vec<_> = std::iter::from_fn(|| held.pop(Instant::from_ns(20))).collect();
        assert_eq!(taken, ['a', 'b']);
        assert_eq!(held.pop(Instant::from_ns(30)), Some('c'));
        assert!(held.is_empty());
    }

    #[test]
    fn no_more_than_the_limit_are_held() {
        let mut held = Held::default();
        for frame in 0..MAX_HELD {
            held.push(Instant::ZERO, frame).expect("room");
        }
        assert_eq!(held.push(Instant::ZERO, 0), Err(0));
        assert_eq!(held.len(), MAX_HELD);
    }
}
