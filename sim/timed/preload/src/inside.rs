//! A thread inside a call of the program, while it has the turn.

use std::sync::atomic::Ordering;

use ferroce_timed_protocol::MOST_AHEAD_PS;
use ferroce_timed_protocol::page::{NEVER_PS, ThreadPage, Turn};
use ferroce_timed_protocol::request::Wait;
use ferroce_timed_protocol::store::{StoreKind, Work};

use crate::child_signals::{self, HeldBack};
use crate::thread::{ThreadState, state};
use crate::turn::wait_for_turn;
use crate::{interrupts, joined, membership, os, timers, trust};

/// A thread of the world inside a call of this library. Libc calls that it makes meanwhile are
/// real.
#[derive(Debug)]
pub struct Inside {
    state: &'static ThreadState,
    page: &'static ThreadPage,
}

impl Inside {
    /// Begins a call. A thread that is new to the world joins it, which may take until its first
    /// turn.
    ///
    /// Returns `None` if the call is to be a real one: the program has not joined, the world has
    /// ended, the thread does not belong to it, or this library itself makes the call.
    #[inline]
    pub fn enter() -> Option<Self> {
        if !joined::is_running() {
            return None;
        }
        let state = state();
        if !state.is_outermost() {
            return None;
        }
        state.enter();
        let page = state.page().or_else(|| membership::join_thread(state));
        if page.is_none() {
            state.leave();
        }
        let inside = Self { state, page: page? };
        inside.count();
        Some(inside)
    }

    /// Begins a call of the verbs library, possibly inside another one.
    ///
    /// Returns `None` as [`Self::enter`] does, and if the thread does not have the turn.
    pub fn enter_for_verbs() -> Option<Self> {
        let state = state();
        let page = match state.page() {
            Some(page) if joined::is_running() && page.turn() == Turn::Thread => page,
            Some(_) => return None,
            None => Self::enter()?.page,
        };
        state.enter();
        state.count_verbs();
        page.last_call.set("a verb");
        let inside = Self { state, page };
        inside.count();
        Some(inside)
    }

