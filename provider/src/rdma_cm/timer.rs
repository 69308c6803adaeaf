//! The earliest time-out of communication management, for the thread that waits for it.

use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time limit for the thread to start.
const START_LIMIT: Duration = Duration::from_secs(5);

/// The earliest time-out of an agent, and the state of its thread.
///
/// It uses the standard library's locks, which share no state. `parking_lot` keeps all waiting
/// threads in one table: if the process forks while this thread begins or ends to wait, the child
/// finds a part of that table locked.
#[derive(Default)]
pub struct Timer {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    due: Option<Instant>,
    has_started: bool,
    is_stopping: bool,
}

impl Timer {
    /// Waits until the thread runs.
    ///
    /// # Errors
    /// `TimedOut` after [`START_LIMIT`].
    pub fn wait_for_start(&self) -> io::Result<()> {
        let is_waiting = |state: &mut State| !state.has_started;
        let state = self.state();
        let waited = self
            .changed
            .wait_timeout_while(state, START_LIMIT, is_waiting);
        match waited.unwrap_or_else(PoisonError::into_inner) {
            (_, result) if result.timed_out() => Err(io::ErrorKind::TimedOut.into()),
            _ => Ok(()),
        }
    }

    /// Notes that the thread runs.
    pub fn note_start(&self) {
        self.state().has_started = true;
        self.changed.notify_all();
    }

    /// Sets the next time-out.
    pub fn set(&self, due: Option<Instant>) {
        let mut state = self.state();
        if state.due != due {
            state.due = due;
            self.changed.notify_all();
        }
    }

    /// Ends the thread.
    pub fn stop(&self) {
        self.state().is_stopping = true;
        self.changed.notify_all();
    }

    /// Waits for the next time-out. Returns false if the thread is to end.
    pub fn wait(&self) -> bool {
        let mut state = self.state();
        while !state.is_stopping {
            let now = Instant::now();
            state = match state.due {
                Some(due) if due <= now => {
                    state.due = None;
                    return true;
                }
                Some(due) => {
                    let waited = self.changed.wait_timeout(state, due - now);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => {
                    let waited = self.changed.wait(state);
                    waited.unwrap_or_else(PoisonError::into_inner)
                }
            };
        }
        false
    }

    /// Locks the state. Each change is one assignment, so it is consistent after a panic, too.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
