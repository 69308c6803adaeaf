//! The devices of a world: hosts with their NICs, the fabric between them, and their events.
//!
//! All times of this interface are world times. The lower layers (nodes, PCIe, links, switch) only
//! use device times ([`DeviceClock`]).

use std::fmt::Write as _;

use ferroce_model::fast_forward::Mark;
use ferroce_model::nic::Nic;
use ferroce_model::pcie::Store;
use ferroce_model::time::timing::Timing;
use ferroce_units::{Duration, Instant};

use super::config::WorldConfig;
use super::device_clock::DeviceClock;
use super::event_heap::{EventHeap, Moment, Sequence};
use super::fabric::{Arrivals, Fabric, Woken};
use super::fabric_plan::FabricError;
use super::host::WorldHost;
use super::machines;
use super::node::Node;
use super::recorder::SharedRecorder;
use super::watch::Turns;

/// The device whose event is next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    /// The NIC of a host.
    Nic(usize),
    /// Interrupts of a host arrive.
    Interrupts(usize),
    /// The network between the hosts.
    Network,
}

/// What situations have done to the programs of hosts, until the event loop and its caller take it.
#[derive(Debug, Default)]
pub(super) struct Fates {
    /// Hosts whose program continues.
    pub continued: Vec<usize>,
    /// Hosts whose program was killed.
    pub killed: Vec<usize>,
}

/// Hosts, NICs and the network between them.
pub(super) struct Devices<T: Timing> {
    pub nodes: Vec<Node<T>>,
    pub fabric: Fabric,
    clock: DeviceClock,
    /// NICs, then the interrupts of the hosts, then the network; at device times.
    pub(super) events: EventHeap,
    recorder: Option<SharedRecorder>,
    /// What situations have done to programs.
    pub fates: Fates,
}

/// Events.
impl<T: Timing> Devices<T> {
    pub fn new(
        config: &WorldConfig,
        mut card: impl FnMut(usize) -> T,
    ) -> Result<Self, FabricError> {
        let hosts = config.hosts;
        let nodes = (0..hosts).map(|host| Node::new(config, host, card(host)));
        let mut nodes: Vec<_> = nodes.collect();
        machines::attach(config, &mut nodes);
        for (host, target) in &config.memory {
            if let Some(node) = nodes.get_mut(*host) {
                node.host.memory.set_target(target.bits());
            }
        }
        Ok(Self {
            nodes,
            fabric: Fabric::new(config)?,
            clock: DeviceClock::NEW,
            events: EventHeap::new(2 * hosts + 1),
            recorder: None,
            fates: Fates::default(),
        })
    }

    /// Returns the next event.
    #[inline]
    pub fn next_event(&self) -> Option<(Moment, Due)> {
        let (moment, part) = self.events.first()?;
        let due = match part.checked_sub(self.nodes.len()) {
            None => Due::Nic(part),
            Some(host) if host < self.nodes.len() => Due::Interrupts(host),
            Some(_) => Due::Network,
        };
        let time = self.clock.to_world(moment.time);
        Some((Moment { time, ..moment }, due))
    }

    /// Advances a NIC, and schedules its next event and the events of NICs to which it has sent
    /// frames. Returns true if it did something. The caller must then call [`Devices::notify`] and
    /// [`Devices::schedule_interrupts`].
    #[inline]
    pub fn advance(&mut self, now: Instant, host: usize, sequence: &mut Sequence) -> bool {
        let now = self.clock.to_device(now);
        let node = &mut self.nodes[host];
        self.fabric.select(now, host);
        let worked = node.advance(now, &mut self.fabric).worked;
        if let Some(recorder) = &self.recorder {
            node.observe(now, host, recorder);
        }
        let mut own = None;
        while let Some(woken) = self.fabric.next_woken() {
            if woken.host == host {
                own = Some(woken.at.max(now));
                continue;
            }
            self.wake(now, woken, sequence);
        }
        let next = self.nodes[host].next_event(now, &self.fabric, host);
        let next = match (next, own) {
            (Some(next), Some(own)) => Some(next.min(own)),
            (next, own) => next.or(own),
        };
        let next = next.map(|next| sequence.moment(next.max(now)));
        self.events.set(host, next);
        self.schedule_network(sequence);
        worked
    }

