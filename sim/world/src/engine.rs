//! The world without the kind of its cards, and what buses and threads share of it.

use std::sync::Arc;

use ferroce_driver::bus::Bus;
use ferroce_model::time::timing::Timing;
use ferroce_units::{Duration, Instant};
use parking_lot::Mutex;

use super::bus::WorldBus;
use super::config::WorldConfig;
use super::core::{Core, DeviceStop, State, ThreadEntry};
use super::counters::HostCounters;
use super::recorder::SharedRecorder;
use super::thread::{Clock, Next, ThreadId};
use ferroce_platform::interrupts::Interrupts;
use ferroce_platform::served::ServedModel;

/// Why the world does not go on by itself.
#[derive(Debug, Clone, Copy)]
pub(super) enum Stop {
    /// A thread has its turn; nothing else happens on its host before `quiet_until`.
    Thread {
        thread: ThreadId,
        now: Instant,
        quiet_until: Instant,
    },
    /// The time is over.
    Until,
    /// There is nothing to come.
    Idle,
    /// Events come without end, and nothing happens.
    Stalled,
}

/// The world without the kind of its cards.
pub(super) trait Engine: Send + Sync {
    /// Takes back the thread that was stepped, and goes on until something stops it.
    fn advance(&self, stepped: Option<(ThreadId, Next)>, until: Instant) -> Stop;
    /// Takes back a thread that was stepped.
    fn finish(&self, thread: ThreadId, next: Next);
    fn bus(self: Arc<Self>, host: usize) -> Arc<dyn Bus>;
    fn served(self: Arc<Self>, host: usize) -> Arc<dyn ServedModel>;
    fn add_thread(&self, host: usize);
    fn end_thread(&self, thread: ThreadId);
    /// Lets a thread go on that is parked.
    fn wake(&self, thread: ThreadId, at: Instant);
    /// Lets a thread look that polls.
    fn look_again(&self, thread: ThreadId, at: Instant);
    fn next_event(&self) -> Option<Instant>;
    fn has_only_looks(&self) -> bool;
    /// [`Core::hidden_until`].
    fn hidden_until(&self, thread: ThreadId) -> (Instant, Duration);
    fn now(&self) -> Instant;
    fn counters(&self, host: usize) -> HostCounters;
    fn events(&self) -> u64;
    fn record(&self, recorder: Option<SharedRecorder>);
    fn dump(&self) -> String;
}

/// A world that buses share.
pub(super) struct Shared<T: Timing> {
    pub core: Mutex<Core<T>>,
    pub clock: Arc<Clock>,
    pub interrupts: Vec<Interrupts>,
}

impl<T: Timing> Shared<T> {
    pub fn new(config: &WorldConfig, clock: &Arc<Clock>, card: impl FnMut(usize) -> T) -> Self {
        Self {
            core: Mutex::new(Core::new(config, card)),
            clock: Arc::clone(clock),
            interrupts: (0..config.hosts).map(|_| Interrupts::default()).collect(),
        }
    }

    /// Calls the handlers of a host's interrupts, at the world's time.
    pub fn deliver(&self, now: Instant, host: usize, vectors: u64) {
        self.clock.set(now);
        self.interrupts[host].deliver(vectors);
        self.core.lock().is_stepping = false;
    }
}

impl<T: Timing + Send + 'static> Engine for Shared<T> {
    fn advance(&self, stepped: Option<(ThreadId, Next)>, until: Instant) -> Stop {
        let mut core = self.core.lock();
        if let Some((thread, next)) = stepped {
            core.finish(thread, next, self.clock.now(), self.clock.deadlines());
        }
        loop {
            match core.advance(until) {
                DeviceStop::Thread(thread) => return core.begin(thread),
                DeviceStop::Until => return core.pause(Stop::Until),
                DeviceStop::Idle => return core.pause(Stop::Idle),
                DeviceStop::Stalled => return core.pause(Stop::Stalled),
                DeviceStop::Interrupts(host) => {
                    let vectors = core.take_interrupts(host);
                    let now = core.outside(core.now);
                    drop(core);
                    self.deliver(now, host, vectors);
                    core = self.core.lock();
                }
            }
        }
    }

    fn finish(&self, thread: ThreadId, next: Next) {
        let mut core = self.core.lock();
        core.finish(thread, next, self.clock.now(), self.clock.deadlines());
        core.pause(Stop::Idle);
    }

    fn bus(self: Arc<Self>, host: usize) -> Arc<dyn Bus> {
        Arc::new(WorldBus::new(self, host))
    }

    fn served(self: Arc<Self>, host: usize) -> Arc<dyn ServedModel> {
        Arc::new(WorldBus::new(self, host).into_served())
    }

    fn add_thread(&self, host: usize) {
        let mut core = self.core.lock();
        let thread = core.entries.len();
        let now = core.now;
        core.entries.push(ThreadEntry {
            host,
            state: State::Waiting,
            clock: now,
            patience: None,
        });
        core.threads.add_part();
        let moment = core.moment(now);
        core.threads.set(thread, Some(moment));
    }

    fn end_thread(&self, thread: ThreadId) {
        let mut core = self.core.lock();
        let node = core.entries[thread.0].host;
        let node = &mut core.nodes[node];
        node.host.watchers.remove(thread.0);
        node.sleepers.retain(|(sleeper, _)| *sleeper != thread.0);
        core.threads.set(thread.0, None);
        core.entries[thread.0].state = State::Done;
    }

    fn wake(&self, thread: ThreadId, at: Instant) {
        self.core.lock().wake(thread, at);
    }

    fn look_again(&self, thread: ThreadId, at: Instant) {
        self.core.lock().look_again(thread, at);
    }

    fn has_only_looks(&self) -> bool {
        self.core.lock().has_only_looks()
    }

    fn next_event(&self) -> Option<Instant> {
        let core = self.core.lock();
        core.next_event().map(|time| core.outside(time))
    }

    fn hidden_until(&self, thread: ThreadId) -> (Instant, Duration) {
        let core = self.core.lock();
        let (hidden_until, reaction) = core.hidden_until(thread.0);
        (core.outside(hidden_until), reaction)
    }

    fn now(&self) -> Instant {
        let core = self.core.lock();
        core.outside(core.now)
    }

    fn counters(&self, host: usize) -> HostCounters {
        let core = self.core.lock();
        let node = &core.nodes[host];
        HostCounters {
            nic: node.nic.counters().clone(),
            pcie: node.host.pcie.as_ref().map(|pcie| pcie.counters()),
            link: core.fabric.counters(host),
        }
    }

    fn events(&self) -> u64 {
        self.core.lock().events
    }

    fn record(&self, recorder: Option<SharedRecorder>) {
        let mut core = self.core.lock();
        core.fabric.record(recorder.clone());
        let now = core.now;
        for (number, node) in core.nodes.iter_mut().enumerate() {
            node.host.record(recorder.clone());
            if let Some(recorder) = &recorder {
                node.observe(now, number, recorder);
            }
        }
        core.recorder = recorder;
    }

    fn dump(&self) -> String {
        self.core.lock().dump()
    }
}
