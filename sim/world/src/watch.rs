//! Polling threads of a host, and when their polls find something.

use std::ops::Range;

use ferroce_units::{Duration, Instant};

use super::device_clock::DeviceClock;
use super::posted::{Kind, PostedWrites};
use super::thread::Watch;

/// The polling grid of a thread, in world time.
#[derive(Debug, Clone)]
pub struct Turns {
    /// The first poll.
    pub not_before: Instant,
    /// Period of polls.
    pub grid: Duration,
    /// The watched memory.
    pub watch: Watch,
}

impl Turns {
    /// Returns the first poll that is not before `at`.
    pub fn first_from(&self, at: Instant) -> Instant {
        let wait = at.saturating_since(self.not_before).as_ps();
        let grid = self.grid.as_ps().max(1);
        self.not_before + Duration::from_ps(wait.div_ceil(grid) * grid)
    }
}

/// A thread that polls, or has polled.
#[derive(Debug)]
struct Watcher {
    thread: usize,
    turns: Turns,
    /// When the first write to the watched memory becomes visible, in device time.
    write: Instant,
    is_waiting: bool,
}

impl Watcher {
    #[inline]
    fn sees(&self, kind: Kind, range: &Range<usize>) -> bool {
        match &self.turns.watch {
            Watch::Completions => kind == Kind::Descriptor,
            Watch::Memory(own) => range.start < own.end && own.start < range.end,
            Watch::Everything => true,
        }
    }

    /// Returns the poll that finds the write.
    fn wakes_at(&self, clock: DeviceClock) -> Option<Instant> {
        if self.write == Instant::MAX {
            return None;
        }
        Some(self.turns.first_from(clock.to_world(self.write)))
    }
}

/// An entry of the index: memory that a thread watches.
#[derive(Debug, Clone, Copy)]
struct Watched {
    start: usize,
    end: usize,
    /// The largest `end` up to this entry.
    reach: usize,
    watcher: usize,
}

/// The polling threads of a host.
#[derive(Debug, Default)]
pub struct Watchers {
    watchers: Vec<Watcher>,
    /// Watchers of memory, by its address.
    index: Vec<Watched>,
    /// Watchers of more than one range.
    others: Vec<usize>,
    /// Watchers with an earlier write since the last [`Watchers::take_changes`].
    changed: Vec<usize>,
}

impl Watchers {
    /// Adds a thread that polls from now on; it finds writes that become visible after `now`, a
    /// device time. Returns the earliest known world time at which it wakes.
    pub fn add(
        &mut self,
        thread: usize,
        turns: Turns,
        now: Instant,
        clock: DeviceClock,
        posted: &PostedWrites,
    ) -> Option<Instant> {
        let place = self.place_of(thread, &turns);
        let watcher = &mut self.watchers[place];
        watcher.turns = turns;
        watcher.is_waiting = true;
        let seen = posted
            .after(now)
            .find(|(_, kind, range)| watcher.sees(*kind, range));
        watcher.write = seen.map_or(Instant::MAX, |(visible, ..)| visible);
        watcher.wakes_at(clock)
    }

    /// Returns the position of the thread in the list, and updates the index if it watches other
    /// memory than before, which is rare.
    fn place_of(&mut self, thread: usize, turns: &Turns) -> usize {
        let known = self.watchers.iter().position(|w| w.thread == thread);
        if let Some(place) = known {
            if self.watchers[place].turns.watch != turns.watch {
                self.watchers[place].turns = turns.clone();
                self.build_index();
            }
            return place;
        }
        self.watchers.push(Watcher {
            thread,
            turns: turns.clone(),
            write: Instant::MAX,
            is_waiting: false,
        });
        self.build_index();
        self.watchers.len() - 1
    }

    /// Suspends the polling of a thread.
    #[inline]
    pub fn suspend(&mut self, thread: usize) {
        if let Some(watcher) = self.watchers.iter_mut().find(|w| w.thread == thread) {
            watcher.is_waiting = false;
        }
    }

    /// Returns true if a waiting thread watches any part of this memory by its address.
    pub fn watches(&self, address: usize, length: usize) -> bool {
        let is_seen = |watched: &Watched| {
            watched.start < address + length
                && address < watched.end
                && self.watchers[watched.watcher].is_waiting
        };
        self.index.iter().any(is_seen)
    }

    /// Removes a thread that has ended.
    pub fn remove(&mut self, thread: usize) {
        self.watchers.retain(|watcher| watcher.thread != thread);
        self.changed.clear();
        self.build_index();
    }

    fn build_index(&mut self) {
        self.index.clear();
        self.others.clear();
        for (place, watcher) in self.watchers.iter().enumerate() {
            match &watcher.turns.watch {
                Watch::Memory(range) => self.index.push(Watched {
                    start: range.start,
                    end: range.end,
                    reach: range.end,
                    watcher: place,
                }),
                _ => self.others.push(place),
            }
        }
        self.index.sort_unstable_by_key(|watched| watched.start);
        let mut reach = 0;
        for watched in &mut self.index {
            reach = reach.max(watched.end);
            watched.reach = reach;
        }
    }

