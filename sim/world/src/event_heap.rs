//! The next event of each part of the world, ordered by (time, sequence).

use std::cmp::Ordering;

use ferroce_units::Instant;
use ferroce_units::heap::IndexedHeap;

/// Position of an event in the order of events: by time, then by the order of scheduling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Time.
    pub time: Instant,
    /// Sequence number.
    pub sequence: u64,
}

impl Moment {
    /// Returns both as one number, which is compared without a branch.
    #[inline]
    const fn key(&self) -> u128 {
        (self.time.as_ps() as u128) << u64::BITS | self.sequence as u128
    }
}

impl Ord for Moment {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for Moment {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Numbers events in the order in which they are scheduled.
#[derive(Debug, Default)]
pub struct Sequence(u64);

impl Sequence {
    /// Returns the position of an event at `time` that is scheduled now.
    #[inline]
    pub fn moment(&mut self, time: Instant) -> Moment {
        self.0 += 1;
        Moment {
            time,
            sequence: self.0,
        }
    }
}

/// At most one event for each of a number of parts.
#[derive(Debug, Default)]
pub struct EventHeap(IndexedHeap<Moment>);

impl EventHeap {
    /// Returns a heap without events, for `parts` parts.
    pub fn new(parts: usize) -> Self {
        Self(IndexedHeap::new(parts))
    }

    /// Adds one part.
    pub fn add_part(&mut self) {
        self.0.add_index();
    }

    /// Returns the next event, and its part.
    #[inline]
    pub fn first(&self) -> Option<(Moment, usize)> {
        let (moment, part) = self.0.first()?;
        Some((moment, part as usize))
    }

    /// Orders simultaneous events by `key`, which must differ between `parts`, instead of by the
    /// order in which they were scheduled.
    pub fn order_by<K: Ord>(
        &mut self,
        parts: usize,
        key: impl Fn(usize) -> K,
        sequence: &mut Sequence,
    ) {
        let due = (0..parts).filter_map(|part| Some((self.time_of(part)?, key(part), part)));
        let mut due: Vec<_> = due.collect();
        due.sort_unstable();
        for (time, _, part) in due {
            self.set(part, Some(sequence.moment(time)));
        }
    }

    /// Returns the time of the event of `part`.
    pub fn time_of(&self, part: usize) -> Option<Instant> {
        self.0.get(part as u32).map(|moment| moment.time)
    }

    /// Sets, moves or clears the event of `part`.
    #[inline]
    pub fn set(&mut self, part: usize, moment: Option<Moment>) {
        match moment {
            Some(moment) => self.0.set(part as u32, moment),
            None => self.0.remove(part as u32),
        }
    }

    /// Moves the event of `part` to `moment`, unless it is already earlier.
    #[inline]
    pub fn lower(&mut self, part: usize, moment: Moment) {
        match self.0.get(part as u32) {
            Some(old) if old.time <= moment.time => {}
            _ => self.0.set(part as u32, moment),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_at_the_same_time_can_be_ordered() {
        let (mut heap, mut sequence) = (EventHeap::new(4), Sequence::default());
        for (part, time) in [(2, 5), (0, 5), (1, 4), (3, 5)] {
            heap.set(part, Some(sequence.moment(Instant(time))));
        }
        heap.order_by(4, |part| [7, 0, 9, 1][part], &mut sequence);
        let mut order = Vec::new();
        while let Some((_, part)) = heap.first() {
            heap.set(part, None);
            order.push(part);
        }
        assert_eq!(order, [1, 3, 0, 2]);
    }

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
