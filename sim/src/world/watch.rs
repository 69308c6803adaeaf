//! Threads of a host that poll, and when they find something.

use ferroce_transport::{Duration, Instant};

use super::posted::{Kind, PostedWrites};
use super::thread::Watch;

/// A thread that polls.
#[derive(Debug)]
struct Watcher {
    thread: usize,
    watch: Watch,
    not_before: Instant,
    grid: Duration,
    /// When the first write becomes visible that it would see.
    write: Instant,
}

impl Watcher {
    #[inline]
    fn sees(&self, kind: Kind, address: usize, length: usize) -> bool {
        match &self.watch {
            Watch::Completions => kind == Kind::Descriptor,
            Watch::Memory(range) => address < range.end && range.start < address + length,
            Watch::Everything => true,
        }
    }

    /// The turn that finds it.
    fn wakes_at(&self) -> Option<Instant> {
        if self.write == Instant::MAX {
            return None;
        }
        let wait = self.write.saturating_since(self.not_before);
        let grid = self.grid.as_ps();
        let turns = wait
            .as_ps()
            .checked_div(grid)
            .map_or(wait.as_ps(), |turns| {
                let full = turns * grid;
                full + if full < wait.as_ps() { grid } else { 0 }
            });
        Some(self.not_before + Duration::from_ps(turns))
    }
}

/// The threads of a host that poll.
#[derive(Debug, Default)]
pub struct Watchers {
    watchers: Vec<Watcher>,
    /// Whether any of them looks at more than descriptors.
    sees_data: bool,
    /// Whether one has found something since it was asked last.
    changed: bool,
}

impl Watchers {
    /// A thread polls from now on. Writes that are not visible at `now` count. Returns when it
    /// wakes, as far as known.
    pub fn add(
        &mut self,
        thread: usize,
        (not_before, grid, watch): (Instant, Duration, Watch),
        now: Instant,
        posted: &PostedWrites,
    ) -> Option<Instant> {
        let mut watcher = Watcher {
            thread,
            watch,
            not_before,
            grid,
            write: Instant::MAX,
        };
        let mut seen = posted
            .after(now)
            .filter(|(_, kind, address, length)| watcher.sees(*kind, *address, *length));
        if let Some((visible, ..)) = seen.next() {
            watcher.write = visible;
        }
        let wakes_at = watcher.wakes_at();
        self.watchers.push(watcher);
        self.summarise();
        wakes_at
    }

    /// A thread does not poll any more.
    #[inline]
    pub fn remove(&mut self, thread: usize) {
        if let Some(place) = self.watchers.iter().position(|w| w.thread == thread) {
            self.watchers.swap_remove(place);
            self.summarise();
        }
    }

    fn summarise(&mut self) {
        let is_data = |watcher: &Watcher| watcher.watch != Watch::Completions;
        self.sees_data = self.watchers.iter().any(is_data);
    }

    /// Something will become visible.
    #[inline]
    pub fn note(&mut self, visible: Instant, kind: Kind, address: usize, length: usize) {
        if kind == Kind::Data && !self.sees_data {
            return;
        }
        for watcher in &mut self.watchers {
            if visible < watcher.write && watcher.sees(kind, address, length) {
                watcher.write = visible;
                self.changed = true;
            }
        }
    }

    /// Calls `wake` for the threads that wake, if any of that has changed.
    #[inline]
    pub fn take_changes(&mut self, mut wake: impl FnMut(usize, Instant)) {
        if !std::mem::take(&mut self.changed) {
            return;
        }
        for watcher in &self.watchers {
            if let Some(at) = watcher.wakes_at() {
                wake(watcher.thread, at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wakes(grid: u64, write: u64) -> u64 {
        let watcher = Watcher {
            thread: 0,
            watch: Watch::Completions,
            not_before: Instant(100),
            grid: Duration(grid),
            write: Instant(write),
        };
        watcher.wakes_at().expect("there is a write").as_ps()
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

    #[test]
    fn each_sees_what_it_watches() {
        let mut watchers = Watchers::default();
        let posted = PostedWrites::default();
        let (now, grid) = (Instant(0), Duration(10));
        let cases = [
            Watch::Completions,
            Watch::Memory(1000..1001),
            Watch::Everything,
        ];
        for (thread, watch) in cases.into_iter().enumerate() {
            assert_eq!(watchers.add(thread, (now, grid, watch), now, &posted), None);
        }
        let woken = |watchers: &mut Watchers| {
            let mut woken = Vec::new();
            watchers.take_changes(|thread, at| woken.push((thread, at.as_ps())));
            woken
        };
        watchers.note(Instant(35), Kind::Data, 990, 10);
        assert_eq!(woken(&mut watchers), [(2, 40)]);
        watchers.note(Instant(45), Kind::Data, 990, 11);
        assert_eq!(woken(&mut watchers), [(1, 50), (2, 40)]);
        watchers.note(Instant(15), Kind::Descriptor, 0, 64);
        assert_eq!(woken(&mut watchers), [(0, 20), (1, 50), (2, 20)]);
        assert_eq!(woken(&mut watchers), []);
    }
}
