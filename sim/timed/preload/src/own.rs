//! The calling thread, as calls see it that wait on its behalf.

use std::sync::atomic::{AtomicI32, Ordering};

use ferroce_timed_protocol::PS_PER_NS;
use ferroce_timed_protocol::page::{CostsPage, NEVER_PS};
use ferroce_timed_protocol::request::Wait;
use ferroce_timed_protocol::store::StoreKind;

use rustix::process::getpid;

use crate::thread::state;
use crate::turn::Inside;
use crate::{os, real, session, timers};

/// Calls in a row in which no time passes that are free: more than what a program
/// does to open a device, to set up a connection or to print a table.
const FREE_CALLS: u32 = 1000;
/// A thread that only makes calls that do not wait lets the world catch up after so long: what it
/// goes round for may be another thread's to do.
const MOST_ALONE_PS: u64 = 10_000_000;
/// The world's answer when a wait has ended with nothing of what was waited for.
const NOTHING: u64 = u64::MAX;

/// A thread in simulated time, inside a call of the program.
///
/// While there is one, what the thread calls is real. Calls in which no time passes are free, but
/// after [`FREE_CALLS`] in a row each one costs a system call (`host.syscall_ns`) when it ends: a
/// program that calls again and again without waiting sees time pass, and other threads get their
/// turns.
#[derive(Debug)]
pub struct Own {
    inside: Inside,
    /// When the call began. [`NEVER_PS`]: it costs nothing by itself.
    begun_ps: u64,
}

/// How a wait has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// With what was waited for, and the world's answer.
    Answered(u64),
    /// With the time up to which it was to last at most, or with nothing.
    TimedOut,
    /// With the signal of a timer, whose handler has run.
    Interrupted {
        /// The program wants calls to go on after this signal (`SA_RESTART`).
        restarts: bool,
    },
    /// With the world: from here on time is that of the machine.
    NoWorld,
}

impl Own {
    /// The calling thread, in a system call of this name. `None`: what it calls is real.
    #[inline]
    pub fn enter(name: &str) -> Option<Self> {
        let inside = Inside::enter()?;
        inside.page().last_call.set(name);
        let begun_ps = inside.now_ps();
        Some(Self { inside, begun_ps })
    }

    /// The calling thread, in no system call: what it does costs what is charged for it.
    /// `None`: what it calls is real.
    #[inline]
    pub fn enter_uncharged() -> Option<Self> {
        let inside = Inside::enter()?;
        let begun_ps = NEVER_PS;
        Some(Self { inside, begun_ps })
    }

    /// Its clock.
    #[inline]
    pub fn now_ps(&self) -> u64 {
        self.inside.now_ps()
    }

    /// It computes.
    pub fn spend(&self, time_ps: u64) {
        self.inside.spend(time_ps);
    }

    /// What the thread has computed for `time_ps` since `since_ps`, and has done nothing else since,
    /// is part of what it does next.
    #[cfg(target_arch = "x86_64")]
    pub fn take_back(&self, since_ps: u64, time_ps: u64) {
        if since_ps.checked_add(time_ps) == Some(self.now_ps()) {
            self.inside
                .page()
                .clock_ps
                .store(since_ps, Ordering::Relaxed);
        }
    }

    /// What a system call costs, or a try of a lock that has failed. Where the preset says
    /// nothing, a nanosecond: the clock has to go on.
    pub fn system_call_ps(&self) -> u64 {
        let cost_ps = costs().map_or(0, |costs| costs.system_call_ps.load(Ordering::Relaxed));
        cost_ps.max(PS_PER_NS)
    }

    /// The world catches up with the thread.
    pub fn catch_up(&self) {
        self.inside.catch_up();
    }

    /// Tells the world something.
    pub fn store(&self, kind: StoreKind, slot: u32, words: &[u64]) {
        self.inside.store(kind, slot, words);
    }

