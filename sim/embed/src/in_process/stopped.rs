//! A program that is stopped while its card goes on: the situation `peer-stopped`.
//!
//! SIGSTOP would also stop the thread that runs the model. Instead, the threads of the program wait
//! in their next call that reaches the bus, and interrupts wait.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ThreadId};

use parking_lot::{Condvar, Mutex};

use super::InProcess;
use crate::clock::Ticks;

/// Whether the program is stopped.
#[derive(Debug, Default)]
pub(super) struct Stopped {
    is_stopped: AtomicBool,
    /// Vectors that were raised meanwhile, one bit each.
    interrupts: Mutex<u64>,
    continues: Condvar,
    /// The thread that runs the model meanwhile.
    background: Mutex<Option<ThreadId>>,
}

impl Stopped {
    #[inline]
    pub(super) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    pub(super) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    /// Lets the program continue. Returns the vectors that were raised meanwhile.
    pub(super) fn end(&self) -> u64 {
        let mut interrupts = self.interrupts.lock();
        self.is_stopped.store(false, Ordering::Relaxed);
        self.continues.notify_all();
        std::mem::take(&mut interrupts)
    }

    /// Keeps raised vectors if the program is stopped. Returns those to be delivered now.
    #[cold]
    fn keep(&self, raised: u64) -> u64 {
        let mut interrupts = self.interrupts.lock();
        if !self.is_stopped() {
            return raised;
        }
        *interrupts |= raised;
        0
    }
}

impl InProcess {
    /// Records that the calling thread runs the model while the program does not.
    pub fn set_background_thread(&self) {
        *self.stopped.background.lock() = Some(thread::current().id());
    }

    /// Delivers interrupts, unless the program is stopped.
    #[inline]
    pub(super) fn deliver(&self, raised: u64) {
        let raised = match self.stopped.is_stopped() && raised != 0 {
            true => self.stopped.keep(raised),
            false => raised,
        };
        self.interrupts.deliver(raised);
    }

    /// Waits while the program is stopped.
    #[inline]
    pub(super) fn wait_while_stopped(&self) {
        if self.stopped.is_stopped() {
            self.wait_for_end_of_stop();
        }
    }

    /// The background thread does not wait: it has to end the stop.
    #[cold]
    fn wait_for_end_of_stop(&self) {
        if self.is_foreign() || *self.stopped.background.lock() == Some(thread::current().id()) {
            return;
        }
        self.words().set_polls_until(Ticks(0));
        self.words().wake_background(self.clock().ticks());
        let mut interrupts = self.stopped.interrupts.lock();
        while self.stopped.is_stopped() {
            self.stopped.continues.wait(&mut interrupts);
        }
    }
}
