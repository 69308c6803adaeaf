//! The event loop: handles the next event of the world, and schedules the events that it causes.

use ferroce_model::fast_forward::Mark;
use ferroce_model::pcie::Store;
use ferroce_model::time::timing::Timing;
use ferroce_units::{Duration, Instant};

use super::Error;
use super::config::WorldConfig;
use super::devices::{Devices, Due};
use super::event_heap::Sequence;
use super::fast_forward::{Skipper, skipper};
use super::host::WorldHost;
use super::schedule::{Owner, Recheck, Schedule, State};
use super::thread::{Deadlines, Next, ThreadId};
use super::watch::Turns;

/// Maximum number of consecutive events without progress of time or of a NIC; then the world stops.
const MAX_IDLE_EVENTS: u32 = 1 << 20;

/// The state of a world under one lock: everything except the threads' code. All times are world
/// times.
pub(super) struct EventLoop<T: Timing> {
    pub now: Instant,
    pub devices: Devices<T>,
    pub schedule: Schedule,
    sequence: Sequence,
    pub events: u64,
    idle_events: u32,
    skipper: Box<dyn Skipper<T>>,
    /// True while a thread is in a step, or an interrupt handler runs.
    pub is_stepping: bool,
}

/// Reason why the world stops and returns to its caller.
#[derive(Debug, Clone, Copy)]
pub(super) enum Stop {
    /// A thread must be stepped; nothing becomes visible to it before `quiet_until`.
    Thread {
        thread: ThreadId,
        now: Instant,
        quiet_until: Instant,
    },
    /// The time limit is reached.
    Until,
    /// No event is pending.
    Idle,
    /// Events repeat without end, but neither time nor a NIC makes progress.
    Stalled,
}

/// Reason why the event loop stops.
pub(super) enum DeviceStop {
    Thread(usize),
    Interrupts(usize),
    Until,
    Idle,
    Stalled,
}

impl<T: Timing> EventLoop<T> {
    pub fn new(config: &WorldConfig, card: impl FnMut(usize) -> T) -> Result<Self, Error> {
        Ok(Self {
            now: Instant::ZERO,
            devices: Devices::new(config, card)?,
            schedule: Schedule::default(),
            sequence: Sequence::default(),
            events: 0,
            idle_events: 0,
            skipper: skipper(config.skips_strides()),
            is_stepping: false,
        })
    }

    /// Adds a thread of `host`, which is stepped now.
    pub fn add_thread(&mut self, host: usize, owner: Owner) {
        self.schedule.add(self.now, host, owner, &mut self.sequence);
    }

    /// Handles events until a thread or an interrupt handler must run, or until `until`.
    pub fn advance(&mut self, until: Instant) -> DeviceStop {
        loop {
            let (device, thread) = (self.devices.next_event(), self.schedule.turns.first());
            let (moment, device, thread) = match (device, thread) {
                (None, None) => return DeviceStop::Idle,
                (Some((moment, due)), None) => (moment, Some(due), 0),
                (None, Some((moment, thread))) => (moment, None, thread),
                (Some((device, due)), Some((moment, thread))) => {
                    if device < moment {
                        (device, Some(due), 0)
                    } else {
                        (moment, None, thread)
                    }
                }
            };
            if moment.time > until {
                self.now = self.now.max(until);
                return DeviceStop::Until;
            }
            self.pass_to(moment.time);
            if self.idle_events > MAX_IDLE_EVENTS {
                return DeviceStop::Stalled;
            }
            match device {
                None => {
                    self.schedule.turns.set(thread, None);
                    if !self.holds(thread) {
                        return DeviceStop::Thread(thread);
                    }
                }
                Some(Due::Interrupts(host)) => return DeviceStop::Interrupts(host),
                Some(Due::Network) => {
                    self.devices.step_network(self.now, &mut self.sequence);
                    if self.follow_fates() {
                        return DeviceStop::Until;
                    }
                }
                Some(Due::Nic(host)) => {
                    self.advance_nic(host);
                    if let Some(mark) = self.devices.take_mark(host) {
                        self.offer_skip(host, mark);
                    }
                }
            }
        }
    }

    /// Lets the skipper move packets after the end of a stride. Their time passes for the threads,
    /// but not for the devices.
    #[cold]
    fn offer_skip(&mut self, host: usize, mark: Mark) {
        let quiet_time = || self.schedule.quiet_time(self.now);
        let skipped = self
            .skipper
            .offer(&mut self.devices, host, mark, &quiet_time);
        if let Some(time) = skipped {
            self.devices.skip_time(time);
            self.now += time;
            self.schedule.put_off_rechecks(self.now, &mut self.sequence);
        }
    }