    /// Waits, at most until `deadline_ps` of the thread's clock.
    pub fn wait(&self, wait: &Wait, deadline_ps: u64) -> Ended {
        let signals = timers::delivered();
        self.limit(deadline_ps);
        let answer = self.inside.wait(wait);
        self.limit(NEVER_PS);
        if session::has_ended() {
            return Ended::NoWorld;
        }
        if timers::delivered() != signals {
            let restarts = timers::last_restarts();
            return Ended::Interrupted { restarts };
        }
        match answer {
            NOTHING => Ended::TimedOut,
            answer => Ended::Answered(answer),
        }
    }

    /// The thread gets its turn back at `deadline_ps` at the latest, and when a timer is due.
    pub fn limit(&self, deadline_ps: u64) {
        timers::limit(self.inside.page(), deadline_ps);
    }

    /// The call has looked for something and not waited.
    pub fn spend_call(&self) {
        self.spend(self.system_call_ps());
    }

    /// Gives the turn up for as long as a system call takes.
    pub fn give_way(&self) {
        let time_ps = self.now_ps().saturating_add(self.system_call_ps());
        self.wait(&Wait::At { time_ps }, NEVER_PS);
    }

    /// Makes a call that may take any real time: the world goes on meanwhile.
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

    /// From an interrupt to a thread that runs.
    pub fn wake_up_ps(&self) -> u64 {
        costs().map_or(0, |costs| costs.wake_up_ps.load(Ordering::Relaxed))
    }

    /// A turn of a loop that looks at memory.
    #[cfg(target_arch = "x86_64")]
    pub fn memory_poll_ps(&self) -> u64 {
        costs().map_or(0, |costs| costs.memory_poll_ps.load(Ordering::Relaxed))
    }

    /// What tells the thread from the others of the program.
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
            // Handlers of signals that come due may change it.
            os::keeping_errno(|| {
                self.spend_call();
                state().count_calls_on(self.now_ps());
                self.inside.catch_up_after(MOST_ALONE_PS);
            });
        }
    }
}

/// What calls cost.
fn costs() -> Option<&'static CostsPage> {
    session::pages().map(|pages| &pages.program.costs)
}

/// The process that has joined.
static PROCESS: AtomicI32 = AtomicI32::new(0);

/// The program has joined.
pub fn note_process() {
    PROCESS.store(getpid().as_raw_nonzero().get(), Ordering::Relaxed);
}

/// Whether this is the process that has joined, and not a child that uses its memory for a while
/// (`vfork`).
pub fn is_own_process() -> bool {
    PROCESS.load(Ordering::Relaxed) == getpid().as_raw_nonzero().get()
}

/// Whether the calling thread is the first of its process.
#[cfg(target_arch = "x86_64")]
pub fn is_main_thread() -> bool {
    rustix::thread::gettid() == getpid()
}

/// Picoseconds of a time that C states in seconds and `fraction`, each of `unit_ps`. `None`: it
/// makes no sense.
pub fn picoseconds(seconds: i64, fraction: i64, unit_ps: u64) -> Option<u64> {
    const SECOND_PS: u64 = 1_000_000_000_000;
    let fraction = u64::try_from(fraction).ok()?;
    if fraction.checked_mul(unit_ps)? >= SECOND_PS {
        return None;
    }
    let seconds = u64::try_from(seconds).ok()?.saturating_mul(SECOND_PS);
    Some(seconds.saturating_add(fraction * unit_ps))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_converted_or_refused() {
        assert_eq!(picoseconds(1, 5, 1000), Some(1_000_000_005_000));
        assert_eq!(picoseconds(0, 999_999, 1_000_000), Some(999_999_000_000));
        assert_eq!(picoseconds(0, 1_000_000, 1_000_000), None);
        assert_eq!(picoseconds(0, -1, 1000), None);
        assert_eq!(picoseconds(-1, 0, 1000), None);
        assert_eq!(picoseconds(i64::MAX, 0, 1000), Some(u64::MAX));
    }
}
