//! The earliest time-out of communication management, for the thread that waits for it.

use std::io;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// Time limit for the thread to start.
const START_LIMIT: Duration = Duration::from_secs(5);

/// The earliest time-out of an agent, and the state of its thread.
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
        let deadline = Instant::now() + START_LIMIT;
        let mut state = self.state.lock();
        while !state.has_started {
            if self.changed.wait_until(&mut state, deadline).timed_out() {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        Ok(())
    }

    /// Notes that the thread runs.
    pub fn note_start(&self) {
        self.state.lock().has_started = true;
        self.changed.notify_all();
    }

    /// Sets the next time-out.
    pub fn set(&self, due: Option<Instant>) {
        let mut state = self.state.lock();
        if state.due != due {
            state.due = due;
            self.changed.notify_all();
        }
    }

    /// Ends the thread.
    pub fn stop(&self) {
        self.state.lock().is_stopping = true;
        self.changed.notify_all();
    }

    /// Waits for the next time-out. Returns false if the thread is to end.
    pub fn wait(&self) -> bool {
        let mut state = self.state.lock();
        while !state.is_stopping {
            match state.due {
                Some(due) if due <= Instant::now() => {
                    state.due = None;
                    return true;
                }
                Some(due) => drop(self.changed.wait_until(&mut state, due)),
                None => self.changed.wait(&mut state),
            }
        }
        false
    }
}
