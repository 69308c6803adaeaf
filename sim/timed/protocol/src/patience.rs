//! How one waits for its turn before one sleeps.
//!
//! To sleep and to be woken costs more than everything else about a hand-over. Who has a processor
//! to itself looks at the page for a moment. Where all share one processor, who waits yields it to
//! the others: the turn goes round without anybody being woken. That is bad company for strangers on
//! the same processor, because who yields lets them have whole slices first; so each wait is measured,
//! and nobody yields for a while after one that has taken long.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::thread::{sched_getaffinity, sched_yield};

use crate::page::{ThreadPage, Turn};

/// Looks before one sleeps, if the other side can run meanwhile.
const LOOKS: u32 = 400;
/// Times that one yields before one sleeps.
const YIELDS: u32 = 32;
/// What a wait of those who share a processor may take, in nanoseconds: less than the slice of a
/// stranger.
const LIMIT_NS: u64 = 200_000;
/// Waits without yielding after one that took longer: at first, and at most.
const FIRST_REST: u32 = 64;
const LONGEST_REST: u32 = 1 << 14;

/// What is known of how it pays to wait.
#[derive(Debug)]
pub struct Patience {
    clock_ns: fn() -> u64,
    /// Not zero: all run on one processor.
    is_alone: AtomicU32,
    /// Waits to come that do not yield.
    rest: AtomicU32,
    /// How many there will be after the next one that takes long.
    next_rest: AtomicU32,
}

impl Patience {
    /// Of a process that may run anywhere. `clock_ns` is a clock of the machine.
    pub const fn new(clock_ns: fn() -> u64) -> Self {
        Self {
            clock_ns,
            is_alone: AtomicU32::new(0),
            rest: AtomicU32::new(0),
            next_rest: AtomicU32::new(FIRST_REST),
        }
    }

    /// Finds out on how many processors the calling thread may run.
    pub fn prepare(&self) {
        let is_alone = sched_getaffinity(None).is_ok_and(|set| set.count() == 1);
        self.is_alone.store(is_alone.into(), Ordering::Relaxed);
    }

    /// Waits for the turn not to be `other`'s any more, and at last sleeps for it, for `limit` at
    /// most. Returns who has it then. May return early.
    #[inline]
    pub fn wait(&self, page: &ThreadPage, other: Turn, limit: Duration) -> Turn {
        if self.is_alone.load(Ordering::Relaxed) == 0 {
            return page.wait_while(other, LOOKS, limit);
        }
        let turn = match page.turn() {
            turn if turn == other => self.give_way(page, other),
            turn => turn,
        };
        match turn == other {
            true => page.sleep_while(other, limit),
            false => turn,
        }
    }

    /// Yields the processor until the turn is not `other`'s any more, or for so long that it does
    /// not pay.
    fn give_way(&self, page: &ThreadPage, other: Turn) -> Turn {
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
                self.tire();
                return turn;
            }
            if turn != other {
                self.recover();
                return turn;
            }
        }
        other
    }

    /// A wait has been short. One among many that are long, as with a busy stranger, says little.
    #[inline]
    fn recover(&self) {
        let rest = self.next_rest.load(Ordering::Relaxed);
        if rest > FIRST_REST {
            self.next_rest.store(rest - 1, Ordering::Relaxed);
        }
    }

    /// A wait has taken too long.
    #[cold]
    fn tire(&self) {
        let rest = self.next_rest.load(Ordering::Relaxed);
        self.rest.store(rest, Ordering::Relaxed);
        let next = (2 * rest).min(LONGEST_REST);
        self.next_rest.store(next, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::SharedPages;
    use std::sync::atomic::AtomicU64;

    static NOW_NS: AtomicU64 = AtomicU64::new(0);
    static STEP_NS: AtomicU64 = AtomicU64::new(0);

    fn clock_ns() -> u64 {
        NOW_NS.fetch_add(STEP_NS.load(Ordering::Relaxed), Ordering::Relaxed)
    }

    /// Goal: who shares a processor with a busy stranger yields less and less often.
    #[test]
    fn who_yields_in_vain_rests() {
        let patience = Patience::new(clock_ns);
        patience.is_alone.store(1, Ordering::Relaxed);
        let file = SharedPages::create().expect("memory");
        let pages = SharedPages::map(&file).expect("mapped");
        let page = &pages.pages().threads[0];
        let limit = Duration::from_micros(1);
        let waits = |count: u32| {
            (0..count).for_each(|_| {
                patience.wait(page, Turn::World, limit);
            });
        };
        page.reset(1);
        STEP_NS.store(1, Ordering::Relaxed);
        waits(3);
        assert_eq!(
            patience.rest.load(Ordering::Relaxed),
            0,
            "it does not take long"
        );
        STEP_NS.store(LIMIT_NS + 1, Ordering::Relaxed);
        waits(1);
        assert_eq!(patience.rest.load(Ordering::Relaxed), FIRST_REST);
        waits(FIRST_REST);
        assert_eq!(patience.rest.load(Ordering::Relaxed), 0);
        waits(1);
        assert_eq!(patience.rest.load(Ordering::Relaxed), 2 * FIRST_REST);
        for _ in 0..10 {
            patience.tire();
        }
        assert_eq!(patience.rest.load(Ordering::Relaxed), LONGEST_REST);
    }
}