    /// Handles due events of the network, and schedules the NICs that receive its frames or may
    /// send again.
    pub fn step_network(&mut self, now: Instant, sequence: &mut Sequence) {
        let now = self.clock.to_device(now);
        self.fabric.step_network(now);
        while let Some(step) = self.fabric.take_step(now) {
            self.suffer(now, step, sequence);
        }
        while let Some(woken) = self.fabric.next_woken() {
            self.wake(now, woken, sequence);
        }
        self.schedule_network(sequence);
    }

    /// Schedules the event of a NIC to which a frame was sent, or that may send again.
    #[inline]
    fn wake(&mut self, now: Instant, woken: Woken, sequence: &mut Sequence) {
        let Woken { host, at, qpn } = woken;
        if let Some(qpn) = qpn {
            self.nodes[host].expect(qpn);
        }
        self.events.lower(host, sequence.moment(at.max(now)));
    }

    /// Schedules the next event of the network.
    #[inline]
    fn schedule_network(&mut self, sequence: &mut Sequence) {
        let part = 2 * self.nodes.len();
        let next = self.fabric.next_network_event();
        if next != self.events.time_of(part) {
            let moment = next.map(|time| sequence.moment(time));
            self.events.set(part, moment);
        }
    }

    /// Calls `wake` for the threads of a host to which a write becomes visible earlier than known
    /// before.
    #[inline]
    pub fn notify(&mut self, host: usize, wake: impl FnMut(usize, Instant)) {
        let watchers = &mut self.nodes[host].host.watchers;
        watchers.take_changes(self.clock, wake);
    }

    /// Schedules the next interrupts of a host.
    #[inline]
    pub fn schedule_interrupts(&mut self, host: usize, sequence: &mut Sequence) {
        let part = self.nodes.len() + host;
        let interrupt = self.nodes[host].host.next_interrupt();
        if interrupt != self.events.time_of(part) {
            let moment = interrupt.map(|time| sequence.moment(time));
            self.events.set(part, moment);
        }
    }

    /// Takes the interrupts of a host that have arrived: a bit for each vector.
    pub fn take_interrupts(&mut self, now: Instant, host: usize) -> u64 {
        let now = self.clock.to_device(now);
        let host = &mut self.nodes[host].host;
        let vectors = host.take_interrupts(now);
        host.apply(now);
        vectors
    }

    /// Sends a processor's store to the card of a host at `at`, and schedules the card for its
    /// arrival. `send` is called with the times of the event and of the store. Returns when the
    /// host's root port has taken the store.
    #[inline]
    pub fn store(
        &mut self,
        now: Instant,
        at: Instant,
        host: usize,
        sequence: &mut Sequence,
        send: impl FnOnce(&mut WorldHost, Instant, Instant) -> Store,
    ) -> Instant {
        let (now, at) = (self.clock.to_device(now), self.clock.to_device(at));
        let Store { arrival, taken } = send(&mut self.nodes[host].host, now, at);
        self.events.lower(host, sequence.moment(arrival.max(now)));
        if let Some(recorder) = &self.recorder {
            self.nodes[host].observe(now, host, recorder);
        }
        self.clock.to_world(taken)
    }

    /// Carries a frame between two hosts without their cards, from `at` on; returns when it
    /// arrives.
    pub fn carry_aside(
        &mut self,
        at: Instant,
        from: usize,
        to: usize,
        qpn: u32,
        frame: &[u8],
    ) -> Arrivals {
        let at = self.clock.to_device(at);
        self.fabric.select(at, from);
        let arrivals = self.fabric.carry_aside(at, to, qpn, frame);
        arrivals.map(|arrival| arrival.map(|arrival| self.clock.to_world(arrival)))
    }

    /// Reads state of a NIC at `at`: `read` is called with the card's time.
    pub fn read<R>(
        &self,
        at: Instant,
        host: usize,
        read: impl FnOnce(&Nic<Fabric, T>, Instant) -> R,
    ) -> R {
        read(&self.nodes[host].nic, self.clock.to_device(at))
    }

