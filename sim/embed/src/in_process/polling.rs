//! Behaviour of a thread on empty polls.
//!
//! It spins for a moment, because the answer may come within a microsecond. Then it yields, so that
//! on a loaded machine the peer has its turn. Yielding is bad beside a process that spins without
//! ever yielding: the processor comes back when that process has used up its time slice, after
//! milliseconds. So a thread that has yielded to such a process sleeps instead, for some time, and
//! a sender wakes it: a woken thread gets the processor at once.

use std::cell::Cell;

use ferroce_platform::os;

use super::InProcess;
use crate::clock::Ticks;

/// Empty polls before a thread yields.
const POLLS_BEFORE_YIELD: u32 = 40;
/// A yield that took longer than this was to a process that does not yield.
const LONG_YIELD_NS: u64 = 500_000;
/// How long a thread sleeps instead of yielding then, before it tries to yield again. Doubled each
/// time that the next try takes long, too.
const MIN_DOZING_NS: u64 = 3_000_000;
/// Upper limit of that time.
const MAX_DOZING_NS: u64 = 200_000_000;
/// Length of a single sleep.
const DOZE_NS: u64 = 200_000;

/// Poll history of a thread.
struct PollHistory {
    empty_polls: Cell<u32>,
    /// No yield before this time.
    dozes_until: Cell<Ticks>,
    dozing_ns: Cell<u64>,
    has_short_turns: Cell<bool>,
}

thread_local! {
    static HISTORY: PollHistory = const {
        PollHistory {
            empty_polls: Cell::new(0),
            dozes_until: Cell::new(Ticks(0)),
            dozing_ns: Cell::new(MIN_DOZING_NS),
            has_short_turns: Cell::new(false),
        }
    };
}

/// Called after a poll at `now`; `empty_runs`: runs of the model in an empty poll, `None` if it was
/// not empty.
#[inline]
pub fn after_poll(function: &InProcess, empty_runs: Option<u32>, now: Ticks) {
    HISTORY.with(|history| match empty_runs {
        None => history.empty_polls.set(0),
        Some(runs) if history.empty_polls.get() < POLLS_BEFORE_YIELD => {
            history.empty_polls.set(history.empty_polls.get() + runs);
            std::hint::spin_loop();
        }
        Some(_) => {
            history.empty_polls.set(0);
            history.step_back(function, now);
        }
    });
}

impl PollHistory {
    #[cold]
    fn step_back(&self, function: &InProcess, now: Ticks) {
        if now < self.dozes_until.get() {
            return function.doze(DOZE_NS);
        }
        os::yield_processor();
        let clock = function.clock();
        let back = clock.ticks();
        if back.since(now) <= clock.ticks_of_ns(LONG_YIELD_NS) {
            self.dozing_ns.set(MIN_DOZING_NS);
            return;
        }
        let dozing_ns = self.dozing_ns.get();
        self.dozing_ns.set((2 * dozing_ns).min(MAX_DOZING_NS));
        self.dozes_until
            .set(Ticks(back.0.saturating_add(clock.ticks_of_ns(dozing_ns))));
        if !self.has_short_turns.replace(true) {
            os::prefer_short_turns();
        }
    }
}
