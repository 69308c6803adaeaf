//! The world: hosts, NICs, links and a switch under one clock, in one thread.
//!
//! ```text
//!  threads ── driver ── bus ──► NIC ──► link, switch ──► NIC ──► host memory
//!     ▲                    MMIO                              posted writes │
//!     └──────────────────────── wake-up ◄──────────────────────────────────┘
//! ```
//!
//! The world handles events ordered by (time, sequence). The NICs are the model's [`Nic`]; the
//! world advances each of them when its next timer or edge is due, when a frame arrives that it has
//! not taken yet, and when a doorbell arrives. A host's programs are [`Thread`]s: each step runs at
//! the thread's own clock, calls the real driver, and returns the event for which the thread waits.
//! An idle poller costs nothing: it sleeps until something becomes visible in its host's memory,
//! and wakes on its own polling grid.
//!
//! Writes of a NIC become visible at their time and not before (`posted`). Commands take no
//! simulated time while a thread is in a step. Outside of [`World::run`], each [`Bus::relax`]
//! advances the devices, but not the threads, to their next event, so that devices can be opened
//! and objects created before the run.
//!
//! The same seed and the same threads give the same events.
//!
//! [`Nic`]: ferroce_model::Nic

mod bus;
mod config;
mod counters;
mod device_clock;
mod devices;
mod dump;
mod engine;
mod event_heap;
mod event_loop;
mod fabric;
pub mod fabric_plan;
mod fast_forward;
mod frame;
mod host;
mod identity;
mod machines;
mod node;
mod pause_frame;
mod persistence;
mod posted;
mod rate;
pub mod recorder;
mod schedule;
mod served;
mod shared;
mod situations;
mod switch;
mod thread;
pub mod trace;
mod usage;
mod watch;

use std::sync::Arc;

pub use config::{Topology, WorldConfig};
pub use counters::{HostCounters, LinkCounters};
use engine::Engine;
use event_loop::Stop;
pub use fabric::Arrivals;
pub use fabric::channel::QueueSample;
pub use fabric::report::{FabricReport, PortReport};
pub use fabric_plan::{
    FabricError, FabricPlan, LinkPlan, MAX_FUNCTIONS, MarkCurve, MultiFunctionHost,
    Node as FabricNode, PathChoice, PauseStorm, PfcPlan, SwitchPlan,
};
use ferroce_driver::bus::Bus;
use ferroce_driver::{AddressVector, Device, DeviceConfig};
use ferroce_host::identity::HostIdentity;
use ferroce_host::numbered_hosts;
use ferroce_model::pcie::machine::Target;
use ferroce_model::time::timing::{Functional, Timed, Timing};
use ferroce_units::{Duration, Instant};
pub use pause_frame::PauseFrame;
pub use persistence::{MAX_BYTES as MAX_PERSISTENT_BYTES, PersistentMemory};
pub use recorder::{
    Activity, FaultSeen, FrameSeen, Observation, PcieObservation, PortObservation, Received,
    Recorder, SharedRecorder, Span,
};
use schedule::Owner;
pub use served::ServedCard;
use shared::Shared;
use thread::Clock;
pub use thread::{Cpu, Next, Thread, ThreadId, Watch};
pub use usage::HostUsage;

/// Index of the GID that the hosts of a world use: the IPv4 address.
const GID_INDEX: usize = 1;
/// Hop limit of packets, as in a network with routers.
const HOP_LIMIT: u8 = 64;
/// A UDP source port of the dynamic range.
const UDP_SOURCE_PORT: u16 = 0xc000;

/// Reason why a world cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No hosts, or more hosts than addresses.
    #[error("a world has 1 to {limit} hosts, not {hosts}", limit = config::MAX_HOSTS)]
    Hosts {
        /// The number of hosts that was requested.
        hosts: usize,
    },
    /// A cable has two ends.
    #[error("{hosts} hosts cannot be joined by one cable")]
    Cable {
        /// The number of hosts that was requested.
        hosts: usize,
    },
    /// The fabric cannot be built.
    #[error("the fabric: {0}")]
    Fabric(#[from] FabricError),
    /// A preset names a host that does not exist.
    #[error("there is no host {host}")]
    NoSuchHost {
        /// The host.
        host: usize,
    },
    /// A machine has fewer cards than are in use.
    #[error("there is no card {card}: the machine of the preset has {there_are}")]
    NoSuchCard {
        /// The card.
        card: usize,
        /// The number of cards.
        there_are: usize,
    },
    /// The driver cannot bring a device up.
    #[error("the device of host {host}: {source}")]
    Device {
        /// The host.
        host: usize,
        /// The error of the driver.
        source: ferroce_driver::Error,
    },
}

