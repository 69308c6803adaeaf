//! The calling thread, in a call that waits for it.

use std::sync::atomic::Ordering;

use ferroce_timed_protocol::PS_PER_NS;
use ferroce_timed_protocol::page::{CostsPage, NEVER_PS};
use ferroce_timed_protocol::request::Wait;
use ferroce_timed_protocol::store::StoreKind;

use crate::inside::Inside;
use crate::thread::state;
use crate::{joined, os, real, timers};

/// Consecutive calls without a time advance that are free: more than a program makes to open a
/// device, to set up a connection or to print a table.
const FREE_CALLS: u32 = 1000;
/// A thread that only makes calls that do not wait lets the world catch up after this time: it may
/// be polling for another thread's action.
const MOST_ALONE_PS: u64 = 10_000_000;
/// The world's answer when a wait has ended without its event.
const NOTHING: u64 = u64::MAX;

/// A thread in simulated time, inside a call of the program.
///
/// While the value lives, libc calls that the thread makes are real. Calls in which no time passes
/// are free, but after [`FREE_CALLS`] consecutive ones each costs a system call (`host.syscall_ns`)
/// when it ends: a program that calls repeatedly without waiting sees time pass, and other threads
/// get their turns.
#[derive(Debug)]
pub struct Own {
    inside: Inside,
    /// When the call began. [`NEVER_PS`]: it costs nothing by itself.
    begun_ps: u64,
}

/// Reason for the end of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Its event came; the world's answer.
    Answered(u64),
    /// Its deadline has passed, or it ended without its event.
    TimedOut,
    /// A signal of a timer or of a child came, and its handler has run.
    Interrupted {
        /// True if calls continue after this signal (`SA_RESTART`).
        restarts: bool,
    },
    /// The world has ended: from here on the thread runs in real time.
    NoWorld,
}

impl Own {
    /// Begins a system call of this name. Returns `None` if the thread's calls are real.
    #[inline]
    pub fn enter(name: &str) -> Option<Self> {
        let inside = Inside::enter()?;
        inside.page().last_call.set(name);
        let begun_ps = inside.now_ps();
        Some(Self { inside, begun_ps })
    }

    /// Begins a call that is not charged as a system call: the thread pays only for explicit
    /// charges. Returns `None` if its calls are real.
    #[inline]
    pub fn enter_uncharged() -> Option<Self> {
        let inside = Inside::enter()?;
        let begun_ps = NEVER_PS;
        Some(Self { inside, begun_ps })
    }

    /// Changes the name of the call.
    pub fn name(&self, name: &str) {
        self.inside.page().last_call.set(name);
    }

    /// Returns its clock.
    #[inline]
    pub fn now_ps(&self) -> u64 {
        self.inside.now_ps()
    }

    /// Advances its clock.
    pub fn spend(&self, time_ps: u64) {
        self.inside.spend(time_ps);
    }

    /// Takes back `time_ps` that the thread has spent since `since_ps` without other actions in
    /// between: the time is part of its next action.
    #[cfg(target_arch = "x86_64")]
    pub fn take_back(&self, since_ps: u64, time_ps: u64) {
        if since_ps.checked_add(time_ps) == Some(self.now_ps()) {
            self.inside
                .page()
                .clock_ps
                .store(since_ps, Ordering::Relaxed);
        }
    }

    /// Returns the cost of a system call, or of a failed attempt to take a lock. At least a
    /// nanosecond, even if the preset has none: the clock has to advance.
    pub fn system_call_ps(&self) -> u64 {
        let cost_ps = costs().map_or(0, |costs| costs.system_call_ps.load(Ordering::Relaxed));
        cost_ps.max(PS_PER_NS)
    }

    /// Lets the world catch up with the thread.
    pub fn catch_up(&self) {
        self.inside.catch_up();
    }

    /// Lets the world execute the thread's stores so far. A store that follows at once does not
    /// pass the turn.
    pub fn settle(&self) {
        self.inside.wait(&Wait::Room);
    }

