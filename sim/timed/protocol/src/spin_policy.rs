//! Lets a side wait for its turn before it sleeps.
//!
//! Sleeping and being woken costs more than the rest of a hand-over. With several processors, a
//! waiting thread polls the page for a moment. If all threads share one processor, a waiting thread
//! yields it, and the turn passes without a wake-up. Another runnable process on that processor
//! makes yielding expensive, because it gets a whole time slice first. So each wait is measured,
//! and after a long one the threads do not yield for a while.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::thread::{sched_getaffinity, sched_yield};

use crate::page::{ThreadPage, Turn};

/// Polls of the page before sleeping, if the other side can run meanwhile.
const CHECKS: u32 = 400;
/// Yields before sleeping.
const YIELDS: u32 = 32;
/// Longest wait, in nanoseconds, that counts as short on a shared processor: less than the time
/// slice of another runnable process.
const LIMIT_NS: u64 = 200_000;
/// Number of waits without yielding after a long one: at first, and at most.
const FIRST_REST: u32 = 64;
const LONGEST_REST: u32 = 1 << 14;

/// Decides whether a waiting thread spins, yields or sleeps.
#[derive(Debug)]
pub struct SpinPolicy {
    clock_ns: fn() -> u64,
    /// Not zero: all threads run on one processor.
    is_alone: AtomicU32,
    /// Number of coming waits that do not yield.
    rest: AtomicU32,
    /// Value of `rest` after the next long wait.
    next_rest: AtomicU32,
}

impl SpinPolicy {
    /// Returns the policy of a process that may run on any processor. `clock_ns` is a clock of the
    /// machine.
    pub const fn new(clock_ns: fn() -> u64) -> Self {
        Self {
            clock_ns,
            is_alone: AtomicU32::new(0),
            rest: AtomicU32::new(0),
            next_rest: AtomicU32::new(FIRST_REST),
        }
    }

    /// Determines on how many processors the calling thread may run.
    pub fn prepare(&self) {
        let is_alone = sched_getaffinity(None).is_ok_and(|set| set.count() == 1);
        self.is_alone.store(is_alone.into(), Ordering::Relaxed);
    }

    /// Waits until `other` no longer has the turn; sleeps if that takes long, for `limit` at most.
    /// Returns the side that has the turn then. May return early.
    #[inline]
    pub fn wait(&self, page: &ThreadPage, other: Turn, limit: Duration) -> Turn {
        if self.is_alone.load(Ordering::Relaxed) == 0 {
            return page.wait_while(other, CHECKS, limit);
        }
        let turn = match page.turn() {
            turn if turn == other => self.yield_while(page, other),
            turn => turn,
        };
        if turn == other {
            page.sleep_while(other, limit)
        } else {
            turn
        }
    }

    /// Yields the processor until `other` no longer has the turn, or until further yields do not
    /// pay off.
    fn yield_while(&self, page: &ThreadPage, other: Turn) -> Turn {
        let rest = self.rest.load(Ordering::Relaxed);
        if rest > 0 {
            self.rest.store(rest - 1, Ordering::Relaxed);
            return page.turn();
        }
        let begun_ns = (self.clock_ns)();
        for _ in 0..YIELDS {
            sched_yield();
            let turn = page.turn();
            let time_ns = (self.clock_ns)().saturating_sub(begun_ns);
            if time_ns > LIMIT_NS {
                self.record_long_wait();
                return turn;
            }
            if turn != other {
                self.record_short_wait();
                return turn;
            }
        }
        other
    }

    /// Records a short wait. A single short wait among many long ones, as next to another busy
    /// process, counts little.
    #[inline]
    fn record_short_wait(&self) {
        let rest = self.next_rest.load(Ordering::Relaxed);
        if rest > FIRST_REST {
            self.next_rest.store(rest - 1, Ordering::Relaxed);
        }
    }

    /// Records a long wait.
    #[cold]
    fn record_long_wait(&self) {
        let rest = self.next_rest.load(Ordering::Relaxed);
        self.rest.store(rest, Ordering::Relaxed);
        let next = (2 * rest).min(LONGEST_REST);
        self.next_rest.store(next, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;
    use crate::map::SharedPages;

    static NOW_NS: AtomicU64 = AtomicU64::new(0);
    static STEP_NS: AtomicU64 = AtomicU64::new(0);

    fn clock_ns() -> u64 {
        NOW_NS.fetch_add(STEP_NS.load(Ordering::Relaxed), Ordering::Relaxed)
    }

    /// Goal: next to another busy process a thread yields less and less often.
    #[test]
    fn long_waits_suspend_yielding() {
        let spin_policy = SpinPolicy::new(clock_ns);
        spin_policy.is_alone.store(1, Ordering::Relaxed);
        let file = SharedPages::create().expect("memory");
        let pages = SharedPages::map(&file).expect("mapped");
        let page = &pages.pages().threads[0];
        let limit = Duration::from_micros(1);
        let waits = |count: u32| {
            (0..count).for_each(|_| {
                spin_policy.wait(page, Turn::World, limit);
            });
        };
        page.reset(1);
        STEP_NS.store(1, Ordering::Relaxed);
        waits(3);
        assert_eq!(
            spin_policy.rest.load(Ordering::Relaxed),
            0,
            "it does not take long"
        );
        STEP_NS.store(LIMIT_NS + 1, Ordering::Relaxed);
        waits(1);
        assert_eq!(spin_policy.rest.load(Ordering::Relaxed), FIRST_REST);
        waits(FIRST_REST);
        assert_eq!(spin_policy.rest.load(Ordering::Relaxed), 0);
        waits(1);
        assert_eq!(spin_policy.rest.load(Ordering::Relaxed), 2 * FIRST_REST);
        for _ in 0..10 {
            spin_policy.record_long_wait();
        }
        assert_eq!(spin_policy.rest.load(Ordering::Relaxed), LONGEST_REST);
    }
}
