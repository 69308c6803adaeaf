//! Links and switch: the port of all NICs.
//!
//! There is one fabric, which acts as the port of host `current`. The arrival of a frame is known
//! when it is sent, so the receiving NIC can take it in advance.
//!
//! This holds if a cable or a single switch without a buffer connects the hosts ([`Line`]). If the
//! world has a [`FabricPlan`], frames go through a [`network`] instead, whose switches are parts of
//! the event queue: `switched`.
//!
//! [`FabricPlan`]: crate::FabricPlan

use std::collections::VecDeque;

use ferroce_faults::{Engine, FaultCounters, Plan};
use ferroce_host::numbered_hosts;
use ferroce_model::{Port, Reservation, Route};
use ferroce_units::{Duration, Instant};
use ferroce_wire::{Gid, Qpn};

use super::config::{Topology, WorldConfig};
use super::counters::LinkCounters;
use super::fabric_plan::FabricError;
use super::frame::{Frame, FramePool};
use super::recorder::{Activity, FaultSeen, FrameSeen, SharedRecorder, Span};
use super::switch::Line;
use network::Network;

pub mod buffer;
pub mod channel;
pub mod ecn;
mod faults;
pub mod network;
pub mod packet;
pub mod report;
pub mod routing;
mod switched;

/// Arrival times of a frame: none if it is lost, two if it is duplicated.
pub type Arrivals = [Option<Instant>; 2];

/// The way of a frame from one host to another.
#[derive(Debug, Clone, Copy)]
struct Transit {
    from: usize,
    to: usize,
    /// When its last bit leaves the sender.
    sent: Instant,
    /// When its last bit arrives.
    arrival: Instant,
}

/// A host whose NIC has work.
#[derive(Debug, Clone, Copy)]
pub struct Woken {
    pub host: usize,
    pub at: Instant,
    /// The queue pair of an arriving frame.
    pub qpn: Option<Qpn>,
}

/// Maximum number of frames in flight to one host; then senders wait.
const MAX_UNDER_WAY: usize = 4096;
/// Bytes of frames that have arrived and that a card can keep until its host takes them. As with
/// link-level flow control, a sender waits for room ("Port buffer size", Mellanox community,
/// DOC-2933: ConnectX-4 and -5).
const RECEIVE_BUFFER_BYTES: usize = 262_016;
/// Destinations from this number on are multicast groups.
const FIRST_GROUP: u32 = 1 << 24;

/// A host's port.
#[derive(Debug, Default)]
struct End {
    line: Line,
    arriving: VecDeque<(Instant, Frame)>,
    /// Hosts that wait for room in this host's card; each at most once.
    waiting: VecDeque<usize>,
    counters: LinkCounters,
    /// When its last frame leaves it.
    last_sent: Instant,
    /// True while a situation keeps its link down.
    is_down: bool,
}

impl End {
    /// Returns true if this host can be sent one more frame of `length` bytes: fewer than
    /// [`MAX_UNDER_WAY`] are in flight, and they would fit into the card's buffer if they were all
    /// as long as this one. Short frames such as ACKs have room when long ones have none, so two
    /// hosts never wait for each other.
    #[inline]
    fn has_room(&self, now: Instant, length: usize) -> bool {
        let buffered = RECEIVE_BUFFER_BYTES / length.max(1);
        let is_full = |(arrival, _): &(Instant, Frame)| *arrival <= now;
        self.arriving.len() < MAX_UNDER_WAY && !self.arriving.get(buffered).is_some_and(is_full)
    }

    #[cold]
    fn let_wait(&mut self, host: usize) {
        if !self.waiting.contains(&host) {
            self.waiting.push_back(host);
        }
    }
}

/// A multicast group that at least one host has joined now or in the past.
#[derive(Debug)]
struct Group {
    gid: Gid,
    members: Vec<usize>,
}