/// Reason why a run has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// All threads are done.
    Done,
    /// The time limit is reached, or a thread has ended the run: [`Cpu::leave`].
    Until,
    /// No event is pending, and no thread waits.
    Idle,
    /// Threads wait for something that will not happen, or loop without advancing time.
    /// [`World::dump`] has the details.
    Stalled,
}

/// Wakes threads that wait for something outside of the world: [`Next::Parked`].
#[derive(Clone)]
pub struct Waker(Arc<dyn Engine>);

impl Waker {
    /// Wakes a parked thread at `at`, or at its own time if that is later. Has no effect on other
    /// threads.
    pub fn wake(&self, thread: ThreadId, at: Instant) {
        self.0.wake(thread, at);
    }

    /// Wakes a thread that waits for an interrupt, at `at` or at its own time if that is later,
    /// because its condition may have come true without an interrupt. Has no effect on other
    /// threads.
    pub fn wake_sleeper(&self, thread: ThreadId, at: Instant) {
        self.0.wake_sleeper(thread, at);
    }

    /// Lets a polling thread poll at the first point of its polling grid that is not before `at`,
    /// because something other than a card may have changed its condition. Has no effect on other
    /// threads.
    pub fn look_again(&self, thread: ThreadId, at: Instant) {
        self.0.look_again(thread, at);
    }

    /// As [`World::has_only_rechecks`], ignoring the thread that is in a step.
    pub fn has_only_rechecks(&self) -> bool {
        self.0.has_only_rechecks()
    }

    /// Returns the time until which no write of a card becomes visible to a thread in a step, and
    /// the minimum time from a store of the thread to a write that its card makes in response.
    ///
    /// The values are as of the beginning of the step, and lower bounds; the time is later than
    /// [`Cpu::quiet_until`].
    pub fn hidden_until(&self, thread: ThreadId) -> (Instant, Duration) {
        self.0.hidden_until(thread)
    }
}

impl std::fmt::Debug for Waker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waker").finish_non_exhaustive()
    }
}

/// Carries frames between hosts without their cards, for traffic without a queue pair in the model.
///
/// Such a frame takes the time of the two MACs and of the network, and is captured, counted and
/// subject to faults like any other. It waits for others at switch ports, but not in the card.
#[derive(Clone)]
pub struct Wire(Arc<dyn Engine>);

impl Wire {
    /// Sends a frame from one host to another, or to itself, at `at`. Returns when it arrives; the
    /// caller then delivers it, twice if there are two times. `qpn`: the queue pair named in
    /// traces.
    ///
    /// # Panics
    /// If there is no such host.
    pub fn send(&self, at: Instant, from: usize, to: usize, qpn: u32, frame: &[u8]) -> Arrivals {
        self.0.carry_aside(at, from, to, qpn, frame)
    }
}

impl std::fmt::Debug for Wire {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wire").finish_non_exhaustive()
    }
}

/// Hosts, NICs, links and a switch under one clock.
pub struct World {
    engine: Arc<dyn Engine>,
    clock: Arc<Clock>,
    identities: Vec<HostIdentity>,
    pushes_inline_only: Vec<bool>,
    threads: Vec<Option<Slot>>,
    alive: usize,
}

/// A thread and its host.
struct Slot {
    host: usize,
    thread: Box<dyn Thread>,
}

impl World {
    /// Creates a world in its power-on state: no device is up, no thread runs, time is zero.
    ///
    /// # Errors
    /// [`Error::Hosts`], [`Error::Cable`], [`Error::NoSuchHost`].
    pub fn new(config: &WorldConfig) -> Result<Self, Error> {
        match &config.preset {
            None => Self::with_cards(config, |_| Functional),
            Some(_) => Self::with_cards(config, |host| {
                let preset = config.preset_of(host).expect("all hosts have the first");
                Timed::new(preset)
            }),
        }
    }