    /// Notifies the watchers of a write that will become visible.
    #[inline]
    pub fn note(&mut self, visible: Instant, kind: Kind, address: usize, length: usize) {
        let range = address..address + length;
        for place in 0..self.others.len() {
            self.notify(self.others[place], visible, kind, &range);
        }
        let end = self.index.partition_point(|w| w.start < range.end);
        for place in (0..end).rev() {
            let watched = self.index[place];
            if watched.reach <= range.start {
                break;
            }
            self.notify(watched.watcher, visible, kind, &range);
        }
    }

    #[inline]
    fn notify(&mut self, place: usize, visible: Instant, kind: Kind, range: &Range<usize>) {
        let watcher = &mut self.watchers[place];
        if watcher.is_waiting && visible < watcher.write && watcher.sees(kind, range) {
            watcher.write = visible;
            self.changed.push(place);
        }
    }

    /// Calls `wake` for the threads with an earlier write than at the last call, with their wake-up
    /// time in world time.
    #[inline]
    pub fn take_changes(&mut self, clock: DeviceClock, mut wake: impl FnMut(usize, Instant)) {
        for place in self.changed.drain(..) {
            let watcher = &self.watchers[place];
            if let Some(at) = watcher.wakes_at(clock) {
                wake(watcher.thread, at);
            }
        }
    }

    /// Returns the polling grid of a thread.
    pub fn turns_of(&self, thread: usize) -> Option<&Turns> {
        let watcher = self.watchers.iter().find(|w| w.thread == thread);
        watcher.map(|watcher| &watcher.turns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: DeviceClock = DeviceClock::NEW;

    fn turns(not_before: u64, grid: u64, watch: Watch) -> Turns {
        Turns {
            not_before: Instant(not_before),
            grid: Duration(grid),
            watch,
        }
    }

    fn wakes(grid: u64, write: u64) -> u64 {
        let watcher = Watcher {
            thread: 0,
            turns: turns(100, grid, Watch::Completions),
            write: Instant(write),
            is_waiting: true,
        };
        let wakes_at = watcher.wakes_at(NEW);
        wakes_at.expect("there is a write").as_ps()
    }

    #[test]
    fn a_poll_finds_what_is_visible_when_it_is_made() {
        assert_eq!(wakes(20, 90), 100);
        assert_eq!(wakes(20, 100), 100);
        assert_eq!(wakes(20, 101), 120);
        assert_eq!(wakes(20, 120), 120);
        assert_eq!(wakes(20, 121), 140);
        assert_eq!(wakes(0, 121), 121, "it looks all the time");
    }

    fn woken(watchers: &mut Watchers) -> Vec<(usize, u64)> {
        let mut woken = Vec::new();
        watchers.take_changes(NEW, |thread, at| {
            woken.push((thread, at.as_ps()));
        });
        woken.sort_unstable();
        woken
    }

    #[test]
    fn each_sees_what_it_watches() {
        let mut watchers = Watchers::default();
        let posted = PostedWrites::default();
        let cases = [
            Watch::Completions,
            Watch::Memory(1000..1001),
            Watch::Everything,
        ];
        for (thread, watch) in cases.into_iter().enumerate() {
            let turns = turns(0, 10, watch);
            let found = watchers.add(thread, turns, Instant::ZERO, NEW, &posted);
            assert_eq!(found, None);
        }
        watchers.note(Instant(35), Kind::Data, 990, 10);
        assert_eq!(woken(&mut watchers), [(2, 40)]);
        watchers.note(Instant(45), Kind::Data, 990, 11);
        assert_eq!(woken(&mut watchers), [(1, 50)]);
        watchers.note(Instant(15), Kind::Descriptor, 0, 64);
        assert_eq!(woken(&mut watchers), [(0, 20), (2, 20)]);
        watchers.suspend(2);
        watchers.note(Instant(5), Kind::Data, 0, 64);
        assert_eq!(woken(&mut watchers), []);
        watchers.remove(0);
        watchers.note(Instant(5), Kind::Descriptor, 1000, 1);
        assert_eq!(woken(&mut watchers), [(1, 10)]);
    }

    /// Goal: the index finds the same watchers as an exhaustive search. Method: overlapping ranges.
    #[test]
    fn the_index_finds_all_watchers() {
        let ranges = [0..50, 10..12, 11..300, 40..41, 100..200, 150..151, 290..400];
        let mut watchers = Watchers::default();
        for (thread, range) in ranges.iter().enumerate() {
            let turns = turns(0, 1, Watch::Memory(range.clone()));
            watchers.add(thread, turns, Instant::ZERO, NEW, &PostedWrites::default());
        }
        for start in 0..410 {
            for length in [1, 5, 100] {
                watchers.note(Instant(7), Kind::Data, start, length);
                let expected: Vec<_> = (0..ranges.len())
                    .filter(|i| ranges[*i].start < start + length && start < ranges[*i].end)
                    .map(|thread| (thread, 7))
                    .collect();
                assert_eq!(woken(&mut watchers), expected, "{start} {length}");
                watchers
                    .watchers
                    .iter_mut()
                    .for_each(|w| w.write = Instant::MAX);
            }
        }
    }
}
