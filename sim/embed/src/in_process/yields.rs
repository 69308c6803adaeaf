//! Yields of the processor, and how long programs that do not yield had it meanwhile.
//!
//! The threads of all functions of the machine note in the registry when they have which processor.
//! A thread that gets it back late thereby sees whether the threads in front of it were some of
//! them, or those of another program.

use std::cell::Cell;

use ferroce_platform::os;

use crate::clock::{Clock, Ticks};
use crate::fabric::registry::{Processor, Registry};

/// How often a thread that polls notes that it has its processor.
const NOTE_NS: u64 = 100_000;
/// Between two notes of threads that yield, a processor had another program if they are further
/// apart.
const FOREIGN_NS: u64 = 200_000;

/// What a function knows of the processors on which its threads run.
#[derive(Debug)]
pub struct Yields {
    registry: &'static Registry,
    clock: Clock,
    note_ticks: u64,
    least_foreign_ticks: u64,
    /// False if threads of another process use the function, too: they note nothing.
    are_noted: bool,
}

/// A yield.
#[derive(Debug, Clone, Copy)]
pub struct Yield {
    /// When the thread gave its processor away.
    pub began: Ticks,
    /// When it had a processor again.
    pub ended: Ticks,
    /// The ticks at its end for which another program had the processor. All, if that is not known.
    pub foreign_ticks: u64,
}

impl Yield {
    /// Returns the ticks that it took.
    pub fn ticks(&self) -> u64 {
        self.ended.since(self.began)
    }
}

impl Yields {
    /// Returns that of a function whose threads have not run yet.
    pub(super) fn new(registry: &'static Registry, clock: Clock, is_served: bool) -> Self {
        Self {
            registry,
            clock,
            note_ticks: clock.ticks_of_ns(NOTE_NS),
            least_foreign_ticks: clock.ticks_of_ns(FOREIGN_NS),
            are_noted: !is_served,
        }
    }

    /// Returns true if the threads of all programs that use the function are noted.
    pub fn are_noted(&self) -> bool {
        self.are_noted
    }

    /// Notes that this thread has its processor at `now`, unless it did so a moment ago, at
    /// `noted_at`.
    #[inline]
    pub fn note(&self, now: Ticks, noted_at: &Cell<Ticks>) {
        if now.since(noted_at.get()) > self.note_ticks {
            noted_at.set(now);
            self.note_at(now);
        }
    }

    #[cold]
    fn note_at(&self, now: Ticks) {
        if let Some(processor) = self.processor(os::current_processor()) {
            processor.note(now);
        }
    }

    /// Yields this processor at `began`.
    pub fn yield_processor(&self, began: Ticks) -> Yield {
        let before = os::current_processor();
        if let Some(processor) = self.processor(before) {
            processor.note(began);
        }
        os::yield_processor();
        let ended = self.clock.ticks();
        let after = os::current_processor();
        let foreign_ticks = self.foreign_ticks(after, began, ended);
        // The threads for which this one has waited are on the other processor.
        let is_unknown = before != after && self.are_noted;
        Yield {
            began,
            ended,
            foreign_ticks: if is_unknown { 0 } else { foreign_ticks },
        }
    }

    /// Returns for how long before `now` another program had this thread's processor, for which it
    /// has waited since `since`.
    pub fn foreign_ticks_since(&self, since: Ticks, now: Ticks) -> u64 {
        self.foreign_ticks(os::current_processor(), since, now)
    }

    fn foreign_ticks(&self, number: Option<usize>, since: Ticks, now: Ticks) -> u64 {
        match self.processor(number) {
            Some(processor) => processor.note_wait(since, now, self.least_foreign_ticks),
            None => now.since(since),
        }
    }

    /// Returns what is noted of a processor; `None`: nothing.
    #[inline]
    fn processor(&self, number: Option<usize>) -> Option<Processor<'static>> {
        let number = number.filter(|_| self.are_noted)?;
        self.registry.processor(number)
    }
}
