//! The event loop: which part of the world goes on next, and what it has to tell the others.

use ferroce_model::time::timing::Timing;
use ferroce_units::{Duration, Instant};

use super::config::WorldConfig;
use super::engine::Stop;
use super::event_heap::{EventHeap, Moment};
use super::fabric::Fabric;
use super::fast_forward::FastForward;
use super::node::Node;
use super::recorder::SharedRecorder;
use super::thread::{Deadlines, Next, ThreadId};
use super::watch::Turns;

/// Events without time passing, and without a NIC doing anything, after which the world stops.
const MAX_IDLE_EVENTS: u32 = 1 << 20;

/// What a thread is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// It is in a step.
    Stepping,
    /// It waits for a time.
    Waiting,
    /// It polls.
    Polling,
    /// It waits for an interrupt.
    Sleeping,
    /// It waits for somebody to wake it.
    Parked,
    /// It has ended.
    Done,
}

/// A thread from outside.
#[derive(Debug)]
pub(super) struct ThreadEntry {
    pub host: usize,
    pub state: State,
    /// Its own time when its last step ended: it does not go on before.
    pub clock: Instant,
    /// It polls, and looks round now and then.
    pub patience: Option<Patience>,
}

/// How a thread that polls looks round.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// When.
    pub look_round: Instant,
    /// From one turn of its loop to the next.
    pub grid: Duration,
    /// When it goes on at the latest.
    pub last: Instant,
}

/// What one lock protects: everything but the threads' code.
///
/// Inside, all times are those of the devices: [`Core::outside`] and [`Core::inside`] say what they
/// are to threads, which the time that was skipped has passed for.
pub(super) struct Core<T: Timing> {
    pub now: Instant,
    pub nodes: Vec<Node<T>>,
    pub fabric: Fabric,
    /// NICs, then the interrupts of the hosts.
    pub devices: EventHeap,
    pub threads: EventHeap,
    pub entries: Vec<ThreadEntry>,
    pub sequence: u64,
    pub events: u64,
    pub idle_events: u32,
    pub recorder: Option<SharedRecorder>,
    pub fast_forward: FastForward,
    /// The thread in a step, or an interrupt handler, is running.
    pub is_stepping: bool,
}

/// What the devices have come to.
pub(super) enum DeviceStop {
    Thread(usize),
    Interrupts(usize),
    Until,
    Idle,
    Stalled,
}

impl<T: Timing> Core<T> {
    pub fn new(config: &WorldConfig, mut card: impl FnMut(usize) -> T) -> Self {
        let hosts = config.hosts;
        Self {
            now: Instant::ZERO,
            nodes: (0..hosts)
                .map(|host| Node::new(config, host, card(host)))
                .collect(),
            fabric: Fabric::new(config, T::IS_TIMED),
            devices: EventHeap::new(2 * hosts),
            threads: EventHeap::default(),
            entries: Vec::new(),
            sequence: 0,
            events: 0,
            idle_events: 0,
            recorder: None,
            fast_forward: FastForward::new(T::IS_TIMED && config.fast_forward),
            is_stepping: false,
        }
    }

    #[inline]
    pub fn moment(&mut self, time: Instant) -> Moment {
        self.sequence += 1;
        Moment {
            time,
            sequence: self.sequence,
        }
    }

    /// Goes on until a thread or an interrupt handler has its turn, or until the time of the world is
    /// `until`.
    pub fn advance(&mut self, until: Instant) -> DeviceStop {
        loop {
            let until = self.inside(until);
            let (moment, is_thread, part) = match (self.devices.first(), self.threads.first()) {
                (None, None) => return DeviceStop::Idle,
                (Some((moment, part)), None) => (moment, false, part),
                (None, Some((moment, part))) => (moment, true, part),
                (Some((device, part)), Some((thread, other))) => match device < thread {
                    true => (device, false, part),
                    false => (thread, true, other),
                },
            };
            if moment.time > until {
                self.now = self.now.max(until);
                return DeviceStop::Until;
            }
            self.pass_to(moment.time);
            if self.idle_events > MAX_IDLE_EVENTS {
                return DeviceStop::Stalled;
            }
            if is_thread {
                self.threads.set(part, None);
                return DeviceStop::Thread(part);
            }
            if part >= self.nodes.len() {
                return DeviceStop::Interrupts(part - self.nodes.len());
            }
            self.advance_nic(part);
            self.fast_forward(part);
        }
    }

    /// Time passes, or another event comes at the same time.
    #[inline]
    fn pass_to(&mut self, time: Instant) {
        self.events += 1;
        self.idle_events += 1;
        if time > self.now {
            self.now = time;
            self.idle_events = 0;
        }
    }

