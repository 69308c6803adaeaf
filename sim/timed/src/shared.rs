//! State shared by the threads of a world's own process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::program::Program;

/// An event for the world.
#[derive(Debug)]
pub enum Event {
    /// A thread of a program waits for its first turn; the number of its page.
    Thread(Arc<Program>, usize),
    /// A program has left.
    Gone(Arc<Program>),
    /// A program has executed another one, which has joined.
    Replaced(Arc<Program>),
    /// A thread outside of the world wakes threads of its program that wait for this address.
    Wake(Arc<Program>, u64),
    /// A thread outside of the world has done something for which threads of its program may wait
    /// that wait for events.
    Notify(Arc<Program>),
    /// A client has used a card.
    Access,
    /// A program has opened its first channel of RDMA CM in this world.
    Cm,
}

/// State between the sockets and the world.
#[derive(Debug)]
pub struct Shared {
    events: Mutex<Vec<Event>>,
    changed: Condvar,
    has_events: AtomicBool,
    is_stopping: AtomicBool,
    wants_dump: AtomicBool,
    /// Interrupts of each host that no program has seen yet: a bit for each vector.
    interrupts: Vec<AtomicU64>,
    /// Number of uses of each host's card.
    uses: Vec<AtomicU64>,
}

impl Shared {
    /// Creates the state of a world with this many hosts.
    pub fn new(hosts: usize) -> Self {
        Self {
            events: Mutex::default(),
            changed: Condvar::new(),
            has_events: AtomicBool::new(false),
            is_stopping: AtomicBool::new(false),
            wants_dump: AtomicBool::new(false),
            interrupts: (0..hosts).map(|_| AtomicU64::new(0)).collect(),
            uses: (0..hosts).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Reports an event to the world.
    pub fn report(&self, event: Event) {
        let mut events = self.events.lock();
        if !(matches!(event, Event::Access) && matches!(events.last(), Some(Event::Access))) {
            events.push(event);
        }
        self.has_events.store(true, Ordering::SeqCst);
        self.changed.notify_all();
    }

    /// Returns true if there are events that the world has not taken.
    #[inline]
    pub fn has_events(&self) -> bool {
        self.has_events.load(Ordering::Relaxed)
    }

    /// Takes the events.
    pub fn take_events(&self) -> Vec<Event> {
        let mut events = self.events.lock();
        self.has_events.store(false, Ordering::SeqCst);
        std::mem::take(&mut events)
    }

    /// Waits for an event, at most for `limit`.
    pub fn wait(&self, limit: Duration) {
        let mut events = self.events.lock();
        if !self.has_events() && !self.is_stopping() && !self.wants_dump() {
            self.changed.wait_for(&mut events, limit);
        }
    }

    /// Ends the world.
    pub fn stop(&self) {
        let _events = self.events.lock();
        self.is_stopping.store(true, Ordering::SeqCst);
        self.has_events.store(true, Ordering::SeqCst);
        self.changed.notify_all();
    }

    /// Returns true if the world is to end.
    pub fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::SeqCst)
    }

    /// Requests that the state of the world be printed.
    pub fn ask_for_dump(&self) {
        let _events = self.events.lock();
        self.wants_dump.store(true, Ordering::SeqCst);
        self.has_events.store(true, Ordering::SeqCst);
        self.changed.notify_all();
    }

    /// Returns true if the state of the world was requested.
    pub fn wants_dump(&self) -> bool {
        self.wants_dump.load(Ordering::SeqCst)
    }

    /// Prints what `dump` returns, if it was requested.
    pub fn dump_if_wanted(&self, dump: impl FnOnce() -> String) {
        if self.wants_dump() {
            self.wants_dump.store(false, Ordering::SeqCst);
            eprint!("ferroce world: {}", dump());
        }
    }

    /// Counts a use of a host's card.
    pub fn note_use(&self, host: usize) {
        self.uses[host].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how often the card of a host was used.
    pub fn uses(&self, host: usize) -> u64 {
        self.uses[host].load(Ordering::Relaxed)
    }

    /// Adds interrupts that a card has sent.
    pub fn add_interrupts(&self, host: usize, vectors: u64) {
        self.interrupts[host].fetch_or(vectors, Ordering::Relaxed);
    }

    /// Returns true if a host has interrupts that no thread has taken.
    pub fn has_interrupts(&self, host: usize) -> bool {
        self.interrupts[host].load(Ordering::Relaxed) != 0
    }

    /// Takes a host's interrupts.
    #[inline]
    pub fn take_interrupts(&self, host: usize) -> u64 {
        if self.has_interrupts(host) {
            self.interrupts[host].swap(0, Ordering::Relaxed)
        } else {
            0
        }
    }
}