    /// Counts an event, and advances the time to it.
    #[inline]
    fn pass_to(&mut self, time: Instant) {
        self.events += 1;
        self.idle_events += 1;
        if time > self.now {
            self.now = time;
            self.idle_events = 0;
        }
    }

    /// Advances a NIC, and schedules the resulting events.
    pub fn advance_nic(&mut self, host: usize) {
        if self.devices.advance(self.now, host, &mut self.sequence) {
            self.idle_events = 0;
        }
        self.notify(host);
    }

    /// Schedules the interrupts of a host, and the threads to which a write becomes visible.
    #[inline]
    fn notify(&mut self, host: usize) {
        let (turns, sequence) = (&mut self.schedule.turns, &mut self.sequence);
        self.devices.notify(host, |thread, time| {
            turns.lower(thread, sequence.moment(time));
        });
        self.devices.schedule_interrupts(host, sequence);
    }

    /// Takes the interrupts of a host that have arrived, and wakes its sleeping threads.
    pub fn take_interrupts(&mut self, host: usize) -> u64 {
        let now = self.now;
        let vectors = self.devices.take_interrupts(now, host);
        self.notify(host);
        for (thread, wake_up) in std::mem::take(&mut self.devices.nodes[host].sleepers) {
            let clock = self.schedule.entries[thread].clock;
            let moment = self.sequence.moment((now + wake_up).max(clock));
            self.schedule.turns.lower(thread, moment);
        }
        self.is_stepping = true;
        vectors
    }

    /// Sends a store of a processor of `host` to its card at `at`: `send` is called with the card's
    /// times of the event and of the store. Returns when the host's root port has taken the store.
    #[inline]
    pub fn store(
        &mut self,
        host: usize,
        at: Instant,
        send: impl FnOnce(&mut WorldHost, Instant, Instant) -> Store,
    ) -> Instant {
        self.devices
            .store(self.now, at, host, &mut self.sequence, send)
    }

    /// Wakes a parked thread at `at`.
    pub fn wake(&mut self, thread: ThreadId, at: Instant) {
        self.wake_from(State::Parked, thread, at);
    }

    /// Wakes a thread that waits for an interrupt at `at`, or at its own time if that is later. Has
    /// no effect on other threads.
    pub fn wake_sleeper(&mut self, thread: ThreadId, at: Instant) {
        self.wake_from(State::Sleeping, thread, at);
    }

    fn wake_from(&mut self, state: State, thread: ThreadId, at: Instant) {
        let Some(entry) = self.schedule.entries.get(thread.0) else {
            return;
        };
        if entry.state == state {
            let time = at.max(entry.clock).max(self.now);
            let moment = self.sequence.moment(time);
            self.schedule.turns.lower(thread.0, moment);
        }
    }

    /// Gives a thread a turn at `time`, unless it has an earlier one.
    pub fn wake_thread(&mut self, thread: usize, time: Instant) {
        let moment = self.sequence.moment(time);
        self.schedule.turns.lower(thread, moment);
    }

    /// Lets a polling thread poll at the first point of its polling grid that is not before `at`.
    pub fn look_again(&mut self, thread: ThreadId, at: Instant) {
        let Some(entry) = self.schedule.entries.get(thread.0) else {
            return;
        };
        let watchers = &self.devices.nodes[entry.host].host.watchers;
        let turns = watchers.turns_of(thread.0);
        if let (State::Polling, Some(turns)) = (entry.state, turns) {
            let time = turns.first_from(at.max(self.now));
            let moment = self.sequence.moment(time);
            self.schedule.turns.lower(thread.0, moment);
        }
    }

    /// Orders simultaneous events by host; events of devices come first.
    pub fn order_by_host(&mut self) {
        self.devices.order_by_host(&mut self.sequence);
        self.schedule.order_by_host(&mut self.sequence);
    }

    /// Returns true if only rechecks of polling threads are pending.
    pub fn has_only_rechecks(&self) -> bool {
        self.devices.next_event().is_none() && self.schedule.has_only_rechecks()
    }

    /// Returns the time of the next event.
    pub fn next_event(&self) -> Option<Instant> {
        let device = self.devices.next_event().map(|(moment, _)| moment.time);
        let thread = self.schedule.turns.first().map(|(moment, _)| moment.time);
        match (device, thread) {
            (Some(device), Some(thread)) => Some(device.min(thread)),
            (device, thread) => device.or(thread),
        }
    }

