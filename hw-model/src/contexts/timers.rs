//! Timers of queue pairs and CQs.
//!
//! Nearly every packet moves a timer, mostly to a later time, or clears it. Its entry in the heap
//! then stays too early until it becomes the first: only the first entry is always right.

use ferroce_units::Instant;
use ferroce_units::heap::IndexedHeap;

/// Deadline of a queue pair without a timer.
const NEVER: Instant = Instant::MAX;

/// Timers of all queue pairs, by index in the QP context table.
#[derive(Debug, Default)]
pub struct Timers {
    /// Heap of entries, each at or before its deadline.
    heap: IndexedHeap<Instant>,
    deadlines: Vec<Instant>,
}

impl Timers {
    /// Returns cleared timers for `queue_pairs` queue pairs.
    pub fn new(queue_pairs: usize) -> Self {
        Self {
            heap: IndexedHeap::new(queue_pairs),
            deadlines: vec![NEVER; queue_pairs],
        }
    }

    /// Returns the earliest deadline.
    #[inline]
    pub fn next(&self) -> Option<Instant> {
        self.heap.first().map(|(deadline, _)| deadline)
    }

    /// Returns true if `index` has a timer.
    #[inline]
    pub fn is_set(&self, index: u32) -> bool {
        let deadline = self.deadlines.get(index as usize);
        deadline.is_some_and(|deadline| *deadline != NEVER)
    }

    /// Sets, moves or clears the timer of queue pair `index`.
    #[inline]
    pub fn set(&mut self, index: u32, deadline: Option<Instant>) {
        let deadline = deadline.unwrap_or(NEVER);
        let present = &mut self.deadlines[index as usize];
        if *present != deadline {
            *present = deadline;
            match self.heap.get(index) {
                Some(entry) if deadline >= entry => self.correct_first(),
                _ => self.heap.set(index, deadline),
            }
        }
    }

    /// Takes the index of a queue pair whose timer has expired.
    #[inline]
    pub fn pop_due(&mut self, now: Instant) -> Option<u32> {
        let (deadline, index) = self.heap.first()?;
        if deadline > now {
            return None;
        }
        self.deadlines[index as usize] = NEVER;
        self.correct_first();
        Some(index)
    }

    /// Moves entries at the front to their deadlines until the first entry is right.
    #[inline]
    fn correct_first(&mut self) {
        while let Some((entry, index)) = self.heap.first() {
            let deadline = self.deadlines[index as usize];
            if deadline == NEVER {
                self.heap.remove(index);
            } else if deadline > entry {
                self.heap.set(index, deadline);
            } else {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pops_in_order_of_time_after_any_changes() {
        const COUNT: u32 = 50;
        let mut timers = Timers::new(COUNT as usize);
        let mut expected = vec![None; COUNT as usize];
        let mut state = 12345u64;
        for _ in 0..5_000 {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let index = (state >> 33) as u32 % COUNT;
            let deadline = (state >> 20) % 1000;
            let value = (deadline % 5 != 0).then_some(Instant(deadline));
            timers.set(index, value);
            expected[index as usize] = value;
            assert_eq!(timers.next(), expected.iter().flatten().min().copied());
            assert_eq!(timers.is_set(index), value.is_some());
        }
        let mut left: Vec<_> = (0..COUNT)
            .filter_map(|i| expected[i as usize].map(|t| (t, i)))
            .collect();
        left.sort_unstable();
        assert_eq!(timers.next(), left.first().map(|(t, _)| *t));
        let mut popped = Vec::new();
        while let Some(index) = timers.pop_due(Instant(500)) {
            popped.push((expected[index as usize].expect("it was set"), index));
        }
        left.retain(|(t, _)| *t <= Instant(500));
        assert_eq!(popped, left);
    }
}
