//! When threads of functions were on each processor of the machine, and when other programs were.
//!
//! A thread that gets its processor back late learns from it which threads had it meanwhile: those
//! of functions, which yield, or those of a program that does not.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Registry;
use super::layout::{MAX_PROCESSORS, PROCESSOR_SIZE, PROCESSORS};
use crate::clock::Ticks;

/// Words in the cache line of a processor. They are independent of each other and of all others: no
/// order is relied on.
mod word {
    pub const LAST_SEEN: usize = 0;
    pub const FOREIGN_END: usize = 8;
    pub const FOREIGN_TICKS: usize = 16;
}

/// A processor of the machine, as the threads of all functions see it.
#[derive(Debug, Clone, Copy)]
pub struct Processor<'a> {
    /// When a thread was last seen on it.
    last_seen: &'a AtomicU64,
    /// End of the last time for which threads have waited for another program.
    foreign_end: &'a AtomicU64,
    /// Length of that time.
    foreign_ticks: &'a AtomicU64,
}

impl Registry {
    /// Returns what is noted of a processor; `None`: the registry has no room for it.
    pub fn processor(&self, number: usize) -> Option<Processor<'_>> {
        let offset = (number < MAX_PROCESSORS).then(|| PROCESSORS + PROCESSOR_SIZE * number)?;
        let word = |index| self.memory.word(offset + index);
        Some(Processor {
            last_seen: word(word::LAST_SEEN),
            foreign_end: word(word::FOREIGN_END),
            foreign_ticks: word(word::FOREIGN_TICKS),
        })
    }
}

impl Processor<'_> {
    /// Notes that a thread is on it.
    pub fn note(&self, now: Ticks) {
        self.last_seen.store(now.0, Ordering::Relaxed);
    }

    /// Notes that a thread is on it which has waited for it since `since`. Returns for how long
    /// another program had it meanwhile. All threads that have waited see the same time, although
    /// only the first of them comes directly behind that program; it had the processor between two
    /// notes that are more than `least_ticks` apart.
    pub fn note_wait(&self, since: Ticks, now: Ticks, least_ticks: u64) -> u64 {
        let last_seen = Ticks(self.last_seen.load(Ordering::Relaxed)).max(since);
        self.note(now);
        let ticks = now.since(last_seen);
        if ticks > least_ticks {
            self.foreign_end.store(now.0, Ordering::Relaxed);
            self.foreign_ticks.store(ticks, Ordering::Relaxed);
            return ticks;
        }
        let foreign_end = Ticks(self.foreign_end.load(Ordering::Relaxed));
        match foreign_end > since {
            // This thread may have begun to wait in the middle of it.
            true => self
                .foreign_ticks
                .load(Ordering::Relaxed)
                .min(now.since(since)),
            false => ticks,
        }
    }
}

#[cfg(test)]
mod tests {
    use ferroce_test_support::temporary_directory;

    use super::*;

    const LEAST_TICKS: u64 = 100;

    /// Goal: threads that yield are no other program to each other, and one that does not yield is
    /// one to all that have waited for it. Method: the notes of two threads.
    #[test]
    fn all_threads_that_waited_for_another_program_see_it() {
        let directory = temporary_directory("processors");
        let registry = Registry::open(directory.path()).expect("new");
        let processor = registry.processor(3).expect("there is room");
        let wait = |since, now| processor.note_wait(Ticks(since), Ticks(now), LEAST_TICKS);
        // The other one had the processor from 1000 on, and noted that it still has it.
        processor.note(Ticks(1000));
        processor.note(Ticks(1900));
        assert_eq!(wait(1000, 1910), 10);
        // Both wait for a program that has the processor until 4000.
        processor.note(Ticks(2000));
        assert_eq!(wait(2000, 4000), 2000);
        assert_eq!(wait(1950, 4010), 2000);
        // What was before this wait does not count.
        assert_eq!(wait(4010, 4020), 10);
        // Nor does the time in which no thread has waited.
        assert_eq!(wait(9000, 9020), 20);
        // A thread that was woken while the program had the processor has waited for a part of it.
        assert_eq!(wait(3500, 4015), 515);
    }

    #[test]
    fn processors_beyond_the_limit_are_not_noted() {
        let directory = temporary_directory("processors-limit");
        let registry = Registry::open(directory.path()).expect("new");
        assert!(registry.processor(MAX_PROCESSORS - 1).is_some());
        for number in [MAX_PROCESSORS, usize::MAX] {
            assert!(registry.processor(number).is_none());
        }
    }
}
