//! When each queue pair, or CQ, wants to be woken: an indexed binary heap.
//!
//! A timer moves with nearly every packet, so that entries are changed in place; there is never
//! more than one entry for a queue pair.

use ferroce_transport::Instant;

/// Position of a queue pair without a timer.
const NOWHERE: u32 = u32::MAX;

/// Timers of all queue pairs, by index in the QP context table.
#[derive(Debug, Default)]
pub struct Timers {
    heap: Vec<(Instant, u32)>,
    position: Vec<u32>,
}

impl Timers {
    /// No timers, for `queue_pairs` queue pairs.
    pub fn new(queue_pairs: usize) -> Self {
        Self {
            heap: Vec::new(),
            position: vec![NOWHERE; queue_pairs],
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
        self.position
            .get(index as usize)
            .is_some_and(|at| *at != NOWHERE)
    }

    /// Sets, moves or clears the timer of queue pair `index`.
    #[inline]
    pub fn set(&mut self, index: u32, deadline: Option<Instant>) {
        let position = self.position[index as usize];
        match (position, deadline) {
            (NOWHERE, None) => {}
            (NOWHERE, Some(deadline)) => {
                self.heap.push((deadline, index));
                self.position[index as usize] = self.heap.len() as u32 - 1;
                self.rise(self.heap.len() - 1);
            }
            (at, Some(deadline)) => {
                let old = core::mem::replace(&mut self.heap[at as usize].0, deadline);
                if deadline < old {
                    self.rise(at as usize);
                } else if deadline > old {
                    self.sink(at as usize);
                }
            }
            (at, None) => self.remove(at as usize),
        }
    }

    /// Takes the index of a queue pair whose timer is due.
    #[inline]
    pub fn pop_due(&mut self, now: Instant) -> Option<u32> {
        let (deadline, index) = *self.heap.first()?;
        if deadline > now {
            return None;
        }
        self.remove(0);
        Some(index)
    }

    fn remove(&mut self, at: usize) {
        let (_, index) = self.heap.swap_remove(at);
        self.position[index as usize] = NOWHERE;
        if at < self.heap.len() {
            self.position[self.heap[at].1 as usize] = at as u32;
            self.rise(at);
            self.sink(at);
        }
    }

    fn rise(&mut self, mut at: usize) {
        while at > 0 {
            let parent = (at - 1) / 2;
            if self.heap[parent] <= self.heap[at] {
                break;
            }
            self.swap(at, parent);
            at = parent;
        }
    }

    fn sink(&mut self, mut at: usize) {
        loop {
            let children = 2 * at + 1..(2 * at + 3).min(self.heap.len());
            let Some(least) = children.min_by_key(|child| self.heap[*child]) else {
                break;
            };
            if self.heap[at] <= self.heap[least] {
                break;
            }
            self.swap(at, least);
            at = least;
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.position[self.heap[a].1 as usize] = a as u32;
        self.position[self.heap[b].1 as usize] = b as u32;
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
