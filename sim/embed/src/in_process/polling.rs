//! Whether a program polls, and the behaviour of a thread on empty polls.
//!
//! A polling thread spins for a moment, because the answer may come within a microsecond. Then it
//! yields, so that on a loaded machine the peer has its turn; or sleeps, as [`super::dozing`] says,
//! and a sender wakes it.

use std::cell::Cell;
use std::sync::atomic::Ordering;

use super::InProcess;
use super::dozing::Dozing;
use crate::clock::Ticks;

/// Empty polls before a thread yields.
pub(super) const POLLS_BEFORE_YIELD: u32 = 40;
/// The same after a yield that has let another thread run.
const POLLS_BEFORE_SWITCH: u32 = 4;
/// A yield that takes longer than this has let another thread run.
const SWITCH_NS: u64 = 700;
/// Length of a single sleep.
const DOZE_NS: u64 = 200_000;

/// A background thread that sleeps longer than this must be notified when the application polls.
const LONG_SLEEP_PS: u64 = 5_000_000_000;

/// Poll history of a thread.
struct PollHistory {
    empty_polls: Cell<u32>,
    /// When the thread has noted its processor last.
    noted_at: Cell<Ticks>,
    /// Empty polls before the next yield.
    polls_before_yield: Cell<u32>,
    dozing: Dozing,
}

thread_local! {
    static HISTORY: PollHistory = const {
        PollHistory {
            empty_polls: Cell::new(0),
            noted_at: Cell::new(Ticks(0)),
            polls_before_yield: Cell::new(POLLS_BEFORE_YIELD),
            dozing: Dozing::new(),
        }
    };
}

/// Called after a poll at `now`; `empty_runs`: runs of the model in an empty poll, `None` if it was
/// not empty.
#[inline]
pub fn after_poll(function: &InProcess, empty_runs: Option<u32>, now: Ticks) {
    HISTORY.with(|history| match empty_runs {
        None => {
            history.empty_polls.set(0);
            function.yields.note(now, &history.noted_at);
        }
        // It notes its processor when it yields.
        Some(runs) if history.empty_polls.get() < history.polls_before_yield.get() => {
            history.empty_polls.set(history.empty_polls.get() + runs);
            std::hint::spin_loop();
        }
        Some(_) => {
            history.empty_polls.set(0);
            history.step_back(function, now);
        }
    });
}

/// Called after a poll at `now` that has found completions, like the one before.
pub fn after_full_poll(function: &InProcess, now: Ticks) {
    HISTORY.with(|history| function.yields.note(now, &history.noted_at));
}

impl InProcess {
    /// Returns true if the application polled a moment ago.
    #[inline]
    pub fn is_polled(&self, now: Ticks) -> bool {
        self.activity.is_polling(now)
    }

    /// Returns true if the application will poll soon after a doorbell at `now`.
    #[inline]
    pub(super) fn is_polled_after_doorbell(&self, now: Ticks) -> bool {
        let was_polled = self.activity.is_polling(now);
        if !was_polled && !self.activity.begins_series(now) {
            return false;
        }
        // A long list of requests takes longer to post than the time without polls that the
        // background thread allows; it would take over and contend for the lock.
        self.activity.note_polling(now);
        if !was_polled {
            // After the note: the thread that this wakes looks at once whether the program polls.
            self.keep_background_near(now);
        }
        true
    }

    /// Lets the background thread sleep for short times only, when the application begins to poll:
    /// it has to notice soon when polling stops.
    #[inline]
    pub(super) fn keep_background_near(&self, now: Ticks) {
        let long = self
            .clock
            .instant(now)
            .as_ps()
            .saturating_add(LONG_SLEEP_PS);
        if self.wake_at.load(Ordering::Relaxed) > long {
            self.registry.wake_background(self.place, now);
        }
    }
}

impl PollHistory {
    #[cold]
    fn step_back(&self, function: &InProcess, now: Ticks) {
        if self.dozing.is_due(now) {
            return function.doze(DOZE_NS);
        }
        let began = function.clock.ticks();
        let yielded = function.yields.yield_processor(began);
        self.noted_at.set(yielded.ended);
        self.dozing.note(&yielded, &function.clock);
        let is_switch = yielded.ticks() > function.clock.ticks_of_ns(SWITCH_NS);
        self.polls_before_yield
            .set(match is_switch && !self.dozing.is_due(yielded.ended) {
                true => POLLS_BEFORE_SWITCH,
                false => POLLS_BEFORE_YIELD,
            });
    }
}