/// All ports, links and the switch.
pub struct Fabric {
    now: Instant,
    current: usize,
    ends: Vec<End>,
    topology: Topology,
    pool: FramePool,
    groups: Vec<Group>,
    /// True if NICs take frames before they arrive.
    looks_ahead: bool,
    icrc: bool,
    /// Switches and links; `None`: a cable, or a switch that never fills.
    network: Option<Box<Network<Frame>>>,
    /// Faults of frames; `None`: no faults.
    faults: Option<Box<Engine>>,
    /// True while the card of `current` loses its power: what it sends is dropped.
    is_muted: bool,
    /// Hosts to which frames were sent, until [`Fabric::next_woken`] takes them.
    woken: Vec<Woken>,
    recorder: Option<SharedRecorder>,
}

impl Fabric {
    pub fn new(config: &WorldConfig) -> Result<Self, FabricError> {
        let end = |host| End {
            line: Line::new(config.preset_of(host)),
            arriving: VecDeque::new(),
            waiting: VecDeque::new(),
            counters: LinkCounters {
                faults: config.faults.as_ref().map(|_| FaultCounters::default()),
                ..LinkCounters::default()
            },
            last_sent: Instant::ZERO,
            is_down: false,
        };
        Ok(Self {
            now: Instant::ZERO,
            current: 0,
            ends: (0..config.hosts).map(end).collect(),
            topology: config.topology,
            pool: FramePool::default(),
            groups: Vec::new(),
            // A frame that was taken in advance can no longer be overtaken.
            looks_ahead: !config.faults.as_ref().is_some_and(Plan::reorders),
            icrc: config.icrc,
            network: switched::network(config)?,
            faults: config.faults.clone().map(|plan| Engine::new(plan).into()),
            is_muted: false,
            woken: Vec::new(),
            recorder: None,
        })
    }

    /// Begins an event at `now`: until the next event, this is the port of `host`.
    #[inline]
    pub fn select(&mut self, now: Instant, host: usize) {
        self.now = now;
        self.current = host;
    }

    pub fn record(&mut self, recorder: Option<SharedRecorder>) {
        self.recorder = recorder;
    }

    pub fn counters(&self, host: usize) -> LinkCounters {
        self.ends[host].counters
    }

    /// Returns the number of frames in flight to a host.
    pub fn under_way(&self, host: usize) -> usize {
        self.ends[host].arriving.len()
    }

    /// Takes the next host to which a frame was sent, or that may send again.
    #[inline]
    pub fn next_woken(&mut self) -> Option<Woken> {
        self.woken.pop()
    }

    /// Returns when the next frame arrives at a NIC that does not take frames in advance.
    #[inline]
    pub fn next_arrival(&self, host: usize, now: Instant) -> Option<Instant> {
        let (at, _) = self.ends[host].arriving.front()?;
        (*at > now).then_some(*at)
    }

    /// Sets whether the frames of this host are dropped, because its card has no power.
    pub fn mute(&mut self, is_muted: bool) {
        self.is_muted = is_muted;
    }

    /// Returns when the last frame of a host leaves it. That may be later than now: cards plan
    /// ahead, and their peers take frames in advance.
    pub fn last_sent(&self, host: usize) -> Instant {
        self.ends[host].last_sent
    }

    /// Carries a frame to a host that receives it without its card, from this host's MAC at `at`.
    /// Returns when the other side has it.
    pub fn carry_aside(&mut self, at: Instant, to: usize, qpn: u32, frame: &[u8]) -> Arrivals {
        let from = self.current;
        self.count_sent(frame.len() as u32);
        let sent = self.ends[from].line.departure(at, frame.len() as u32);
        let arrival = self.arrival_aside(sent, to, frame.len() as u32);
        let transit = Transit {
            from,
            to,
            sent,
            arrival,
        };
        let arrivals = if self.faults.is_some() {
            self.carry_aside_with_faults(transit, qpn, frame)
        } else {
            self.note_arrival(transit, qpn, frame);
            [Some(arrival), None]
        };
        let line = &self.ends[to].line;
        arrivals.map(|arrival| arrival.map(|arrival| line.reception(arrival)))
    }

    #[inline]
    fn count_sent(&mut self, bytes: u32) {
        let end = &mut self.ends[self.current];
        end.counters.sent_frames += 1;
        end.counters.sent_bytes += u64::from(bytes);
        end.counters.sent_busy = end.counters.sent_busy + end.line.span(bytes);
    }

