//! The thread that runs the time-outs of communication management, while there is an agent.

use std::io;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use ferroce_platform::os;
use parking_lot::{Condvar, Mutex};

use super::agent::Agent;

/// Time limit for the thread to start.
const START_LIMIT: Duration = Duration::from_secs(5);

/// The earliest time-out of an agent, and its thread.
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
    /// Starts the thread, and returns when it runs: a program may patch functions of libc, as
    /// libfabric does, and a thread that is just starting would run into that. It never runs a
    /// signal handler of the application.
    ///
    /// # Errors
    /// The error of the system.
    pub fn start(self: &Arc<Self>, agent: Weak<Agent>) -> io::Result<()> {
        let builder = std::thread::Builder::new().name("ferroce-cm".to_owned());
        let timer = Arc::clone(self);
        os::with_signals_blocked(|| builder.spawn(move || timer.run(&agent)))?;
        let deadline = Instant::now() + START_LIMIT;
        let mut state = self.state.lock();
        while !state.has_started {
            if self.changed.wait_until(&mut state, deadline).timed_out() {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        Ok(())
    }

    /// Sets the time at which [`Agent::run`] is called next.
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

    fn run(&self, agent: &Weak<Agent>) {
        self.state.lock().has_started = true;
        self.changed.notify_all();
        while self.wait() {
            let Some(agent) = agent.upgrade() else {
                return;
            };
            agent.run();
        }
    }

    /// Waits for the next time-out. Returns false if the thread is to end.
    fn wait(&self) -> bool {
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
