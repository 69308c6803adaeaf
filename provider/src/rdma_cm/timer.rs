//! The thread that runs the time-outs of communication management. It exists only while there are
//! any.

use std::io;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use ferroce_platform::os;
use parking_lot::{Condvar, Mutex};

use super::agent::Agent;

/// How long the thread stays when no time-out is left: the next connection is often near.
const IDLE_TIME: Duration = Duration::from_millis(500);

/// The earliest time-out of an agent, and its thread.
#[derive(Default)]
pub struct Timer {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    due: Option<Instant>,
    is_running: bool,
}

impl Timer {
    /// Sets the time at which [`Agent::run`] is called next. Starts the thread if needed.
    pub fn set(self: &Arc<Self>, due: Option<Instant>, agent: &Weak<Agent>) {
        let mut state = self.state.lock();
        if state.due == due {
            return;
        }
        state.due = due;
        if state.is_running {
            self.changed.notify_one();
        } else if due.is_some() {
            state.is_running = self.start(agent).is_ok();
        }
    }

    /// Starts the thread. It never runs a signal handler of the application.
    fn start(self: &Arc<Self>, agent: &Weak<Agent>) -> io::Result<()> {
        let builder = std::thread::Builder::new().name("ferroce-cm".to_owned());
        let (timer, agent) = (Arc::clone(self), Weak::clone(agent));
        let started = os::with_signals_blocked(|| builder.spawn(move || timer.run(&agent)));
        started
            .map(drop)
            .inspect_err(|error| tracing::warn!(%error, "no thread for RDMA CM time-outs"))
    }

    fn run(&self, agent: &Weak<Agent>) {
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
        loop {
            let now = Instant::now();
            match state.due {
                Some(due) if due <= now => {
                    state.due = None;
                    return true;
                }
                Some(due) => drop(self.changed.wait_until(&mut state, due)),
                None => {
                    let waited = self.changed.wait_for(&mut state, IDLE_TIME);
                    if waited.timed_out() && state.due.is_none() {
                        state.is_running = false;
                        return false;
                    }
                }
            }
        }
    }
}
