//! Threads and processes that wait for one another.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ferroce_timed_protocol::children::CHILDREN_ADDRESS;
use ferroce_timed_protocol::request::{Wait, takers_of_signals};
use ferroce_units::Instant;
use ferroce_world::{Cpu, Next, ThreadId};

use super::{Common, Goal, NOTHING, RemoteThread};
use crate::addresses::{Arrival, place_of};
use crate::processes::{await_end, await_signal};
use crate::program::Program;

/// Time that the world waits for a process that has called `exit`: its handlers may run for long.
const END_LIMIT: Duration = Duration::from_secs(1);

impl RemoteThread {
    /// Lets the thread wait until another one wakes an address.
    pub(super) fn wait_at(
        &mut self,
        thread: ThreadId,
        address: u64,
        bits: u32,
        clock: Instant,
    ) -> Next {
        let place = place_of(self.program.id, address);
        let mut addresses = self.common.addresses.borrow_mut();
        addresses.wait(place, thread, bits, clock);
        self.goal = Goal::Address(place);
        Next::Parked
    }

    /// Sets the answer to a wait for an address, or at a barrier.
    pub(super) fn note_wake(&mut self, thread: ThreadId) {
        match self.goal {
            Goal::Address(place) => {
                let is_woken = !self.common.addresses.borrow_mut().remove(place, thread);
                self.answer = if is_woken { 0 } else { NOTHING };
            }
            Goal::LastAtBarrier => self.answer = 1,
            _ => {}
        }
    }

    /// Lets other polling threads of the program and of its relatives check, after a turn in which
    /// this thread may have done what they wait for. A thread that only polls, or continues at
    /// once, does not trigger this: polling threads would wake each other in every turn. They check
    /// from time to time anyway.
    pub(super) fn let_others_check(&mut self, cpu: &Cpu<'_>, wait: &Wait) {
        let rests = !matches!(wait, Wait::Check | Wait::Room | Wait::OnWrite { .. });
        if !(std::mem::replace(&mut self.has_rested, rests) || rests) {
            return;
        }
        for place in &*self.common.places.borrow() {
            if self.shares_memory_with(&place.program) && place.thread != cpu.thread() {
                self.common.waker.look_again(place.thread, cpu.now());
            }
        }
    }

    /// Returns true if the end of a child ends its wait.
    pub(super) fn is_interrupted(&self) -> bool {
        let page = self.program.page(self.number);
        page.is_interrupted.load(Ordering::Relaxed) != 0
    }

    /// Returns true if a program may see what this thread writes to memory.
    fn shares_memory_with(&self, other: &Program) -> bool {
        other.is_related_to(&self.program) && other.name.host == self.program.name.host
    }

    /// Lets the thread wait at a barrier, or opens it.
    pub(super) fn arrive(
        &mut self,
        thread: ThreadId,
        address: u64,
        threads: u32,
        clock: Instant,
    ) -> Next {
        let place = place_of(self.program.id, address);
        let mut addresses = self.common.addresses.borrow_mut();
        let arrival = addresses.arrive(place, thread, threads, clock);
        drop(addresses);
        match arrival {
            Arrival::Waits => {
                self.goal = Goal::Address(place);
                Next::Parked
            }
            Arrival::Last { at, others } => {
                for other in others {
                    self.common.waker.wake(other, at);
                }
                self.aim(Goal::LastAtBarrier, at)
            }
        }
    }
}

impl Common {
    /// Returns the parent of a program, if it is in the world.
    pub fn parent_of(&self, program: &Program) -> Option<Arc<Program>> {
        let is_parent = |other: &Program| {
            Some(other.pid) == program.parent && other.is_related_to(program) && !other.is_over()
        };
        let places = self.places.borrow();
        let parent = places.iter().find(|place| is_parent(&place.program));
        parent.map(|place| Arc::clone(&place.program))
    }

    /// Notes that a program has ended, and lets its parent know. Returns false if that was noted
    /// before.
    pub fn note_end(&self, program: &Program, now: Instant) -> bool {
        let is_new = program.note_end();
        if is_new && let Some(parent) = self.parent_of(program) {
            self.note_end_of_child(program, &parent, now);
        }
        is_new
    }

    fn note_end_of_child(&self, program: &Program, parent: &Arc<Program>, now: Instant) {
        if program.has_left() || program.departures() > 0 {
            parent.note_departure("a child process");
        }
        if program.has_left() {
            parent.children().remove(program.pid);
        } else {
            parent.children().end(program.pid);
            // The kernel signals the parent before the parent's next turn.
            await_end(program, END_LIMIT);
            await_signal(parent, END_LIMIT);
        }
        for address in [CHILDREN_ADDRESS, takers_of_signals(parent.pid)] {
            self.wake_address(parent, address, u32::MAX, u32::MAX, now);
        }
        self.notify(parent, now, None);
        self.interrupt(parent, now);
    }

    /// Interrupts the wait of the first thread of a program that handles ends of children. A sleep
    /// until a time goes on.
    fn interrupt(&self, program: &Program, now: Instant) {
        for place in &*self.places.borrow() {
            let page = place.program.page(place.number);
            let takes_ends = page.takes_ends_of_children.load(Ordering::Relaxed) != 0;
            if place.program.id == program.id && takes_ends {
                page.is_interrupted.store(1, Ordering::Relaxed);
                self.waker.wake(place.thread, now);
                self.waker.wake_sleeper(place.thread, now);
                return;
            }
        }
    }

    /// Wakes up to `most` threads of a program that wait for an address with one of `bits`. Returns
    /// their number.
    pub fn wake_address(
        &self,
        program: &Program,
        address: u64,
        most: u32,
        bits: u32,
        now: Instant,
    ) -> u64 {
        let place = place_of(program.id, address);
        let woken = self.addresses.borrow_mut().wake(place, most, bits, now);
        for (thread, at) in &woken {
            self.waker.wake(*thread, *at);
        }
        woken.len() as u64
    }
}
