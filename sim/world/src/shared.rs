//! A world that is shared by its buses and threads.

use std::sync::Arc;

use ferroce_host::interrupts::Interrupts;
use ferroce_model::time::timing::Timing;
use ferroce_units::Instant;
use parking_lot::Mutex;

use super::Error;
use super::config::WorldConfig;
use super::event_loop::EventLoop;
use super::thread::Clock;

/// A world that its buses share.
pub(super) struct Shared<T: Timing> {
    pub event_loop: Mutex<EventLoop<T>>,
    pub clock: Arc<Clock>,
    pub interrupts: Vec<Interrupts>,
}

impl<T: Timing> Shared<T> {
    pub fn new(
        config: &WorldConfig,
        clock: &Arc<Clock>,
        card: impl FnMut(usize) -> T,
    ) -> Result<Self, Error> {
        Ok(Self {
            event_loop: Mutex::new(EventLoop::new(config, card)?),
            clock: Arc::clone(clock),
            interrupts: (0..config.hosts).map(|_| Interrupts::default()).collect(),
        })
    }

    /// Calls the handlers of a host's interrupts at the world's time.
    pub fn deliver(&self, now: Instant, host: usize, vectors: u64) {
        self.clock.set(now);
        self.interrupts[host].deliver(vectors);
        self.event_loop.lock().is_stepping = false;
    }
}