    /// Returns its page.
    pub fn page(&self) -> &'static ThreadPage {
        self.page
    }

    /// Returns its clock.
    #[inline]
    pub fn now_ps(&self) -> u64 {
        self.page.clock_ps.load(Ordering::Relaxed)
    }

    /// Counts a call.
    #[inline]
    pub fn count(&self) {
        let calls = self.page.calls.load(Ordering::Relaxed);
        self.page.calls.store(calls + 1, Ordering::Relaxed);
        self.state.end_reads();
    }

    /// Advances its clock. Signals that become due are delivered.
    #[inline]
    pub fn spend(&self, time_ps: u64) {
        // A handler that interrupts this may move the clock, too.
        self.page
            .clock_ps
            .fetch_add(time_ps.min(NEVER_PS >> 4), Ordering::Relaxed);
        self.deliver_signals();
    }

    /// Advances its clock, for `work`.
    #[inline]
    pub fn work(&self, work: Work, time_ps: u64) {
        if joined::is_recorded() {
            // Work without room in the list is not recorded.
            let slot = work as u32;
            let done = &self.page.done;
            done.add(StoreKind::Work, slot, self.now_ps(), &[time_ps]);
        }
        self.spend(time_ps);
    }

    /// Makes a store to its card, or to a stream, at its own time.
    pub fn store(&self, kind: StoreKind, slot: u32, words: &[u64]) {
        let begun_ps = self.page.begun_ps.load(Ordering::Relaxed);
        let is_close = self.now_ps() <= begun_ps.saturating_add(MOST_AHEAD_PS);
        if !is_close && !self.is_hidden() {
            self.wait(&Wait::Room);
        }
        let is_added = self.page.stores.add(kind, slot, self.now_ps(), words);
        if !is_added {
            self.wait(&Wait::Room);
            // The list is empty now. A store that still does not fit is larger than any of the
            // card's.
            self.page.stores.add(kind, slot, self.now_ps(), words);
        }
        let reaction_ps = self.page.reaction_ps.load(Ordering::Relaxed);
        let caused_ps = self.now_ps().saturating_add(reaction_ps);
        let hidden_until = &self.page.hidden_until_ps;
        let hidden_until_ps = hidden_until.load(Ordering::Relaxed);
        hidden_until.store(hidden_until_ps.min(caused_ps), Ordering::Relaxed);
    }

    /// Does the same as [`Self::catch_up`], for a check of memory that the card writes. While no
    /// new write can be visible, the thread keeps its turn and reports the check later.
    #[inline]
    pub fn check(&self) {
        if !self.is_hidden() || self.is_up_to_date() {
            return self.catch_up();
        }
        if !self
            .page
            .stores
            .add(StoreKind::Check, 0, self.now_ps(), &[])
        {
            self.catch_up();
        }
    }

    /// Returns true if no write of the card can have become visible since the turn began: then the
    /// world may reach the thread's time without giving it a turn.
    #[inline]
    fn is_hidden(&self) -> bool {
        // A recorder needs each event when it happens.
        self.now_ps() < self.page.hidden_until_ps.load(Ordering::Relaxed) && !joined::is_recorded()
    }

    /// Lets the world catch up, unless it is known that nothing has changed.
    #[inline]
    pub fn catch_up(&self) {
        if !self.is_up_to_date() {
            self.wait(&Wait::Check);
        }
    }

    /// Does the same as [`Self::catch_up`], if the turn has lasted longer than `most_ps`.
    #[inline]
    pub fn catch_up_after(&self, most_ps: u64) {
        let begun_ps = self.page.begun_ps.load(Ordering::Relaxed);
        if self.now_ps() > begun_ps.saturating_add(most_ps) {
            self.catch_up();
        }
    }

    /// Returns true if it is known that nothing has changed since the turn began.
    #[inline]
    fn is_up_to_date(&self) -> bool {
        let now_ps = self.now_ps();
        let is_quiet = now_ps < self.page.quiet_until_ps.load(Ordering::Relaxed)
            || now_ps == self.page.begun_ps.load(Ordering::Relaxed);
        is_quiet && self.page.stores.is_empty()
    }

    /// Does the same as [`Self::catch_up`], and gives the world all stores, so that the thread's
    /// next access outside of the page sees their effect.
    pub fn flush(&self) {
        self.catch_up();
        self.page.hidden_until_ps.store(0, Ordering::Relaxed);
    }

    /// Passes the turn. Returns the answer when it is back, and zero when the world has ended.
    ///
    /// Interrupt functions and handlers of due signals run before it returns.
    pub fn wait(&self, wait: &Wait) -> u64 {
        let signals = child_signals::hold_back();
        let takes_ends = signals.as_ref().is_some_and(HeldBack::is_taken);
        self.page
            .takes_ends_of_children
            .store(takes_ends.into(), Ordering::Relaxed);
        self.page.request.set(wait);
        self.page.pass(Turn::World);
        if !wait_for_turn(self.page) {
            return 0;
        }
        let answer = self.page.answer.load(Ordering::Relaxed);
        let vectors = self.page.interrupts.swap(0, Ordering::Relaxed);
        if vectors != 0 {
            interrupts::handle(vectors);
        }
        self.deliver_signals();
        if takes_ends {
            let depth = self.state.suspend();
            drop(signals);
            self.state.resume(depth);
        }
        answer
    }

    /// Calls a function that waits for something that the world does not model; the world continues
    /// meanwhile.
    pub fn outside<T>(&self, call: impl FnOnce() -> T) -> T {
        trust::note_departure(&self.page.last_call.get());
        // From the thread's next turn on, the world does not wait for it.
        self.wait(&Wait::External);
        let result = call();
        os::keeping_errno(|| self.wait(&Wait::Return));
        result
    }

    /// Delivers signals of due timers: their handlers may call anything.
    pub fn deliver_signals(&self) {
        if self.now_ps() < self.page.deadline_ps.load(Ordering::Relaxed) {
            return;
        }
        let depth = self.state.suspend();
        timers::after_turn();
        self.state.resume(depth);
    }
}

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        self.state.leave();
    }
}
