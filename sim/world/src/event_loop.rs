//! The event loop: advances the part of the world whose event is next, and schedules the events
//! that it causes.

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

/// Most events in a row in which neither time passes nor a NIC works; then the world stops.
const MAX_IDLE_EVENTS: u32 = 1 << 20;

/// State of a thread.
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
    /// It waits until another thread or process wakes it.
    Parked,
    /// It has ended.
    Done,
}

/// A thread as the event loop sees it.
#[derive(Debug)]
pub(super) struct ThreadEntry {
    pub host: usize,
    pub state: State,
    /// Its own time at the end of its last step; its next step does not begin before.
    pub clock: Instant,
    /// The next recheck, if it polls and rechecks at intervals.
    pub recheck: Option<Recheck>,
}

/// When a polling thread is stepped although nothing that it watches has changed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Recheck {
    /// Time of the next recheck.
    pub at: Instant,
    /// From one turn of its loop to the next.
    pub grid: Duration,
    /// Its deadline.
    pub last: Instant,
}

/// The state of a world, behind one lock: everything but the threads' code.
///
/// All times in it are device times. [`EventLoop::outside`] and [`EventLoop::inside`] convert to
/// and from world time, which includes the time that was skipped.
pub(super) struct EventLoop<T: Timing> {
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
    /// True while a thread is in a step, or an interrupt handler runs.
    pub is_stepping: bool,
}

/// Why the event loop stops.
pub(super) enum DeviceStop {
    Thread(usize),
    Interrupts(usize),
    Until,
    Idle,
    Stalled,
}

impl<T: Timing> EventLoop<T> {
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

    /// Handles events until a thread or an interrupt handler has its turn, or until world time
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

    /// Counts an event, and moves time on to it.
    #[inline]
    fn pass_to(&mut self, time: Instant) {
        self.events += 1;
        self.idle_events += 1;
        if time > self.now {
            self.now = time;
            self.idle_events = 0;
        }
    }

    /// Advances a NIC, and schedules its next event and those of the NICs that it has sent to.
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

    /// Schedules the interrupts of a host, and its threads to which something becomes visible.
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

    /// Takes the interrupts of a host that have arrived, and wakes its sleeping threads.
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

    /// Schedules a NIC for a processor's store that is on its way to it.
    #[inline]
    pub fn expect_store(&mut self, host: usize, arrival: Instant) {
        let moment = self.moment(arrival.max(self.now));
        self.devices.lower(host, moment);
        if let Some(recorder) = &self.recorder {
            self.nodes[host].observe(self.now, host, recorder);
        }
    }

    /// Wakes a parked thread at world time `at`.
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

    /// Lets a polling thread poll with the first turn of its loop that is not before `at`.
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

    /// Returns true if no events are pending but rechecks of polling threads.
    pub fn has_only_rechecks(&self) -> bool {
        let mut threads = 0..self.entries.len();
        self.devices.first().is_none() && threads.all(|thread| self.wakes_at(thread).is_none())
    }

    /// Returns the time of the next event.
    pub fn next_event(&self) -> Option<Instant> {
        let device = self.devices.first().map(|(moment, _)| moment.time);
        let thread = self.threads.first().map(|(moment, _)| moment.time);
        match (device, thread) {
            (Some(device), Some(thread)) => Some(device.min(thread)),
            (device, thread) => device.or(thread),
        }
    }

    /// Ends a step of a thread, and schedules its next one. `clock`, the thread's own time, and its
    /// deadlines are world times.
    pub fn finish(&mut self, thread: ThreadId, next: Next, clock: Instant, deadlines: Deadlines) {
        self.is_stepping = false;
        let clock = self.inside(clock);
        let Deadlines { last, recheck_at } = deadlines;
        let (last, recheck_at) = (self.inside(last), self.inside(recheck_at));
        let next = self.next_inside(next);
        let (thread, now) = (thread.0, self.now);
        let node = &mut self.nodes[self.entries[thread].host];
        let mut recheck = None;
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
                if recheck_at < last {
                    let recheck_at = recheck_at.max(clock);
                    recheck = Some(Recheck {
                        at: recheck_at,
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
        let deadline = recheck.map_or(last, |recheck| recheck.at);
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
        entry.recheck = recheck;
    }

    /// Converts what a thread waits for to device time.
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

    /// Begins a step of a thread.
    #[inline]
    pub fn begin(&mut self, thread: usize) -> Stop {
        let now = self.now;
        let entry = &mut self.entries[thread];
        let was = std::mem::replace(&mut entry.state, State::Stepping);
        let node = &mut self.nodes[entry.host];
        let host = &mut node.host;
        match was {
            State::Polling => host.watchers.suspend(thread),
            // Its deadline came before an interrupt.
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

    /// Returns the time until which nothing that a card writes becomes visible to a thread in a
    /// step, and the least time from a store of the thread to a write that its card makes because
    /// of it.
    ///
    /// Whatever the next event is, PCIe takes its least time to bring a write to memory. AtomicOps
    /// are visible at once: where there are any, the time of the next event counts.
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

    /// Pauses the world: brings to memory what is visible, for readers from outside.
    pub fn pause(&mut self, stop: Stop) -> Stop {
        let now = self.now;
        self.idle_events = 0;
        self.nodes.iter_mut().for_each(|node| node.host.apply(now));
        stop
    }

    /// Advances the devices to their next event, or to the next write that becomes visible: the
    /// driver of `host` waits. Returns the host whose interrupts have arrived, and their vectors.
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