    /// Ends a step of a thread whose clock is at `clock`, and schedules its next step.
    pub fn finish(&mut self, thread: ThreadId, next: Next, clock: Instant, deadlines: Deadlines) {
        self.is_stepping = false;
        let Deadlines { last, recheck_at } = deadlines;
        let (thread, now) = (thread.0, self.now);
        let host = self.schedule.entries[thread].host;
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
                let wakes_at = self.devices.watch(now, host, thread, turns);
                (State::Polling, wakes_at)
            }
            Next::OnInterrupt { wake_up } => {
                self.devices.nodes[host].sleepers.push((thread, wake_up));
                (State::Sleeping, None)
            }
            Next::Parked => (State::Parked, None),
            Next::Done => {
                self.devices.nodes[host].host.watchers.remove(thread);
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
            let moment = self.sequence.moment(time.max(now));
            self.schedule.turns.set(thread, Some(moment));
        }
        let entry = &mut self.schedule.entries[thread];
        entry.state = state;
        entry.clock = clock;
        entry.recheck = recheck;
    }

    /// Begins a step of a thread.
    #[inline]
    pub fn begin(&mut self, thread: usize) -> Stop {
        let now = self.now;
        let entry = &mut self.schedule.entries[thread];
        let was = std::mem::replace(&mut entry.state, State::Stepping);
        let host = entry.host;
        let node = &mut self.devices.nodes[host];
        match was {
            State::Polling => node.host.watchers.suspend(thread),
            // Its deadline came before an interrupt.
            State::Sleeping => node.sleepers.retain(|(sleeper, _)| *sleeper != thread),
            _ => {}
        }
        self.devices.apply(now, host);
        let visible = self.devices.next_visible(host);
        let quiet_until = match (self.next_event(), visible) {
            (Some(event), Some(visible)) => event.min(visible),
            (event, visible) => event.or(visible).unwrap_or(Instant::MAX),
        };
        self.is_stepping = true;
        Stop::Thread {
            thread: ThreadId(thread),
            now,
            quiet_until,
        }
    }

    /// Returns the time until which no write of a card becomes visible to a thread in a step, and
    /// the minimum time from a store of the thread to a write that its card makes in response.
    ///
    /// Whatever the next event is, PCIe needs its minimum time to bring a write to memory.
    /// AtomicOps are visible immediately: if there are any, the time of the next event counts.
    pub fn hidden_until(&self, thread: usize) -> (Instant, Duration) {
        let own = self.schedule.entries[thread].host;
        let pcie = self.devices.nodes[own].host.pcie.as_ref();
        let pcie = pcie.filter(|pcie| !pcie.has_atomics());
        let (store, write) = pcie.map_or((Duration::ZERO, Duration::ZERO), |pcie| pcie.least());
        let Schedule { entries, turns } = &self.schedule;
        let threads = entries.iter().enumerate();
        let threads =
            threads.filter_map(|(thread, entry)| Some((turns.time_of(thread)?, entry.host == own)));
        let visible = |(time, at_once)| if at_once { time } else { time + write };
        let events = self.devices.event_times(own).chain(threads).map(visible);
        let hidden_until = events.chain(self.devices.next_visible(own)).min();
        (hidden_until.unwrap_or(Instant::MAX), store + write)
    }

    /// Pauses the world: applies the visible writes to memory for readers from outside.
    pub fn pause(&mut self, stop: Stop) -> Stop {
        self.idle_events = 0;
        let hosts = 0..self.devices.nodes.len();
        hosts.for_each(|host| self.devices.apply(self.now, host));
        stop
    }

    /// Advances the devices to their next event, or to the next write that becomes visible, because
    /// the driver of `host` waits. Returns the host whose interrupts have arrived, and their
    /// vectors.
    pub fn relax(&mut self, host: usize) -> Option<(usize, u64)> {
        let visible = self.devices.next_visible(host);
        let event = self.devices.next_event();
        let time = match (event, visible) {
            (Some((moment, _)), Some(visible)) => moment.time.min(visible),
            (Some((moment, _)), None) => moment.time,
            (None, Some(visible)) => visible,
            (None, None) => {
                self.idle_events += 1;
                let has_given_up = self.idle_events > MAX_IDLE_EVENTS;
                if has_given_up && self.devices.has_command(self.now, host) {
                    self.give_up(host);
                }
                return None;
            }
        };
        self.pass_to(time);
        let mut interrupts = None;
        match event {
            Some((moment, due)) if moment.time <= self.now => match due {
                Due::Interrupts(host) => interrupts = Some((host, self.take_interrupts(host))),
                Due::Network => {
                    self.devices.step_network(self.now, &mut self.sequence);
                    self.follow_fates();
                }
                Due::Nic(host) => self.advance_nic(host),
            },
            _ => {}
        }
        self.devices.apply(self.now, host);
        interrupts
    }

    #[cold]
    fn give_up(&mut self, host: usize) {
        if !self.devices.nodes[host].is_dead {
            tracing::error!(
                host,
                "the driver waits and nothing can happen: {}",
                self.dump()
            );
            self.devices.nodes[host].is_dead = true;
        }
    }
}
