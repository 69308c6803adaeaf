//! When each part of the world is to go on: an indexed heap in the order of (time, sequence).

use ferroce_units::{Duration, Instant};

const NOWHERE: u32 = u32::MAX;

/// When something happens; of what happens at the same time, what was asked for first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    /// Time.
    pub time: Instant,
    /// Sequence number.
    pub sequence: u64,
}

/// At most one event for each of a number of parts.
#[derive(Debug, Default)]
pub struct EventHeap {
    heap: Vec<(Moment, u32)>,
    position: Vec<u32>,
}

impl EventHeap {
    /// No events, for `parts` parts.
    pub fn new(parts: usize) -> Self {
        Self {
            heap: Vec::with_capacity(parts),
            position: vec![NOWHERE; parts],
        }
    }

    /// One part more.
    pub fn add_part(&mut self) {
        self.position.push(NOWHERE);
    }

    /// The next event, and whose it is.
    #[inline]
    pub fn first(&self) -> Option<(Moment, usize)> {
        self.heap
            .first()
            .map(|(moment, part)| (*moment, *part as usize))
    }

    /// When `part` has its event.
    pub fn time_of(&self, part: usize) -> Option<Instant> {
        let at = self.position[part];
        self.heap.get(at as usize).map(|(moment, _)| moment.time)
    }

    /// Sets, moves or clears the event of `part`.
    #[inline]
    pub fn set(&mut self, part: usize, moment: Option<Moment>) {
        let at = self.position[part];
        match (at, moment) {
            (NOWHERE, None) => {}
            (NOWHERE, Some(moment)) => {
                self.heap.push((moment, part as u32));
                self.rise(self.heap.len() - 1);
            }
            (at, Some(moment)) => {
                let at = at as usize;
                let old = std::mem::replace(&mut self.heap[at].0, moment);
                if moment < old {
                    self.rise(at);
                } else {
                    self.sink(at);
                }
            }
            (at, None) => self.remove(at as usize),
        }
    }

    /// Moves the event of `part` to `moment`, unless it is earlier already.
    #[inline]
    pub fn lower(&mut self, part: usize, moment: Moment) {
        let at = self.position[part];
        match self.heap.get(at as usize) {
            Some((old, _)) if old.time <= moment.time => {}
            _ => self.set(part, Some(moment)),
        }
    }

    /// Moves all events to a time that is so much earlier.
    pub fn bring_forward(&mut self, by: Duration) {
        // Their order stays as it is.
        for (moment, _) in &mut self.heap {
            moment.time = moment.time - by;
        }
    }

    fn remove(&mut self, at: usize) {
        let (_, part) = self.heap.swap_remove(at);
        self.position[part as usize] = NOWHERE;
        if at < self.heap.len() {
            self.rise(at);
            self.sink(at);
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

    /// Brings the entry at `at` down to where it belongs.
    fn sink(&mut self, mut at: usize) {
        let entry = self.heap[at];
        let length = self.heap.len();
        loop {
            let mut child = 2 * at + 1;
            if child >= length {
                break;
            }
            if child + 1 < length && self.heap[child + 1] < self.heap[child] {
                child += 1;
            }
            if entry <= self.heap[child] {
                break;
            }
            self.place(at, self.heap[child]);
            at = child;
        }
        self.place(at, entry);
    }

    #[inline]
    fn place(&mut self, at: usize, entry: (Moment, u32)) {
        self.heap[at] = entry;
        self.position[entry.1 as usize] = at as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_order_after_any_changes() {
        const PARTS: usize = 40;
        let mut heap = EventHeap::new(PARTS - 1);
        heap.add_part();
        let mut expected: Vec<Option<Moment>> = vec![None; PARTS];
        let mut state = 12345u64;
        for sequence in 0..20_000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let part = (state >> 33) as usize % PARTS;
            let time = Instant(state >> 20 & 0x3f);
            let moment = Moment { time, sequence };
            match state >> 60 {
                0..=2 => {
                    heap.set(part, None);
                    expected[part] = None;
                }
                3..=7 => {
                    heap.lower(part, moment);
                    if expected[part].is_none_or(|old| old.time > time) {
                        expected[part] = Some(moment);
                    }
                }
                _ => {
                    heap.set(part, Some(moment));
                    expected[part] = Some(moment);
                }
            }
            let first = expected
                .iter()
                .enumerate()
                .filter_map(|(part, moment)| moment.map(|moment| (moment, part)))
                .min();
            assert_eq!(heap.first(), first);
            assert_eq!(heap.time_of(part), expected[part].map(|m| m.time));
        }
    }
}
