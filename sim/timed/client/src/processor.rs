//! Costs of verbs in simulated time, and waiting on empty polls.
//!
//! The same calls cost the same as in the loops of `ferroce perf`. After two consecutive empty
//! polls of the same queues, with nothing in between, a thread waits for the next write of the
//! card, and continues with the iteration of its loop that finds the write. Both polls must come
//! from the same place, with the same registers and the same stack frames: a loop that counts its
//! polls there executes every iteration.
//!
//! A loop may also check something that the card does not write: a counter in memory, or what
//! another thread of the program does. So a wait ends after a number of iterations with an empty
//! poll; the next wait is twice as long, up to a limit. With other threads in the program the
//! limits are shorter, and the world lets a polling thread check again after another one has slept
//! or waited and then had a turn. If nothing else is in progress in the world, every iteration is
//! executed.
//!
//! Such a thread may also check memory, so every write of the card wakes it. If it finds nothing
//! there, as most threads do while the data of a long message arrive, it waits only for completions
//! for a quarter of the time that it has been waiting. That does not delay a thread that waits for
//! completions. A thread that waits for memory may see a write that much later, but only if it did
//! not react to the write before.

use std::cell::RefCell;
use std::ffi::c_void;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

use ferroce_driver::Cqn;
use ferroce_driver::bus::{PollFunction, PolledQueue, ProgramClock, Slept};
use ferroce_model::preset::costs::Costs;
use ferroce_timed_protocol::page::CostsPage;
use ferroce_timed_protocol::request::{Check, Wait};
use ferroce_timed_protocol::store::Work;
pub use ferroce_timed_protocol::table::Entry;
use ferroce_units::Duration;
use ferroce_units::random::Random;

use crate::library::Library;

/// Maximum number of queues that a thread polls in a round; with more, every poll is executed.
const MAX_QUEUES: usize = 1024;

/// The modelled processor of the calling thread.
#[derive(Debug)]
pub struct Processor {
    library: Library,
    costs: Costs,
    seed: u64,
}

/// Back-off of memory checks: after waiting for a time without a hit, a thread does not check
/// memory for that time divided by this number.
const MEMORY_CHECK_BACKOFF: u64 = 4;

/// Number of iterations that a thread waits before it checks everything again: at first, and at
/// most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limits {
    first: u64,
    most: u64,
}

/// For the only thread of a program.
const ALONE: Limits = Limits {
    first: 1 << 10,
    most: 1 << 13,
};
/// For a thread of a program that has others.
const WITH_OTHERS: Limits = Limits {
    first: 1 << 7,
    most: 1 << 12,
};

/// An empty poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct EmptyPoll {
    queue: u32,
    /// [`Library::caller`].
    caller: u64,
}

/// Recent polls of a thread.
#[derive(Debug)]
struct Recent {
    random: Random,
    /// Queues that were found empty, with nothing else in between.
    empty: Vec<EmptyPoll>,
    /// Value of [`Library::activity`] at that time.
    activity: u64,
    /// True if the last poll was not the first of its series, so its time is on the grid of its
    /// loop.
    is_on_grid: bool,
    /// True if a poll of this series has waited.
    has_waited: bool,
    /// Index of the queue whose poll has waited. A loop over several queues waits at its first one,
    /// and waits there again when that wait is over.
    waited_at: usize,
    /// Polls since then that could have waited, but did not because that queue's poll waits.
    left: usize,
    /// Start of the first of the consecutive waits without a result.
    waits_since_ps: u64,
    /// Iterations of the last wait for everything, and its end. Zero: the last wait was of another
    /// kind.
    turns: u64,
    over_ps: u64,
}

impl Recent {
    /// Starts an action other than an empty poll.
    #[inline]
    fn begin(&mut self) {
        self.empty.clear();
        self.is_on_grid = false;
        self.has_waited = false;
        self.waited_at = 0;
        self.left = 0;
    }

    /// Returns a wait that begins now, in a loop whose iterations take `grid`.
    fn wait(&mut self, grid: Duration, now_ps: u64, limits: Limits) -> Wait {
        let grid_ps = grid.as_ps().max(1);
        let is_first = !std::mem::replace(&mut self.has_waited, true);
        if is_first || self.is_over(now_ps) {
            self.turns = if is_first {
                limits.first
            } else {
                (2 * self.turns).min(limits.most)
            };
            self.waits_since_ps = now_ps;
            self.over_ps = now_ps.saturating_add(self.turns * grid_ps);
            let time_ps = self.over_ps;
            let check = Check::EverythingUntil { time_ps };
            return Wait::OnWrite { grid_ps, check };
        }
        self.turns = 0;
        let turns = now_ps.saturating_sub(self.waits_since_ps) / MEMORY_CHECK_BACKOFF / grid_ps;
        let time_ps = now_ps.saturating_add((turns + 1).min(limits.most) * grid_ps);
        let check = Check::CompletionsUntil { time_ps };
        Wait::OnWrite { grid_ps, check }
    }