    /// Sends a frame to the card of a host.
    #[inline]
    fn deliver(&mut self, at: Instant, to: usize, frame: Frame) {
        if self.network.is_some() && to != self.current {
            return self.send_through_network(at, to, frame);
        }
        if self.faults.is_some() {
            return self.deliver_with_faults(at, to, frame);
        }
        let arrival = self.travel(at, to, frame.length());
        let transit = Transit {
            from: self.current,
            to,
            sent: at,
            arrival,
        };
        self.note_arrival(transit, frame.qpn(), frame.as_ref());
        self.put(arrival, to, frame);
    }

    /// Wakes the host that has waited longest for the room of the frame that this host's card has
    /// taken; all of them if that was the last one.
    #[cold]
    fn wake_waiting(&mut self, now: Instant) {
        let end = &mut self.ends[self.current];
        let count = if end.arriving.is_empty() {
            end.waiting.len()
        } else {
            1
        };
        self.woken
            .extend(end.waiting.drain(..count).map(|host| Woken {
                host,
                at: now,
                qpn: None,
            }));
    }

    /// Queues an arriving frame at a host.
    #[inline]
    fn put(&mut self, arrival: Instant, to: usize, frame: Frame) {
        let qpn = Some(Qpn::new(frame.qpn()));
        let end = &mut self.ends[to];
        // Frames of several senders, each on its own cable, and frames of the card itself may be
        // out of order.
        match end.arriving.back() {
            Some((last, _)) if *last > arrival => {
                let place = end.arriving.partition_point(|(other, _)| *other <= arrival);
                end.arriving.insert(place, (arrival, frame));
            }
            _ => end.arriving.push_back((arrival, frame)),
        }
        let counters = &mut end.counters;
        counters.most_under_way = counters.most_under_way.max(end.arriving.len() as u64);
        self.woken.push(Woken {
            host: to,
            at: arrival,
            qpn,
        });
    }

    /// Records and counts an arriving frame.
    #[inline]
    fn note_arrival(&mut self, transit: Transit, qpn: u32, frame: &[u8]) {
        if self.recorder.is_some() {
            self.record_frame(transit, qpn, frame, None);
        }
        self.count_received(transit.to, frame.len() as u32);
    }

    /// Returns when the last bit of a frame arrives at a host.
    #[inline]
    fn travel(&mut self, at: Instant, to: usize, bytes: u32) -> Instant {
        let from = self.current;
        let (arrival, waited) = if to == from {
            let arrival = self.ends[from].line.loop_back(at);
            (arrival.max(self.now), Duration::ZERO)
        } else if self.topology == Topology::Cable {
            let arrival = self.ends[from].line.pass(at);
            (arrival, Duration::ZERO)
        } else {
            self.forward(from, to, at, bytes)
        };
        let counters = &mut self.ends[to].counters;
        counters.waited = counters.waited + waited;
        arrival
    }

    /// Reports a frame to the recorder.
    #[cold]
    fn record_frame(&self, transit: Transit, qpn: u32, bytes: &[u8], fault: Option<FaultSeen<'_>>) {
        let Some(recorder) = &self.recorder else {
            return;
        };
        let Transit {
            from,
            to,
            sent,
            arrival,
        } = transit;
        let mut recorder = recorder.lock();
        recorder.record(&Span {
            host: from,
            activity: Activity::Link,
            start: sent,
            end: arrival,
            qp: Some(qpn),
            bytes: bytes.len() as u32,
        });
        recorder.frame(&FrameSeen {
            from,
            to,
            sent,
            arrival,
            bytes,
            fault,
        });
    }

    #[inline]
    fn count_received(&mut self, to: usize, bytes: u32) {
        let end = &mut self.ends[to];
        let counters = &mut end.counters;
        counters.received_frames += 1;
        counters.received_bytes += u64::from(bytes);
        counters.received_busy = counters.received_busy + end.line.span(bytes);
    }

    /// Sends a frame through the switch; returns its arrival and its waiting time.
    #[inline]
    fn forward(&mut self, from: usize, to: usize, at: Instant, bytes: u32) -> (Instant, Duration) {
        let (low, high) = self.ends.split_at_mut(from.max(to));
        if from < to {
            high[0].line.forward(&low[from].line, at, bytes)
        } else {
            low[to].line.forward(&high[0].line, at, bytes)
        }
    }

