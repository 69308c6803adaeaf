//! When each queue pair, or CQ, wants to be woken: an indexed binary heap.
//!
//! A timer moves with nearly every packet, mostly to a later time, or is cleared. Then its entry
//! stays where it is, too early, until it comes to the front: only the first entry is always right.
//! There is never more than one entry for a queue pair.

use ferroce_units::Instant;

/// Position of a queue pair without an entry.
const NOWHERE: u32 = u32::MAX;
/// Deadline of a queue pair without a timer.
const NEVER: Instant = Instant::MAX;

/// A timer.
#[derive(Debug, Clone, Copy)]
struct Timer {
    deadline: Instant,
    /// Where its entry stands.
    position: u32,
}

/// Timers of all queue pairs, by index in the QP context table.
#[derive(Debug, Default)]
pub struct Timers {
    /// Entries, none of which is later than the deadline of its timer.
    heap: Vec<(Instant, u32)>,
    timers: Vec<Timer>,
}

impl Timers {
    /// No timers, for `queue_pairs` queue pairs.
    pub fn new(queue_pairs: usize) -> Self {
        let none = Timer {
            deadline: NEVER,
            position: NOWHERE,
        };
        Self {
            heap: Vec::new(),
            timers: vec![none; queue_pairs],
        }
    }

    /// The earliest timer.
    #[inline]
    pub fn next(&self) -> Option<Instant> {
        self.heap.first().map(|(deadline, _)| *deadline)
    }

    /// Whether `index` has a timer.
    #[inline]
    pub fn is_set(&self, index: u32) -> bool {
        self.timers
            .get(index as usize)
            .is_some_and(|timer| timer.deadline != NEVER)
    }

    /// Sets, moves or clears the timer of queue pair `index`.
    #[inline]
    pub fn set(&mut self, index: u32, deadline: Option<Instant>) {
        let deadline = deadline.unwrap_or(NEVER);
        let timer = &mut self.timers[index as usize];
        if timer.deadline != deadline {
            timer.deadline = deadline;
            let at = timer.position;
            self.update(index, at, deadline);
        }
    }

    #[inline]
    fn update(&mut self, index: u32, at: u32, deadline: Instant) {
        match self.heap.get_mut(at as usize) {
            None => {
                self.heap.push((deadline, index));
                self.rise(self.heap.len() - 1);
            }
            Some((entry, _)) if deadline < *entry => {
                *entry = deadline;
                self.rise(at as usize);
            }
            Some(_) if at == 0 => self.correct_first(),
            Some(_) => {}
        }
    }

    /// Takes the index of a queue pair whose timer is due.
    #[inline]
    pub fn pop_due(&mut self, now: Instant) -> Option<u32> {
        let (deadline, index) = *self.heap.first()?;
        if deadline > now {
            return None;
        }
        self.timers[index as usize].deadline = NEVER;
        self.correct_first();
        Some(index)
    }

    /// Moves the entries in front to where they belong, until the first one is right.
    #[inline]
    fn correct_first(&mut self) {
        while let Some((entry, index)) = self.heap.first_mut() {
            let deadline = self.timers[*index as usize].deadline;
            if deadline == NEVER {
                self.remove_first();
            } else if deadline > *entry {
                *entry = deadline;
                self.sink();
            } else {
                return;
            }
        }
    }

    fn remove_first(&mut self) {
        let (_, index) = self.heap.swap_remove(0);
        self.timers[index as usize].position = NOWHERE;
        if !self.heap.is_empty() {
            self.sink();
        }
    }

    /// Brings the entry at `at` up to where it belongs.
    fn rise(&mut self, mut at: usize) {
        let entry = self.heap[at];
        while at > 0 {
            let parent = (at - 1) / 2;
            if self.heap[parent] <= entry {
                break;
            }
            self.place(at, self.heap[parent]);
            at = parent;
        }
        self.place(at, entry);
    }

    /// Brings the first entry down to where it belongs.
    fn sink(&mut self) {
        let mut at = 0;
        let entry = self.heap[at];
        loop {
            let children = 2 * at + 1..(2 * at + 3).min(self.heap.len());
            let Some(least) = children.min_by_key(|child| self.heap[*child]) else {
                break;
            };
            if entry <= self.heap[least] {
                break;
            }
            self.place(at, self.heap[least]);
            at = least;
        }
        self.place(at, entry);
    }

    #[inline]
    fn place(&mut self, at: usize, entry: (Instant, u32)) {
        self.heap[at] = entry;
        self.timers[entry.1 as usize].position = at as u32;
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