    /// Returns true if the last wait was for everything and its time is over. The empty poll since
    /// then has taken one iteration.
    fn is_over(&self, now_ps: u64) -> bool {
        self.turns > 0 && now_ps > self.over_ps
    }

    /// Returns true if a queue of the loop other than the one at `place` is to wait. If that queue
    /// is no longer polled, the one at `place` waits after all.
    fn leaves_it_to_another(&mut self, place: usize, now_ps: u64) -> bool {
        let begins = !self.has_waited || self.is_over(now_ps);
        let leaves = begins && place != self.waited_at && self.left < self.empty.len();
        self.left = if leaves { self.left + 1 } else { 0 };
        if !leaves {
            self.waited_at = place;
        }
        leaves
    }

    /// Returns the place of a queue among those that were found empty.
    fn place_of(&self, queue: u32) -> Option<usize> {
        self.empty.iter().position(|poll| poll.queue == queue)
    }
}

/// Threads that have called verbs: each has its own random sequence.
static THREADS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static RECENT: RefCell<Option<Recent>> = const { RefCell::new(None) };
}

impl Processor {
    /// Creates the processor of a program that has joined a world.
    pub fn new(library: Library) -> Self {
        let page = &library.program().costs;
        Self {
            costs: costs_of(page),
            seed: page.seed.load(Ordering::Relaxed),
            library,
        }
    }

    /// Calls `action` with the recent polls of the thread. A thread that is ending, without its
    /// thread-local storage, costs nothing.
    fn recent<R>(&self, action: impl FnOnce(&mut Recent) -> R) -> Option<R> {
        let call = |recent: &RefCell<Option<Recent>>| {
            // Taken out while in use, because an interrupt handler may be called from inside.
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
            is_on_grid: false,
            has_waited: false,
            waited_at: 0,
            left: 0,
            waits_since_ps: 0,
            turns: 0,
            over_ps: 0,
        }
    }

    /// Charges `mean` for an action other than an empty poll.
    #[inline]
    fn work(&self, work: Work, mean: Duration) {
        let time = self.recent(|recent| {
            recent.begin();
            self.costs.spread(mean, &recent.random)
        });
        self.library.work_ps(work, time.unwrap_or(mean).as_ps());
    }

    /// Charges a command of RDMA CM.
    pub fn spend_cm_command(&self) {
        self.library.spend_ps(self.costs.cm_command.as_ps());
    }

    /// Charges a system call that does not wait.
    pub fn spend_system_call(&self) {
        self.library.spend_ps(self.costs.system_call.as_ps());
    }

    /// Charges a doorbell, or a push of this many blocks.
    #[inline]
    pub fn ring(&self, blocks: u64) {
        self.work(Work::Doorbell, self.costs.doorbell_of(blocks));
    }

    /// Returns what a poll of `cq` waits for, if the last poll of the queue was also empty, with
    /// nothing in between.
    fn wait_for(&self, cq: &dyn PolledQueue) -> Option<Wait> {
        let (activity, now_ps) = (self.library.activity(), self.library.now_ps());
        let wait = |recent: &mut Recent| {
            if recent.activity != activity {
                recent.begin();
                recent.activity = activity;
            }
            let place = recent.place_of(cq.number().0)?;
            if !cq.is_empty() {
                return None;
            }
            recent.is_on_grid = true;
            let caller = self.library.caller();
            if std::mem::replace(&mut recent.empty[place].caller, caller) != caller {
                return None;
            }
            if recent.leaves_it_to_another(place, now_ps) {
                return None;
            }
            let queues = recent.empty.len() as u64;
            let grid = ferroce_model::preset::costs::times(self.costs.poll_miss, queues);
            let limits = if self.library.is_alone() {
                ALONE
            } else {
                WITH_OTHERS
            };
            Some(recent.wait(grid, now_ps, limits))
        };
        self.recent(wait).flatten()
    }

    /// Prints once why calls fail.
    #[cold]
    fn explain_failure(&self) -> bool {
        static EXPLAINED: Once = Once::new();
        EXPLAINED.call_once(|| {
            self.library.outside(|| {
                eprintln!(
                    "ferroce: the other program of this simulated world has gone without exit: polls \
                     and posts fail, and what is printed from here on is no result"
                );
            });
        });
        true
    }
}

impl ProgramClock for Processor {
    #[inline]
    fn post_send(&self, inline_bytes: u64) {
        self.work(Work::Post, self.costs.post_of(inline_bytes));
    }

    #[inline]
    fn post_receive(&self) {
        self.work(Work::PostReceive, self.costs.post_receive);
    }

    #[inline]
    fn before_poll(&self, cq: &dyn PolledQueue) {
        match self.wait_for(cq) {
            // The wait begins now, so it immediately finds results that are already there.
            Some(wait) => {
                self.library.wait(&wait);
            }
            None => self.library.catch_up(),
        }
    }