    #[cold]
    fn deliver_to_group(&mut self, at: Instant, group: usize, frame: Frame) {
        for index in 0..self.groups[group].members.len() {
            let to = self.groups[group].members[index];
            if let Some(copy) = self.pool.copy(&frame) {
                self.deliver(at, to, copy);
            }
        }
        self.pool.give_back(frame);
    }

    /// Returns the destination of a route; `None`: it has none.
    #[inline]
    fn destination(&self, route: &Route) -> Option<u32> {
        if route.mac.is_multicast() {
            return self.group_of(route.gid);
        }
        let host = numbered_hosts::host_of(route.mac)?;
        (host < self.ends.len()).then_some(host as u32)
    }

    #[cold]
    fn group_of(&self, gid: Gid) -> Option<u32> {
        let index = self.groups.iter().position(|group| group.gid == gid)?;
        let is_empty = self.groups[index].members.is_empty();
        (!is_empty).then_some(FIRST_GROUP + index as u32)
    }
}

impl Port for Fabric {
    type Frame = Frame;

    const LOOKS_AHEAD: bool = true;

    #[inline]
    fn reserve(&mut self, route: &Route, length: usize) -> Reservation<Frame> {
        let Some(destination) = self.destination(route) else {
            self.ends[self.current].counters.lost_frames += 1;
            return Reservation::NoRoute;
        };
        // In a network, only the host's own cable stops a sender.
        if self.network.is_none()
            && let Some(end) = self.ends.get_mut(destination as usize)
            && !end.has_room(self.now, length)
        {
            end.let_wait(self.current);
            return Reservation::Full;
        }
        match self.pool.take(length, destination, route.qpn.value()) {
            Some(frame) => Reservation::Ready(frame),
            None => Reservation::NoRoute,
        }
    }

    #[inline]
    fn is_paused(&self) -> bool {
        match &self.network {
            None => false,
            Some(network) => network.paused(self.current) != 0,
        }
    }

    fn pauses(&self, frame: &Frame) -> bool {
        let network = self.network.as_ref();
        network.is_some_and(|network| network.is_paused(self.current, frame.as_ref()))
    }

    #[inline]
    fn transmit(&mut self, at: Instant, frame: Frame) {
        if self.is_muted {
            return self.pool.give_back(frame);
        }
        let end = &mut self.ends[self.current];
        end.last_sent = end.last_sent.max(at);
        self.count_sent(frame.length());
        match frame.destination() {
            group @ FIRST_GROUP.. => {
                self.deliver_to_group(at, (group - FIRST_GROUP) as usize, frame);
            }
            to => self.deliver(at, to as usize, frame),
        }
    }

    fn cancel(&mut self, frame: Frame) {
        self.pool.give_back(frame);
    }

    #[inline]
    fn receive(&mut self, now: Instant) -> Option<(Instant, Frame)> {
        let arriving = &mut self.ends[self.current].arriving;
        let (at, _) = arriving.front()?;
        if !self.looks_ahead && *at > now {
            return None;
        }
        let taken = arriving.pop_front();
        if !self.ends[self.current].waiting.is_empty() {
            self.wake_waiting(now);
        }
        taken
    }

    #[inline]
    fn release(&mut self, frame: Frame) {
        self.pool.give_back(frame);
    }

    fn computes_icrc(&self) -> bool {
        self.icrc
    }

    #[inline]
    fn link_is_up(&self) -> bool {
        !self.ends[self.current].is_down
    }

    fn carries_icrc(&self, frame: &Frame) -> bool {
        self.icrc || frame.is_checked()
    }

    fn join(&mut self, gid: Gid) {
        let known = self.groups.iter().position(|group| group.gid == gid);
        let index = known.unwrap_or_else(|| {
            let members = Vec::new();
            self.groups.push(Group { gid, members });
            self.groups.len() - 1
        });
        let members = &mut self.groups[index].members;
        if !members.contains(&self.current) {
            members.push(self.current);
        }
    }

    fn leave(&mut self, gid: Gid) {
        let current = self.current;
        if let Some(group) = self.groups.iter_mut().find(|group| group.gid == gid) {
            group.members.retain(|member| *member != current);
        }
    }
}