    /// Lets a NIC handle what is due now.
    pub fn advance_nic(&mut self, host: usize) {
        let now = self.now;
        let node = &mut self.nodes[host];
        self.fabric.select(now, host);
        if node.advance(now, &mut self.fabric).worked {
            self.idle_events = 0;
        }
        if let Some(recorder) = &self.recorder {
            node.observe(now, host, recorder);
        }
        let mut own = None;
        while let Some((to, arrival)) = self.fabric.next_woken() {
            if to == host {
                own = Some(arrival.max(now));
                continue;
            }
            let moment = self.moment(arrival.max(now));
            self.devices.lower(to, moment);
        }
        let node = &self.nodes[host];
        let next = node.next_event(now, &self.fabric, host);
        let next = match (next, own) {
            (Some(next), Some(own)) => Some(next.min(own)),
            (next, own) => next.or(own),
        };
        let next = next.map(|next| self.moment(next.max(now)));
        self.devices.set(host, next);
        self.notice(host);
    }

    /// A host may have interrupts on their way, and threads that have something to see.
    #[inline]
    fn notice(&mut self, host: usize) {
        let node = &mut self.nodes[host];
        let (threads, sequence) = (&mut self.threads, &mut self.sequence);
        node.host.watchers.take_changes(|thread, time| {
            *sequence += 1;
            let sequence = *sequence;
            threads.lower(thread, Moment { time, sequence });
        });
        let part = self.nodes.len() + host;
        let interrupt = self.nodes[host].host.next_interrupt();
        if interrupt != self.devices.time_of(part) {
            let moment = interrupt.map(|time| self.moment(time));
            self.devices.set(part, moment);
        }
    }

    /// Takes the interrupts of a host that are there, and wakes threads that sleep.
    pub fn take_interrupts(&mut self, host: usize) -> u64 {
        let now = self.now;
        let vectors = self.nodes[host].host.take_interrupts(now);
        self.nodes[host].host.apply(now);
        self.notice(host);
        for (thread, wake_up) in std::mem::take(&mut self.nodes[host].sleepers) {
            let clock = self.entries[thread].clock;
            let moment = self.moment((now + wake_up).max(clock));
            self.threads.lower(thread, moment);
        }
        self.is_stepping = true;
        vectors
    }

    /// A store of a processor is on its way to a NIC.
    #[inline]
    pub fn expect_store(&mut self, host: usize, arrival: Instant) {
        let moment = self.moment(arrival.max(self.now));
        self.devices.lower(host, moment);
        if let Some(recorder) = &self.recorder {
            self.nodes[host].observe(self.now, host, recorder);
        }
    }

    /// Somebody wakes a thread that is parked, at a time of the world.
    pub fn wake(&mut self, thread: ThreadId, at: Instant) {
        let at = self.inside(at);
        let Some(entry) = self.entries.get(thread.0) else {
            return;
        };
        if entry.state == State::Parked {
            let moment = self.moment(at.max(entry.clock).max(self.now));
            self.threads.lower(thread.0, moment);
        }
    }

    /// A thread that polls looks with the first turn of its loop that is not before `at`.
    pub fn look_again(&mut self, thread: ThreadId, at: Instant) {
        let at = self.inside(at).max(self.now);
        let Some(entry) = self.entries.get(thread.0) else {
            return;
        };
        let watchers = &self.nodes[entry.host].host.watchers;
        let turns = watchers.turns_of(thread.0);
        if let (State::Polling, Some(turns)) = (entry.state, turns) {
            let time = turns.first_from(at);
            let moment = self.moment(time);
            self.threads.lower(thread.0, moment);
        }
    }

    /// Whether nothing is going to happen but that threads that poll look round.
    pub fn has_only_looks(&self) -> bool {
        let mut threads = 0..self.entries.len();
        self.devices.first().is_none() && threads.all(|thread| self.wakes_at(thread).is_none())
    }

    /// When the next event is.
    pub fn next_event(&self) -> Option<Instant> {
        let device = self.devices.first().map(|(moment, _)| moment.time);
        let thread = self.threads.first().map(|(moment, _)| moment.time);
        match (device, thread) {
            (Some(device), Some(thread)) => Some(device.min(thread)),
            (device, thread) => device.or(thread),
        }
    }

    /// A thread has ended its step at `clock`, and goes on at its deadlines: times of the world.
    pub fn finish(&mut self, thread: ThreadId, next: Next, clock: Instant, deadlines: Deadlines) {
        self.is_stepping = false;
        let clock = self.inside(clock);
        let Deadlines { last, look_round } = deadlines;
        let (last, look_round) = (self.inside(last), self.inside(look_round));
        let next = self.next_inside(next);
        let (thread, now) = (thread.0, self.now);
        let node = &mut self.nodes[self.entries[thread].host];
        let mut patience = None;
        let (state, wakes_at) = match next {
            Next::At(time) => (State::Waiting, Some(time.max(clock))),
            Next::OnWrite {
                not_before,
                grid,
                watch,
            } => {
                let turns = Turns {
                    not_before: not_before.max(clock),
                    grid,
                    watch,
                };
                if look_round < last {
                    let look_round = look_round.max(clock);
                    patience = Some(Patience {
                        look_round,
                        grid,
                        last,
                    });
                }
                let host = &mut node.host;
                let wakes_at = host.watchers.add(thread, turns, now, &host.posted);
                (State::Polling, wakes_at)
            }
            Next::OnInterrupt { wake_up } => {
                node.sleepers.push((thread, wake_up));
                (State::Sleeping, None)
            }
            Next::Parked => (State::Parked, None),
            Next::Done => {
                node.host.watchers.remove(thread);
                (State::Done, None)
            }
        };
        let deadline = patience.map_or(last, |patience| patience.look_round);
        let deadline = match state {
            State::Done => None,
            _ => (deadline < Instant::MAX).then(|| deadline.max(clock)),
        };
        let wakes_at = match (wakes_at, deadline) {
            (Some(time), Some(deadline)) => Some(time.min(deadline)),
            (time, deadline) => time.or(deadline),
        };
        if let Some(time) = wakes_at {
            let moment = self.moment(time.max(now));
            self.threads.set(thread, Some(moment));
        }
        let entry = &mut self.entries[thread];
        entry.state = state;
        entry.clock = clock;
        entry.patience = patience;
    }