    #[inline]
    fn polled(&self, cqn: Cqn, count: usize) {
        let mean = self.costs.poll_of(count as u64);
        if count > 0 {
            return self.work(Work::Poll, mean);
        }
        let time = self.recent(|recent| {
            let queue = cqn.0;
            if recent.empty.len() < MAX_QUEUES && recent.place_of(queue).is_none() {
                let caller = self.library.caller();
                recent.empty.push(EmptyPoll { queue, caller });
            }
            match recent.is_on_grid {
                // One iteration of its loop, like those that were skipped.
                true => mean,
                false => self.costs.spread(mean, &recent.random),
            }
        });
        self.library.spend_ps(time.unwrap_or(mean).as_ps());
    }

    fn noting_caller(&self, function: PollFunction, target: *const c_void) -> *const c_void {
        let entry = match function {
            PollFunction::PollCq => Entry::PollCq,
            PollFunction::StartPoll => Entry::StartPoll,
        };
        self.library.noting_caller(entry, target)
    }

    fn catch_up(&self) {
        self.library.catch_up();
    }

    fn sleep_until(&self, is_there: &mut dyn FnMut() -> bool) -> Slept {
        self.library.catch_up();
        let interruptions = self.library.interruptions();
        let mut has_slept = false;
        let mut slept = Slept::Found;
        while !is_there() && !self.library.has_ended() {
            if self.library.interruptions() != interruptions {
                slept = Slept::Interrupted;
                break;
            }
            // Interrupts of other event queues need not wake a thread here: it sees their events at
            // once.
            self.library.wait(&Wait::OnInterrupt { wake_up_ps: 0 });
            has_slept = true;
        }
        if has_slept {
            self.work(Work::WakeUp, self.costs.wake_up);
        }
        slept
    }

    #[inline]
    fn has_failed(&self) -> bool {
        self.library.has_ended() || self.library.has_lost_partner() && self.explain_failure()
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
        page_fault: time(&page.page_fault_ps),
        cm_command: time(&page.cm_command_ps),
        // The world charges the time of its agents.
        cm_mad: Duration::ZERO,
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
            empty: vec![EmptyPoll {
                queue: 5,
                caller: 1,
            }],
            activity: 0,
            is_on_grid: false,
            has_waited: false,
            waited_at: 0,
            left: 0,
            waits_since_ps: 0,
            turns: 0,
            over_ps: 0,
        }
    }

    const GRID: Duration = Duration::from_ns(20);
    const START_PS: u64 = 1_000_003;

    /// Returns the end of a wait for everything.
    fn everything_until(recent: &mut Recent, now_ps: u64, limits: Limits) -> u64 {
        match recent.wait(GRID, now_ps, limits) {
            Wait::OnWrite {
                check: Check::EverythingUntil { time_ps },
                ..
            } => time_ps,
            wait => panic!("{wait:?}"),
        }
    }

    /// Goal: waits that find nothing become longer, and always end on the grid of the loop.
    #[test]
    fn fruitless_waits_become_longer_and_stay_on_the_grid() {
        let (mut recent, grid_ps) = (recent(), GRID.as_ps());
        everything_until(&mut recent, START_PS, ALONE);
        // A write of the card that the thread did not wait for.
        let mut now = START_PS + grid_ps;
        for turn in 0..200 {
            let Wait::OnWrite {
                check: Check::CompletionsUntil { time_ps },
                ..
            } = recent.wait(GRID, now, ALONE)
            else {
                panic!("turn {turn} waits for more than completions");
            };
            assert!(time_ps > now);
            assert_eq!((time_ps - START_PS) % grid_ps, 0);
            assert!(time_ps - now <= (now - START_PS) / MEMORY_CHECK_BACKOFF + grid_ps);
            assert!(time_ps - now <= ALONE.most * grid_ps);
            now = time_ps;
        }
        assert!(now > START_PS + 1_000_000_000, "turns become longer");
    }

    /// Goal: a loop that waits for something that the card does not write continues, sooner if
    /// other threads may do what it waits for.
    const _: () = assert!(WITH_OTHERS.most < ALONE.most && WITH_OTHERS.first < ALONE.first);

    #[test]
    fn waits_for_everything_end() {
        let grid_ps = GRID.as_ps();
        for limits in [ALONE, WITH_OTHERS] {
            let mut recent = recent();
            let mut now = START_PS;
            for wait in 0..20 {
                let until = everything_until(&mut recent, now, limits);
                let turns = (limits.first << wait).min(limits.most);
                assert_eq!(until, now + turns * grid_ps);
                now = until + grid_ps;
            }
        }
    }

    #[test]
    fn after_something_else_a_loop_begins_anew() {
        let mut recent = recent();
        let first = everything_until(&mut recent, 0, ALONE);
        recent.begin();
        assert!(recent.empty.is_empty());
        assert_eq!(everything_until(&mut recent, 100, ALONE), first + 100);
    }
}
