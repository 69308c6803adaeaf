//! Schedules the steps of a world's threads.

use ferroce_units::{Duration, Instant};

use super::event_heap::{EventHeap, Sequence};

/// State of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// It is in a step.
    Stepping,
    /// It waits for a time.
    Waiting,
    /// It polls.
    Polling,
    /// It waits for an interrupt.
    Sleeping,
    /// It waits until another thread or process wakes it.
    Parked,
    /// It has ended.
    Done,
}

/// To whom a thread belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// To the program of the host, which a situation may stop.
    Program,
    /// To the kernel of the host.
    Kernel,
}

/// A thread in the event loop.
#[derive(Debug)]
pub(super) struct ThreadEntry {
    pub host: usize,
    /// It runs while the program of the host is stopped.
    pub is_of_kernel: bool,
    pub state: State,
    /// Its clock at the end of its last step; its next step does not begin earlier.
    pub clock: Instant,
    /// The next recheck, if it polls and rechecks at intervals.
    pub recheck: Option<Recheck>,
}

/// A recheck: a polling thread is stepped although nothing that it watches has changed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Recheck {
    /// Time of the next recheck.
    pub at: Instant,
    /// Period of its polling grid.
    pub grid: Duration,
    /// Its deadline.
    pub last: Instant,
}

/// The threads of a world, and when each is stepped.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    pub entries: Vec<ThreadEntry>,
    pub turns: EventHeap,
}

impl Schedule {
    /// Adds a thread of `host`, which is stepped at `now`.
    pub fn add(&mut self, now: Instant, host: usize, owner: Owner, sequence: &mut Sequence) {
        let thread = self.entries.len();
        self.entries.push(ThreadEntry {
            host,
            is_of_kernel: owner == Owner::Kernel,
            state: State::Waiting,
            clock: now,
            recheck: None,
        });
        self.turns.add_part();
        self.turns.set(thread, Some(sequence.moment(now)));
    }

    /// Ends a thread in any state.
    pub fn end(&mut self, thread: usize) {
        self.turns.set(thread, None);
        self.entries[thread].state = State::Done;
    }

    /// Gives threads that wake at the same time the order of their hosts.
    pub fn order_by_host(&mut self, sequence: &mut Sequence) {
        let Self { entries, turns } = self;
        let key = |thread: usize| (entries[thread].host, thread);
        turns.order_by(entries.len(), key, sequence);
    }

    /// Returns when a thread wakes for a reason other than a recheck.
    pub fn wakes_at(&self, thread: usize) -> Option<Instant> {
        let at = self.turns.time_of(thread)?;
        match self.entries[thread].recheck {
            Some(recheck) if at == recheck.at => {
                (recheck.last < Instant::MAX).then_some(recheck.last)
            }
            _ => Some(at),
        }
    }

    /// Returns true if threads only wake for rechecks.
    pub fn has_only_rechecks(&self) -> bool {
        let mut threads = 0..self.entries.len();
        threads.all(|thread| self.wakes_at(thread).is_none())
    }

    /// Returns how long no thread runs from `now` on, except for rechecks.
    pub fn quiet_time(&self, now: Instant) -> Duration {
        let threads = 0..self.entries.len();
        let wakes = threads.filter_map(|thread| self.wakes_at(thread));
        wakes.min().unwrap_or(Instant::MAX) - now
    }

    /// Moves rechecks before `time` to the first point of the thread's grid that is not before it.
    pub fn put_off_rechecks(&mut self, time: Instant, sequence: &mut Sequence) {
        for (thread, entry) in self.entries.iter_mut().enumerate() {
            let at = self.turns.time_of(thread);
            let Some(recheck) = &mut entry.recheck else {
                continue;
            };
            if at != Some(recheck.at) || recheck.at >= time {
                continue;
            }
            let (late, grid) = (time - recheck.at, recheck.grid.as_ps().max(1));
            let turns = late.as_ps().div_ceil(grid);
            recheck.at += Duration::from_ps(turns * grid);
            let moment = sequence.moment(recheck.at);
            self.turns.set(thread, Some(moment));
        }
    }
}
