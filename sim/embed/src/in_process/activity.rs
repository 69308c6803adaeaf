//! Whether the program polls, as its calls show: then its threads advance the model, and the
//! background thread leaves it to them.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::clock::{Clock, Ticks};
use crate::fabric::registry::FRESH_NS;

/// Polls after arming a CQ that do not count as polling: the program checks once more and sleeps.
const POLLS_AFTER_ARMING: u32 = 2;
/// In place of the polls that are left after arming: the program has never polled.
const NEVER_POLLED: u32 = u32::MAX;
/// Two doorbells within this time are of one series. On the only processor, the background thread
/// may have run between them: that alone must not let it run again.
const SERIES_NS: u64 = 100_000;

/// What the last calls of the program were.
#[derive(Debug)]
pub(super) struct Activity {
    /// Time of the last call of a program that polls; 0 if it is about to sleep. Peers read it.
    heartbeat: &'static AtomicU64,
    /// A heartbeat older than this says nothing.
    fresh_ticks: u64,
    series_ticks: u64,
    /// Polls that are still expected before the program sleeps, or [`NEVER_POLLED`].
    polls_after_arming: AtomicU32,
    /// Time of the last doorbell of those that were rung without a poll a moment before.
    last_doorbell: AtomicU64,
    /// True if the last poll has found nothing.
    last_poll_was_empty: AtomicBool,
}

impl Activity {
    /// Returns that of a program that has not polled yet.
    pub fn new(heartbeat: &'static AtomicU64, clock: &Clock) -> Self {
        Self {
            heartbeat,
            fresh_ticks: clock.ticks_of_ns(FRESH_NS),
            series_ticks: clock.ticks_of_ns(SERIES_NS),
            polls_after_arming: AtomicU32::new(NEVER_POLLED),
            last_doorbell: AtomicU64::new(0),
            last_poll_was_empty: AtomicBool::new(true),
        }
    }

    /// Returns true if the program polled a moment ago.
    #[inline]
    pub fn is_polling(&self, now: Ticks) -> bool {
        let heartbeat = self.heartbeat.load(Ordering::Relaxed);
        now.since(Ticks(heartbeat)) < self.fresh_ticks
    }

    /// Notes that the program polls.
    #[inline]
    pub fn note_polling(&self, now: Ticks) {
        self.heartbeat.store(now.0, Ordering::Relaxed);
    }

    /// Notes that the program, or one of its threads, is about to sleep.
    #[inline]
    pub fn note_sleep(&self) {
        self.heartbeat.store(0, Ordering::Relaxed);
    }

    /// Notes that the program has asked for an event.
    #[inline]
    pub fn note_arming(&self) {
        self.polls_after_arming
            .store(POLLS_AFTER_ARMING, Ordering::Relaxed);
        self.note_sleep();
    }

    /// Notes a poll without completions. Returns false if the program is about to sleep.
    #[inline]
    pub fn note_empty_poll(&self, now: Ticks) -> bool {
        self.last_poll_was_empty.store(true, Ordering::Relaxed);
        let left = self.polls_after_arming.load(Ordering::Relaxed);
        let left = left.min(POLLS_AFTER_ARMING); // also if it has never polled
        if left == 0 {
            self.note_polling(now);
        } else {
            self.polls_after_arming.store(left - 1, Ordering::Relaxed);
        }
        left == 0
    }

    /// Notes a poll with completions. Returns true if it shows that the program polls: one alone
    /// may follow an event.
    #[inline]
    pub fn note_full_poll(&self) -> bool {
        if self.last_poll_was_empty.load(Ordering::Relaxed) {
            self.last_poll_was_empty.store(false, Ordering::Relaxed);
            return false;
        }
        // A program that posts to itself may never see an empty CQ.
        if self.polls_after_arming.load(Ordering::Relaxed) == NEVER_POLLED {
            self.polls_after_arming.store(0, Ordering::Relaxed);
        }
        !self.is_about_to_sleep()
    }

    /// Returns true for the second of some doorbells of a program that polls: it will poll again
    /// when it has posted its requests. For the others [`Self::is_polling`] is true.
    #[inline]
    pub fn begins_series(&self, now: Ticks) -> bool {
        let last = Ticks(self.last_doorbell.swap(now.0, Ordering::Relaxed));
        !self.is_about_to_sleep() && now.since(last) < self.series_ticks
    }

    #[inline]
    fn is_about_to_sleep(&self) -> bool {
        self.polls_after_arming.load(Ordering::Relaxed) != 0
    }
}