    /// Adds a polling thread of a host. Returns the earliest known time at which it wakes.
    pub fn watch(
        &mut self,
        now: Instant,
        host: usize,
        thread: usize,
        turns: Turns,
    ) -> Option<Instant> {
        let now = self.clock.to_device(now);
        let host = &mut self.nodes[host].host;
        host.watchers
            .add(thread, turns, now, self.clock, &host.posted)
    }
}

/// Visibility of writes.
impl<T: Timing> Devices<T> {
    /// Applies the visible writes to a host's memory.
    #[inline]
    pub fn apply(&mut self, now: Instant, host: usize) {
        self.nodes[host].host.apply(self.clock.to_device(now));
    }

    /// Returns when the next write to the memory of a host becomes visible.
    #[inline]
    pub fn next_visible(&self, host: usize) -> Option<Instant> {
        let visible = self.nodes[host].host.posted.next_visible();
        visible.map(|time| self.clock.to_world(time))
    }

    /// Gives events at the same time the order of their hosts.
    pub fn order_by_host(&mut self, sequence: &mut Sequence) {
        let parts = 2 * self.nodes.len() + 1;
        self.events.order_by(parts, |part| part, sequence);
    }

    /// Returns the times of all device events, and whether each is immediately visible to a host.
    pub fn event_times(&self, own: usize) -> impl Iterator<Item = (Instant, bool)> {
        let interrupts = self.nodes.len() + own;
        (0..=2 * self.nodes.len()).filter_map(move |part| {
            let time = self.events.time_of(part)?;
            Some((self.clock.to_world(time), part == interrupts))
        })
    }

    /// Returns true if the driver of a host waits for a command.
    pub fn has_command(&self, now: Instant, host: usize) -> bool {
        self.nodes[host].has_command(self.clock.to_device(now))
    }
}

/// Skipping packets.
impl<T: Timing> Devices<T> {
    /// Returns the end of a stride of a long message, if the NIC of a host has reached one.
    #[inline]
    pub fn take_mark(&mut self, host: usize) -> Option<Mark> {
        self.nodes[host].nic.fast_forward().take_mark()
    }

    /// Returns true if no store and no interrupt is in flight.
    pub fn is_quiet(&self) -> bool {
        let is_quiet = |node: &Node<T>| {
            node.host.next_store().is_none() && node.host.next_interrupt().is_none()
        };
        self.nodes.iter().all(is_quiet)
    }

    /// Converts a time of the world to one of the devices.
    pub fn device_time(&self, world: Instant) -> Instant {
        self.clock.to_device(world)
    }

    /// Lets time pass in the world, but not for the devices.
    pub fn skip_time(&mut self, time: Duration) {
        self.clock.skip(time);
    }
}

/// Observers.
impl<T: Timing> Devices<T> {
    /// Reports everything that happens from now on to a recorder.
    pub fn record(&mut self, now: Instant, recorder: Option<SharedRecorder>) {
        let now = self.clock.to_device(now);
        self.fabric.record(recorder.clone());
        for (number, node) in self.nodes.iter_mut().enumerate() {
            node.host.record(recorder.clone());
            if let Some(recorder) = &recorder {
                node.observe(now, number, recorder);
            }
        }
        self.recorder = recorder;
    }

    /// Returns true if there is a recorder.
    pub fn is_recorded(&self) -> bool {
        self.recorder.is_some()
    }

    /// Returns the total skipped time.
    pub fn skipped(&self) -> Duration {
        self.clock.skipped()
    }

    /// Appends the state of all hosts to `text`, in device times.
    pub fn dump(&self, now: Instant, text: &mut String) {
        let now = self.clock.to_device(now);
        for (number, node) in self.nodes.iter().enumerate() {
            let host = &node.host;
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "host {number}: event {:?}, NIC {:?}, store {:?}, interrupt {:?}, {} posted writes \
                 (next {:?}), {} frames under way, command {}",
                self.events.time_of(number),
                node.nic.next_timeout(now),
                host.next_store(),
                host.next_interrupt(),
                host.posted.len(),
                host.posted.next_visible(),
                self.fabric.under_way(number),
                node.has_command(now),
            );
        }
    }
}