    /// What a thread waits for, in the time of the devices.
    fn next_inside(&self, next: Next) -> Next {
        match next {
            Next::At(time) => Next::At(self.inside(time)),
            Next::OnWrite {
                not_before,
                grid,
                watch,
            } => Next::OnWrite {
                not_before: self.inside(not_before),
                grid,
                watch,
            },
            next => next,
        }
    }

    /// A thread begins a step.
    #[inline]
    pub fn begin(&mut self, thread: usize) -> Stop {
        let now = self.now;
        let entry = &mut self.entries[thread];
        let was = std::mem::replace(&mut entry.state, State::Stepping);
        let node = &mut self.nodes[entry.host];
        let host = &mut node.host;
        match was {
            State::Polling => host.watchers.suspend(thread),
            // Its deadline has come first.
            State::Sleeping => node.sleepers.retain(|(sleeper, _)| *sleeper != thread),
            _ => {}
        }
        host.apply(now);
        let visible = host.posted.next_visible();
        let quiet_until = match (self.next_event(), visible) {
            (Some(event), Some(visible)) => event.min(visible),
            (event, visible) => event.or(visible).unwrap_or(Instant::MAX),
        };
        self.is_stepping = true;
        Stop::Thread {
            thread: ThreadId(thread),
            now: self.outside(now),
            quiet_until: self.outside(quiet_until),
        }
    }

    /// Until when nothing that a card writes becomes visible to a thread in a step, and from a store
    /// of the thread to what its card may write because of it.
    ///
    /// Whatever happens next on other hosts or in a card, PCIe takes its time to bring it to memory.
    /// AtomicOps do not: where there are any, the next event counts.
    pub fn hidden_until(&self, thread: usize) -> (Instant, Duration) {
        let own = self.entries[thread].host;
        let host = &self.nodes[own].host;
        let pcie = host.pcie.as_ref().filter(|pcie| !pcie.has_atomics());
        let (store, write) = pcie.map_or((Duration::ZERO, Duration::ZERO), |pcie| pcie.least());
        let interrupts = self.nodes.len() + own;
        let devices = (0..2 * self.nodes.len())
            .filter_map(|part| Some((self.devices.time_of(part)?, part == interrupts)));
        let threads = self.entries.iter().enumerate();
        let threads = threads
            .filter_map(|(thread, entry)| Some((self.threads.time_of(thread)?, entry.host == own)));
        let visible = |(time, at_once)| match at_once {
            true => time,
            false => time + write,
        };
        let events = devices.chain(threads).map(visible);
        let hidden_until = events.chain(host.posted.next_visible()).min();
        (hidden_until.unwrap_or(Instant::MAX), store + write)
    }

    /// Nothing goes on for a while: whoever looks at memory sees what is visible.
    pub fn pause(&mut self, stop: Stop) -> Stop {
        let now = self.now;
        self.idle_events = 0;
        self.nodes.iter_mut().for_each(|node| node.host.apply(now));
        stop
    }

    /// The driver of a host waits: the devices go on to their next event, or to the next write
    /// that the host sees. Returns the host whose interrupts are there.
    pub fn relax(&mut self, host: usize) -> Option<(usize, u64)> {
        let visible = self.nodes[host].host.posted.next_visible();
        let event = self.devices.first();
        let time = match (event, visible) {
            (Some((moment, _)), Some(visible)) => moment.time.min(visible),
            (Some((moment, _)), None) => moment.time,
            (None, Some(visible)) => visible,
            (None, None) => {
                self.idle_events += 1;
                if self.idle_events > MAX_IDLE_EVENTS && self.nodes[host].has_command(self.now) {
                    self.give_up(host);
                }
                return None;
            }
        };
        self.pass_to(time);
        let now = self.now;
        let mut interrupts = None;
        match event {
            Some((moment, part)) if moment.time <= now => {
                match part.checked_sub(self.nodes.len()) {
                    Some(host) => interrupts = Some((host, self.take_interrupts(host))),
                    None => self.advance_nic(part),
                }
            }
            _ => {}
        }
        self.nodes[host].host.apply(now);
        interrupts
    }

    #[cold]
    fn give_up(&mut self, host: usize) {
        if !self.nodes[host].is_dead {
            tracing::error!(
                host,
                "the driver waits and nothing can happen: {}",
                self.dump()
            );
            self.nodes[host].is_dead = true;
        }
    }
}
