//! When a thread that polls sleeps for some time instead of yielding.
//!
//! That is better beside a program that spins without ever yielding: a yield takes as long as its
//! time slice, milliseconds, and a thread that is woken gets the processor at once. Beside threads
//! that yield it is worse: each of them has its turn sooner than a sleeping thread is woken.

use std::cell::Cell;

use ferroce_platform::os::{self, TimeSlices};

use super::yields::Yield;
use crate::clock::{Clock, Ticks};

/// A yield for which another program had the processor longer than this was to one that does not
/// yield.
const LONG_YIELD_NS: u64 = 500_000;
/// As many of them, within [`WINDOW_NS`] of each other, show that the program goes on spinning.
const LONG_YIELDS: u32 = 3;
const WINDOW_NS: u64 = 50_000_000;
/// How long a thread sleeps instead of yielding then, before it tries to yield again. Doubled each
/// time that the next try takes long, too.
const MIN_DOZING_NS: u64 = 3_000_000;
/// Upper limit of that time.
const MAX_DOZING_NS: u64 = 200_000_000;
/// A thread keeps its short time slices for so long after the last long yield.
const SHORT_SLICES_NS: u64 = 1_000_000_000;

/// The long yields of a thread.
pub(super) struct Dozing {
    /// No yield before this time.
    until: Cell<Ticks>,
    next_ns: Cell<u64>,
    long_yields: Cell<u32>,
    /// The last long yield, or the end of what came of it.
    last_long: Cell<Ticks>,
    has_short_slices: Cell<bool>,
}

impl Dozing {
    /// Returns that of a thread that has not yielded yet.
    pub const fn new() -> Self {
        Self {
            until: Cell::new(Ticks(0)),
            next_ns: Cell::new(MIN_DOZING_NS),
            long_yields: Cell::new(0),
            last_long: Cell::new(Ticks(0)),
            has_short_slices: Cell::new(false),
        }
    }

    /// Returns true if the thread has to sleep.
    pub fn is_due(&self, now: Ticks) -> bool {
        now < self.until.get()
    }

    /// Notes a yield.
    pub fn note(&self, yielded: &Yield, clock: &Clock) {
        if yielded.foreign_ticks > clock.ticks_of_ns(LONG_YIELD_NS) {
            return self.note_long(yielded.ended, clock);
        }
        self.next_ns.set(MIN_DOZING_NS);
        let since_last = yielded.ended.since(self.last_long.get());
        if self.has_short_slices.get() && since_last > clock.ticks_of_ns(SHORT_SLICES_NS) {
            self.has_short_slices.set(false);
            os::request_time_slices(TimeSlices::Normal);
        }
    }

    fn note_long(&self, now: Ticks, clock: &Clock) {
        let goes_on = now.since(self.last_long.get()) <= clock.ticks_of_ns(WINDOW_NS);
        let long_yields = match goes_on {
            true => self.long_yields.get().saturating_add(1),
            false => 1,
        };
        self.long_yields.set(long_yields);
        self.last_long.set(now);
        if long_yields < LONG_YIELDS {
            return;
        }
        let time_ns = self.next_ns.get();
        self.next_ns.set((2 * time_ns).min(MAX_DOZING_NS));
        let until = Ticks(now.0.saturating_add(clock.ticks_of_ns(time_ns)));
        self.until.set(until);
        self.last_long.set(until);
        if !self.has_short_slices.replace(true) {
            os::request_time_slices(TimeSlices::Short);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The thread of a test, with a clock that it moves itself.
    struct Yielding {
        dozing: Dozing,
        clock: Clock,
        now: Ticks,
    }

    impl Yielding {
        fn new() -> Self {
            let clock = Clock::start();
            let now = clock.ticks();
            let dozing = Dozing::new();
            Self { dozing, clock, now }
        }

        fn pass_ns(&mut self, ns: u64) {
            self.now = Ticks(self.now.0 + self.clock.ticks_of_ns(ns));
        }

        /// Yields; another program has the processor for `foreign_ns`. Returns how long the thread
        /// has to sleep then.
        fn dozes_ns_after(&mut self, foreign_ns: u64) -> u64 {
            let began = self.now;
            self.pass_ns(foreign_ns);
            let yielded = Yield {
                began,
                ended: self.now,
                foreign_ticks: self.now.since(began),
            };
            self.dozing.note(&yielded, &self.clock);
            let until = self.dozing.until.get();
            assert_eq!(self.dozing.is_due(self.now), until > self.now);
            self.clock.ns_of_ticks(until.since(self.now))
        }
    }

    const LONG_NS: u64 = 2 * LONG_YIELD_NS;

    fn is_about(ns: u64, expected_ns: u64) -> bool {
        ns.abs_diff(expected_ns) <= expected_ns / 1000
    }

    /// Goal: a thread sleeps beside a program that goes on spinning, and for longer each time.
    #[test]
    fn repeated_long_yields_make_a_thread_sleep() {
        let mut thread = Yielding::new();
        for _ in 1..LONG_YIELDS {
            assert_eq!(thread.dozes_ns_after(LONG_NS), 0);
            thread.pass_ns(WINDOW_NS / 2);
        }
        let mut expected_ns = MIN_DOZING_NS;
        for _ in 0..10 {
            let dozes_ns = thread.dozes_ns_after(LONG_NS);
            assert!(
                is_about(dozes_ns, expected_ns),
                "{dozes_ns}, not {expected_ns}"
            );
            thread.pass_ns(dozes_ns + WINDOW_NS / 2);
            expected_ns = (2 * expected_ns).min(MAX_DOZING_NS);
        }
        assert_eq!(thread.dozes_ns_after(LONG_YIELD_NS / 2), 0);
        let dozes_ns = thread.dozes_ns_after(LONG_NS);
        assert!(is_about(dozes_ns, MIN_DOZING_NS), "{dozes_ns}");
    }

    /// Goal: a program that takes the processor now and then costs no sleep.
    #[test]
    fn single_long_yields_do_not() {
        let mut thread = Yielding::new();
        for _ in 0..10 {
            assert_eq!(thread.dozes_ns_after(LONG_NS), 0);
            thread.pass_ns(2 * WINDOW_NS);
        }
    }

    #[test]
    fn short_slices_end_when_the_program_has_gone() {
        let mut thread = Yielding::new();
        for _ in 0..LONG_YIELDS {
            thread.dozes_ns_after(LONG_NS);
        }
        assert!(thread.dozing.has_short_slices.get());
        thread.pass_ns(SHORT_SLICES_NS / 2);
        thread.dozes_ns_after(0);
        assert!(thread.dozing.has_short_slices.get());
        thread.pass_ns(SHORT_SLICES_NS);
        thread.dozes_ns_after(0);
        assert!(!thread.dozing.has_short_slices.get());
    }
}
