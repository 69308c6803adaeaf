//! What verbs cost a program in simulated time, and what it does when polls find nothing.
//!
//! The same calls cost the same as in the loops of [`crate::perf`]. A thread that polls the same
//! queues in vain, twice in a row and with nothing in between, waits for the next write of the card
//! instead, and goes on with the turn of its loop that finds it.
//!
//! Such a thread may look at memory, too, so that every write of the card wakes it. One that finds
//! nothing in it, as most do when the data of a long message arrive, waits for completions alone for
//! a quarter of the time that it has been waiting. So a thread that waits for completions goes on
//! when there is one; one that waits for memory may see it later by that much, but only if it has
//! not reacted to what was written just before.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};

use ferroce_driver::CompletionQueue;
use ferroce_transport::Duration;
use ferroce_virtual_time::page::CostsPage;
use ferroce_virtual_time::request::{Look, Wait};
use ferroce_virtual_time::store::Work;

use super::library::Library;
use crate::perf::cpu::Costs;
use crate::perf::random::Random;

/// Queues that a thread polls in turn, at most; with more, each poll is made.
const MAX_QUEUES: usize = 1024;

/// The processor under the calling thread.
#[derive(Debug)]
pub struct Processor {
    library: Library,
    costs: Costs,
    seed: u64,
}

/// Part of the time in vain that a thread then does not look at memory: one in so many.
const DEAF_PART: u64 = 4;

/// What a thread has done last.
#[derive(Debug)]
struct Recent {
    random: Random,
    /// Queues that were found empty, with nothing in between.
    empty: Vec<u32>,
    /// What [`Library::activity`] was then.
    activity: u64,
    /// The last poll has waited, so that it is on the grid of its loop.
    has_waited: bool,
    /// When the first of the waits began that have followed each other in vain.
    waits_since_ps: u64,
}

impl Recent {
    /// Something else than an empty poll.
    #[inline]
    fn begin(&mut self) {
        self.empty.clear();
        self.has_waited = false;
    }

    /// A wait of a loop whose turns take `grid`, which begins now.
    fn wait(&mut self, grid: Duration, now_ps: u64) -> Wait {
        let grid_ps = grid.as_ps().max(1);
        if !std::mem::replace(&mut self.has_waited, true) {
            self.waits_since_ps = now_ps;
            let look = Look::Everything;
            return Wait::OnWrite { grid_ps, look };
        }
        let turns = now_ps.saturating_sub(self.waits_since_ps) / DEAF_PART / grid_ps;
        let time_ps = now_ps.saturating_add((turns + 1) * grid_ps);
        let look = Look::CompletionsUntil { time_ps };
        Wait::OnWrite { grid_ps, look }
    }
}

/// Threads that have called verbs: each has random numbers of its own.
static THREADS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static RECENT: RefCell<Option<Recent>> = const { RefCell::new(None) };
}

impl Processor {
    /// The processor of a program that has joined a world.
    pub fn new(library: Library) -> Self {
        let page = &library.program().costs;
        Self {
            costs: costs_of(page),
            seed: page.seed.load(Ordering::Relaxed),
            library,
        }
    }

    /// Calls `action` with what the thread has done last. A thread that is going, without its
    /// thread-local storage, costs nothing.
    fn recent<R>(&self, action: impl FnOnce(&mut Recent) -> R) -> Option<R> {
        let call = |recent: &RefCell<Option<Recent>>| {
            // Taken while it is used: an interrupt handler may come here from inside.
            let mut own = recent.take().unwrap_or_else(|| self.first());
            let result = action(&mut own);
            recent.replace(Some(own));
            result
        };
        RECENT.try_with(call).ok()
    }

    #[cold]
    fn first(&self) -> Recent {
        let host = u64::from(self.library.host());
        let thread = THREADS.fetch_add(1, Ordering::Relaxed);
        Recent {
            random: Random::new(self.seed, 1 + host + (thread << 16)),
            empty: Vec::new(),
            activity: 0,
            has_waited: false,
            waits_since_ps: 0,
        }
    }

    /// Something that is no empty poll costs `mean`.
    #[inline]
    fn work(&self, work: Work, mean: Duration) {
        let time = self.recent(|recent| {
            recent.begin();
            self.costs.spread(mean, &recent.random)
        });
        self.library.work_ps(work, time.unwrap_or(mean).as_ps());
    }

    /// A send work request was written to its queue, with so many bytes of inline payload.
    #[inline]
    pub fn post(&self, inline: u64) {
        self.work(Work::Post, self.costs.post_of(inline));
    }

    /// A receive was written to its queue.
    #[inline]
    pub fn post_receive(&self) {
        self.work(Work::PostReceive, self.costs.post_receive);
    }

    /// A doorbell, or a push of so many blocks.
    #[inline]
    pub fn ring(&self, blocks: u64) {
        self.work(Work::Doorbell, self.costs.doorbell_of(blocks));
    }