    /// Creates a world whose cards have the timing that `card` returns for each host.
    ///
    /// # Errors
    /// As [`World::new`].
    pub fn with_cards<T: Timing + Send + 'static>(
        config: &WorldConfig,
        card: impl FnMut(usize) -> T,
    ) -> Result<Self, Error> {
        config.check()?;
        let clock = Arc::new(Clock::default());
        Ok(Self {
            engine: Arc::new(Shared::new(config, &clock, card)?),
            clock,
            identities: (0..config.hosts).map(numbered_hosts::of_host).collect(),
            pushes_inline_only: (0..config.hosts)
                .map(|host| {
                    let preset = config.preset_of(host);
                    preset.is_some_and(|preset| preset.host.push_inline_only)
                })
                .collect(),
            threads: Vec::new(),
            alive: 0,
        })
    }

    /// Returns the number of hosts.
    pub fn hosts(&self) -> usize {
        self.identities.len()
    }

    /// Returns the bus of a host's NIC, for the driver.
    ///
    /// # Panics
    /// If there is no such host.
    pub fn bus(&self, host: usize) -> Arc<dyn Bus> {
        assert!(host < self.hosts(), "there is no host {host}");
        Arc::clone(&self.engine).bus(host)
    }

    /// Lets memory that a host's driver maps from now on lie in `target` of its machine. Without a
    /// topology there is only one memory.
    ///
    /// # Panics
    /// If there is no such host.
    pub fn place_memory(&self, host: usize, target: Target) {
        assert!(host < self.hosts(), "there is no host {host}");
        self.engine.place_memory(host, target);
    }

    /// Returns a host's NIC, to be served to another process.
    ///
    /// # Panics
    /// If there is no such host.
    pub fn served(&self, host: usize) -> Arc<dyn ServedCard> {
        assert!(host < self.hosts(), "there is no host {host}");
        Arc::clone(&self.engine).served(host)
    }

    /// Returns name, MAC address and GIDs of a host.
    pub fn identity(&self, host: usize) -> &HostIdentity {
        &self.identities[host]
    }

    /// Brings a host's device up and sets its GIDs.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub fn open(&self, host: usize) -> Result<Arc<Device>, Error> {
        let config = DeviceConfig {
            push_inline_only: self.pushes_inline_only[host],
            ..DeviceConfig::default()
        };
        let device = Device::open_with(self.bus(host), &config)
            .and_then(|device| identity::set_gids(&device, self.identity(host)).map(|()| device));
        device.map_err(|source| Error::Device { host, source })
    }

    /// Returns the path to another host, for connected queue pairs and address handles.
    pub fn path(&self, to: usize) -> AddressVector {
        let identity = self.identity(to);
        AddressVector {
            dest_gid: identity.gids[GID_INDEX].gid,
            dest_mac: identity.mac,
            source_gid_index: GID_INDEX as u16,
            hop_limit: HOP_LIMIT,
            udp_source_port: UDP_SOURCE_PORT,
            ..AddressVector::default()
        }
    }

    /// Starts `thread` of the program on `host`.
    pub fn spawn(&mut self, host: usize, thread: Box<dyn Thread>) -> ThreadId {
        self.spawn_for(Owner::Program, host, thread)
    }

    /// Starts `thread` of the kernel of `host`, which runs while the program is stopped.
    pub fn spawn_in_kernel(&mut self, host: usize, thread: Box<dyn Thread>) -> ThreadId {
        self.spawn_for(Owner::Kernel, host, thread)
    }

    fn spawn_for(&mut self, owner: Owner, host: usize, thread: Box<dyn Thread>) -> ThreadId {
        assert!(host < self.hosts(), "there is no host {host}");
        let id = ThreadId(self.threads.len());
        self.threads.push(Some(Slot { host, thread }));
        self.alive += 1;
        self.engine.add_thread(host, owner);
        id
    }

    /// Ends a thread in any state, as if its process had been killed.
    pub fn kill(&mut self, thread: ThreadId) {
        if self.threads[thread.0].take().is_some() {
            self.alive -= 1;
            self.engine.end_thread(thread);
        }
    }

    /// Takes the hosts whose program a situation of the plan of faults has killed since the last
    /// call: their cards have lost all objects, and the caller ends the threads. A run ends
    /// ([`Outcome::Until`]) when that happens.
    pub fn take_killed(&mut self) -> Vec<usize> {
        self.engine.take_killed()
    }

    /// Returns a handle that wakes parked threads, even from within a step.
    pub fn waker(&self) -> Waker {
        Waker(Arc::clone(&self.engine))
    }

    /// Returns a handle that carries frames, even from within a step.
    pub fn wire(&self) -> Wire {
        Wire(Arc::clone(&self.engine))
    }

    /// Wakes a parked thread at `at`: [`Waker::wake`].
    pub fn wake(&self, thread: ThreadId, at: Instant) {
        self.engine.wake(thread, at);
    }

    /// Orders simultaneous events by host instead of by the order in which they were scheduled.
    /// Threads of one host keep their order.
    pub fn order_by_host(&mut self) {
        self.engine.order_by_host();
    }

    /// Returns the time of the next event; `None` if no event is pending.
    pub fn next_event(&self) -> Option<Instant> {
        self.engine.next_event()
    }

    /// Returns true if only rechecks of polling threads are pending: [`Cpu::recheck_at`].
    pub fn has_only_rechecks(&self) -> bool {
        self.engine.has_only_rechecks()
    }

    /// Returns the time.
    pub fn now(&self) -> Instant {
        self.engine.now()
    }

    /// Handles events until `until`, or until an [`Outcome`] ends the run.
    pub fn run(&mut self, until: Instant) -> Outcome {
        let had_threads = self.alive > 0;
        let mut stepped = None;
        loop {
            match self.engine.advance(stepped.take(), until) {
                Stop::Thread {
                    thread: id,
                    now,
                    quiet_until,
                } => {
                    self.clock.begin(now, quiet_until);
                    let next = self.step(id);
                    if matches!(next, Next::Done) {
                        self.threads[id.0] = None;
                        self.alive -= 1;
                    }
                    if self.clock.take_leave() {
                        self.engine.finish(id, next);
                        return Outcome::Until;
                    }
                    stepped = Some((id, next));
                }
                Stop::Until => return Outcome::Until,
                Stop::Stalled => return Outcome::Stalled,
                Stop::Idle if self.alive == 0 && had_threads => return Outcome::Done,
                Stop::Idle if self.alive == 0 => return Outcome::Idle,
                Stop::Idle => return Outcome::Stalled,
            }
            if self.alive == 0 && had_threads {
                if let Some((id, next)) = stepped {
                    self.engine.finish(id, next);
                }
                return Outcome::Done;
            }
        }
    }

    fn step(&mut self, id: ThreadId) -> Next {
        let Some(slot) = self.threads.get_mut(id.0).and_then(Option::as_mut) else {
            return Next::Done;
        };
        slot.thread.step(&mut Cpu::new(&self.clock, slot.host, id))
    }

    /// Returns the counters of a host's NIC, PCIe link and cable.
    pub fn counters(&self, host: usize) -> HostCounters {
        self.engine.counters(host)
    }

    /// Returns a report of the network between the hosts; `None`: the world has no fabric.
    pub fn fabric(&self) -> Option<FabricReport> {
        self.engine.fabric()
    }

    /// Samples the queues of switch ports, in the order of [`FabricReport::switch_ports`]; `None`:
    /// the world has no fabric.
    pub fn sample_fabric(&mut self) -> Option<Vec<QueueSample>> {
        self.engine.sample_fabric()
    }

    /// Returns how long each part of a host's card, slot and cable was in use; nothing in a world
    /// without time.
    pub fn usage(&self, host: usize) -> HostUsage {
        self.engine.usage(host)
    }

    /// Returns the number of events so far, as a measure of work; tests of determinism use it.
    pub fn events(&self) -> u64 {
        self.engine.events()
    }

    /// Reports everything that happens from now on to `recorder`, which must not call the world.
    pub fn record(&mut self, recorder: Option<SharedRecorder>) {
        self.clock.record(recorder.clone());
        self.engine.record(recorder);
    }

    /// Returns the state of the world as text, for debugging: the events for which each part waits.
    pub fn dump(&self) -> String {
        self.engine.dump()
    }
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World")
            .field("now", &self.now())
            .field("hosts", &self.hosts())
            .field("threads", &self.alive)
            .finish_non_exhaustive()
    }
}