    /// Reports a store to the world.
    pub fn store(&self, kind: StoreKind, slot: u32, words: &[u64]) {
        self.inside.store(kind, slot, words);
    }

    /// Waits, at most until `deadline_ps` of the thread's clock.
    pub fn wait(&self, wait: &Wait, deadline_ps: u64) -> Ended {
        let signals = timers::delivered();
        let ended = self.wait_for_wake(wait, deadline_ps);
        if ended != Ended::NoWorld && timers::delivered() != signals {
            let restarts = timers::last_restarts();
            return Ended::Interrupted { restarts };
        }
        ended
    }

    /// Does the same as [`Self::wait`] for something that comes once: if it comes together with a
    /// signal, it is the reason for the end of the wait.
    pub fn wait_for_wake(&self, wait: &Wait, deadline_ps: u64) -> Ended {
        let signals = timers::delivered();
        loop {
            self.limit(deadline_ps);
            let answer = self.inside.wait(wait);
            self.limit(NEVER_PS);
            let is_interrupted = self.inside.page().is_interrupted.swap(0, Ordering::Relaxed) != 0;
            if joined::has_ended() {
                return Ended::NoWorld;
            }
            match answer {
                NOTHING if timers::delivered() != signals => {
                    let restarts = timers::last_restarts();
                    return Ended::Interrupted { restarts };
                }
                // Another thread has taken the signal.
                NOTHING if is_interrupted && self.now_ps() < deadline_ps => {}
                NOTHING => return Ended::TimedOut,
                answer => return Ended::Answered(answer),
            }
        }
    }

    /// Returns the world's answer to the last store. `None`: the world has ended.
    pub fn answer_of_store(&self) -> Option<u64> {
        let time_ps = self.now_ps();
        let answer = self.inside.wait(&Wait::At { time_ps });
        (!joined::has_ended()).then_some(answer)
    }

    /// Sets the deadline of the turn: `deadline_ps`, or the next timer if that is earlier.
    pub fn limit(&self, deadline_ps: u64) {
        timers::limit(self.inside.page(), deadline_ps);
    }

    /// Charges a call that has checked for something and has not waited.
    pub fn spend_call(&self) {
        self.spend(self.system_call_ps());
    }

    /// Passes the turn for the time of a system call.
    pub fn yield_turn(&self) {
        let time_ps = self.now_ps().saturating_add(self.system_call_ps());
        self.wait(&Wait::At { time_ps }, NEVER_PS);
    }

    /// Makes a call that may take any real time: the world continues meanwhile.
    pub fn outside<T>(&self, call: impl FnOnce() -> T) -> T {
        let mut errno = 0;
        let result = self.inside.outside(|| {
            let result = call();
            errno = real::errno();
            result
        });
        real::set_errno(errno);
        result
    }

    /// Returns the time from an interrupt until the thread runs.
    pub fn wake_up_ps(&self) -> u64 {
        costs().map_or(0, |costs| costs.wake_up_ps.load(Ordering::Relaxed))
    }

    /// Returns the cost of an iteration of a loop that polls memory.
    #[cfg(target_arch = "x86_64")]
    pub fn memory_poll_ps(&self) -> u64 {
        costs().map_or(0, |costs| costs.memory_poll_ps.load(Ordering::Relaxed))
    }

    /// Returns a value that identifies the thread within the program.
    #[cfg(target_arch = "x86_64")]
    pub fn page_address(&self) -> usize {
        std::ptr::from_ref(self.inside.page()).addr()
    }
}

impl Drop for Own {
    #[inline]
    fn drop(&mut self) {
        let now_ps = self.now_ps();
        if self.begun_ps == now_ps && state().count_call_at_once(now_ps) >= FREE_CALLS {
            // Handlers of due signals may change `errno`.
            os::keeping_errno(|| {
                self.spend_call();
                state().count_calls_on(self.now_ps());
                self.inside.catch_up_after(MOST_ALONE_PS);
            });
        }
    }
}

/// Returns the costs of calls.
fn costs() -> Option<&'static CostsPage> {
    joined::pages().map(|pages| &pages.program.costs)
}