    /// The thread is about to poll `cq`: memory becomes what it is now, or what it is when the poll
    /// will find something.
    #[inline]
    pub fn before_poll(&self, cq: &CompletionQueue) {
        match self.wait_for(cq) {
            // It begins now: what is there by now is found at once.
            Some(wait) => {
                self.library.wait(&wait);
            }
            None => self.library.catch_up(),
        }
    }

    /// What a poll of `cq` waits for that has been empty before, with nothing in between.
    fn wait_for(&self, cq: &CompletionQueue) -> Option<Wait> {
        let (activity, now_ps) = (self.library.activity(), self.library.now_ps());
        let wait = |recent: &mut Recent| {
            if recent.activity != activity {
                recent.begin();
                recent.activity = activity;
            }
            if !recent.empty.contains(&cq.number().0) || !cq.is_empty() {
                return None;
            }
            let queues = recent.empty.len() as u64;
            let grid = crate::perf::cpu::times(self.costs.poll_miss, queues);
            Some(recent.wait(grid, now_ps))
        };
        self.recent(wait).flatten()
    }

    /// A poll of `cq` has found so many.
    #[inline]
    pub fn polled(&self, cq: &CompletionQueue, count: usize) {
        let mean = self.costs.poll_of(count as u64);
        if count > 0 {
            return self.work(Work::Poll, mean);
        }
        let time = self.recent(|recent| {
            let number = cq.number().0;
            if recent.empty.len() < MAX_QUEUES && !recent.empty.contains(&number) {
                recent.empty.push(number);
            }
            match recent.has_waited {
                // One turn of its loop, as those that it has left out.
                true => mean,
                false => self.costs.spread(mean, &recent.random),
            }
        });
        self.library.spend_ps(time.unwrap_or(mean).as_ps());
    }

    /// What is there now is seen.
    pub fn catch_up(&self) {
        self.library.catch_up();
    }

    /// Sleeps until `is_there` says that an event has come.
    pub fn sleep_until(&self, mut is_there: impl FnMut() -> bool) {
        self.library.catch_up();
        let mut has_slept = false;
        while !is_there() && !self.library.has_ended() {
            // Interrupts of others wake nobody: whose events there are is seen at once.
            self.library.wait(&Wait::OnInterrupt { wake_up_ps: 0 });
            has_slept = true;
        }
        if has_slept {
            self.work(Work::WakeUp, self.costs.wake_up);
        }
    }
}

fn costs_of(page: &CostsPage) -> Costs {
    let time = |cell: &AtomicU64| Duration::from_ps(cell.load(Ordering::Relaxed));
    Costs {
        post: time(&page.post_ps),
        doorbell: time(&page.doorbell_ps),
        push_block: time(&page.push_block_ps),
        inline_block: time(&page.inline_block_ps),
        post_receive: time(&page.post_receive_ps),
        poll_hit: time(&page.poll_hit_ps),
        poll_miss: time(&page.poll_miss_ps),
        memory_poll: time(&page.memory_poll_ps),
        wake_up: time(&page.wake_up_ps),
        system_call: time(&page.system_call_ps),
        // Threads that wait for each other's locks are not simulated.
        lock: Duration::ZERO,
        handoff: Duration::ZERO,
        jitter: time(&page.jitter_ps),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recent() -> Recent {
        Recent {
            random: Random::new(1, 1),
            empty: vec![5],
            activity: 0,
            has_waited: false,
            waits_since_ps: 0,
        }
    }

    /// Goal: who waits in vain is woken less and less often, and always on the grid of its loop.
    #[test]
    fn waits_in_vain_become_longer_and_stay_on_the_grid() {
        let (mut recent, grid) = (recent(), Duration::from_ns(20));
        let start = 1_000_003;
        let first = recent.wait(grid, start);
        let everything = Look::Everything;
        let grid_ps = grid.as_ps();
        assert_eq!(
            first,
            Wait::OnWrite {
                grid_ps,
                look: everything
            }
        );
        let mut now = start;
        for turn in 0..100 {
            let Wait::OnWrite {
                look: Look::CompletionsUntil { time_ps },
                ..
            } = recent.wait(grid, now)
            else {
                panic!("turn {turn} waits for more than completions");
            };
            assert!(time_ps > now);
            assert_eq!((time_ps - start) % grid_ps, 0);
            assert!(time_ps - now <= (now - start) / DEAF_PART + grid_ps);
            now = time_ps;
        }
        assert!(now > start + 1_000_000_000, "turns become longer");
    }

    #[test]
    fn after_something_else_a_loop_begins_anew() {
        let (mut recent, grid) = (recent(), Duration::from_ns(20));
        recent.wait(grid, 0);
        recent.begin();
        assert!(recent.empty.is_empty());
        let look = Look::Everything;
        let grid_ps = grid.as_ps();
        assert_eq!(recent.wait(grid, 100), Wait::OnWrite { grid_ps, look });
    }
}
