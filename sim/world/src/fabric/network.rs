//! The network as a part of the event queue: packets in the ports of switches, and on the wires.
//!
//! Each direction of a link is a [`Channel`]. The next event of a channel is the arrival of its
//! first packet at a switch, or the next transmission of its sending port when the wire is free.
//! Pause frames have a separate queue, because they overtake all other frames. A packet costs one
//! event for each switch on its way, and one more for each port where it has to wait. On the last
//! wire it costs none: nothing can stop it there, and its arrival is known when it leaves the
//! switch.
//!
//! Switches are cut-through: a packet is in the buffer from the time at which its first bit has
//! passed the switch's latency until its first bit leaves. Only if the next wire is faster than the
//! last does it wait until it can be sent without a gap.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use ferroce_units::random::{Random, mixed};
use ferroce_units::{Duration, Instant};

use super::buffer::{Alpha, Buffer, DropReason, Ingress, Part, PauseAt, Pfc};
use super::channel::{Channel, Egress, Packet, Pauses, QueueSample, Totals};
use super::packet::{Class, mark};
use super::routing::{Ends, Routes, refuse_loops, reverse};
use crate::event_heap::{EventHeap, Sequence};
use crate::fabric_plan::{FabricError, FabricPlan, MarkCurve, Node, PathChoice, SwitchPlan};
use crate::pause_frame::{self, PauseFrame};
use crate::rate::{Rate, wire_bytes};

/// Longest frame: MTU 4096 with all headers, for the headroom.
const LONGEST_BYTES: u32 = 4096 + 250;
/// Random streams of the fabric, distinct from the streams of the hosts.
const MARK_STREAM: u64 = 0x4543_4e00;
const PATH_STREAM: u64 = 0x4543_4d50;

/// The host's end of a link.
#[derive(Debug, Clone, Copy)]
pub struct HostPort {
    /// Rate of its card.
    pub rate: Rate,
    /// Latency of its cable.
    pub cable: Duration,
    /// Default latency of switches.
    pub switch: Duration,
    /// Time from the arrival of a pause frame at the card until its last frame.
    pub response: Duration,
}

/// Output of the network.
#[derive(Debug)]
pub enum Output<F> {
    /// The last bit of a packet arrives at its host at this time.
    Delivered(Instant, Packet<F>),
    /// A packet was dropped at a channel.
    Dropped(Instant, Packet<F>),
    /// A pause frame arrives at the card of a host at this time.
    Paused(Instant, PauseFrame),
    /// The switch in the card of a function lets the function resume.
    GoesOn(Instant, usize),
}

/// A switch.
#[derive(Debug)]
struct Switch {
    latency: Duration,
    buffer: Buffer,
    alpha: Alpha,
    ecn: Option<MarkCurve>,
    pfc: Option<Pfc>,
    /// True if it is part of a card: there is no cable between it and the functions.
    is_embedded: bool,
    /// Randomises the choice among paths, so that neighbouring switches choose differently.
    salt: u64,
}

/// The meaning of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Pause {
    Begins,
    Ends,
}

/// An arriving pause frame or end of a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Signal {
    at: Instant,
    sequence: u64,
    channel: usize,
    priority: u8,
    pause: Pause,
}

/// Switches, links and the packets in them.
#[derive(Debug)]
pub struct Network<F> {
    channels: Vec<Channel<F>>,
    switches: Vec<Switch>,
    /// The channels from the hosts.
    uplinks: Vec<usize>,
    routes: Routes,
    choice: PathChoice,
    marks: Random,
    paths: Random,
    /// Arrivals by channel, then transmissions by channel, then signals.
    events: EventHeap,
    sequence: Sequence,
    signals: BinaryHeap<Reverse<Signal>>,
    outputs: VecDeque<Output<F>>,
    sent: u64,
}

/// Construction.
impl<F> Network<F> {
    /// Builds a network between hosts with these ports.
    ///
    /// # Errors
    /// [`FabricError`] with the reason why it cannot be built.
    pub fn new(plan: &FabricPlan, hosts: &[HostPort], seed: u64) -> Result<Self, FabricError> {
        plan.check()?;
        if plan.hosts() != hosts.len() {
            let (fabric, world) = (plan.hosts(), hosts.len());
            return Err(FabricError::Hosts { fabric, world });
        }
        let ends = Ends::of(plan);
        let routes = Routes::new(plan, &ends)?;
        refuse_loops(plan, &ends, &routes)?;
        let channels = channels(plan, hosts)?;
        let is_uplink = |host| move |channel: &Channel<F>| channel.from == Node::Host(host);
        let uplinks = (0..hosts.len())
            .map(|host| channels.iter().position(is_uplink(host)))
            .map(|channel| channel.expect("a checked plan links each host"))
            .collect();
        let switches = plan.switches.iter().enumerate().map(|(number, switch)| {
            let ports = ends.from(Node::Switch(number)).count();
            let inward = channels.iter().filter(|c| c.to == Node::Switch(number));
            let headroom = inward.map(|channel| headroom_bytes(channel, hosts)).max();
            let is_embedded = plan.host_of_switch(number).is_some();
            let switch = Switch::new(switch, number, ports, hosts, headroom.unwrap_or(0));
            switch.map(|switch| Switch {
                is_embedded,
                ..switch
            })
        });
        let mut network = Self {
            switches: switches.collect::<Result<_, _>>()?,
            uplinks,
            routes,
            choice: plan.path_choice,
            marks: Random::new(seed, MARK_STREAM),
            paths: Random::new(seed, PATH_STREAM),
            events: EventHeap::new(2 * channels.len() + 1),
            sequence: Sequence::default(),
            signals: BinaryHeap::new(),
            outputs: VecDeque::new(),
            sent: 0,
            channels,
        };
        network.plan_storms(plan)?;
        Ok(network)
    }

    fn plan_storms(&mut self, plan: &FabricPlan) -> Result<(), FabricError> {
        for storm in &plan.storms {
            let cable = self.cable_of(storm.host);
            let cable = cable.ok_or(FabricError::NoStormHost { host: storm.host })?;
            let downlink = reverse(cable);
            self.plan_signal(storm.from, downlink, storm.priority, Pause::Begins);
            self.plan_signal(storm.until, downlink, storm.priority, Pause::Ends);
        }
        Ok(())
    }
}

/// Creates the two channels of each link. The cable of a card has the card's rate.
fn channels<F>(plan: &FabricPlan, hosts: &[HostPort]) -> Result<Vec<Channel<F>>, FabricError> {
    let mut channels = Vec::new();
    for link in &plan.links {
        let card = link.ends.iter().find_map(|end| plan.card_at(*end));
        let port = hosts[card.unwrap_or(0)];
        let rate = match (card, link.rate_gbps) {
            (Some(card), Some(_)) => {
                let (host, _) = plan.place_of(card);
                return Err(FabricError::RateOfHost { host });
            }
            (None, Some(gbps)) => Rate::from_gbps(gbps),
            (_, None) => port.rate,
        };
        let [one, other] = link.ends;
        for (from, to) in [(one, other), (other, one)] {
            channels.push(Channel {
                from,
                to,
                rate,
                cable: link.cable.unwrap_or(port.cable),
                free_at: Instant::ZERO,
                egress: Egress::default(),
                pauses: Pauses::default(),
                under_way: VecDeque::new(),
                ingress: Ingress::default(),
                totals: Totals::default(),
            });
        }
    }
    Ok(channels)
}

/// Returns the maximum number of bytes that still arrive on a channel after its switch pauses it.
/// The pause frame waits for the longest frame and crosses the cable; at the sender the longest
/// frame has just started; and the bytes on the cable arrive as well.
fn headroom_bytes<F>(channel: &Channel<F>, hosts: &[HostPort]) -> u64 {
    let response = match channel.from {
        Node::Host(host) => hosts[host].response,
        Node::Switch(_) => Duration::ZERO,
    };
    let latency = hosts.iter().map(|host| host.switch).max();
    let time = channel.cable + channel.cable + response + latency.unwrap_or(Duration::ZERO);
    let time = time + channel.rate.span(pause_frame::LENGTH as u32);
    let bits = channel.rate.gbps() * time.as_ps() as f64 / 1000.0;
    let on_wire = (bits / 8.0).ceil() as u64;
    on_wire + 3 * u64::from(wire_bytes(LONGEST_BYTES))
}

impl Switch {
    fn new(
        plan: &SwitchPlan,
        number: usize,
        ports: usize,
        hosts: &[HostPort],
        headroom: u64,
    ) -> Result<Self, FabricError> {
        let pfc = plan.pfc.as_ref().map(|pfc| Pfc {
            priorities: pfc
                .priorities
                .iter()
                .fold(0, |bits, priority| bits | 1 << priority),
            pause_at: match pfc.xoff_bytes {
                Some(bytes) => PauseAt::Bytes(bytes),
                None => PauseAt::Share(Alpha::new(pfc.alpha)),
            },
            resume_below_bytes: pfc.xon_offset_bytes,
            headroom_bytes: pfc.headroom_bytes.unwrap_or(headroom),
        });
        let reserved = pfc.map_or(0, |pfc| {
            pfc.headroom_bytes * u64::from(pfc.priorities.count_ones()) * ports as u64
        });
        let shared = plan.buffer_bytes.checked_sub(reserved);
        let shared = shared.filter(|bytes| *bytes > u64::from(LONGEST_BYTES));
        let shared = shared.ok_or_else(|| FabricError::Headroom {
            switch: plan.name.clone(),
            ports,
            headroom_bytes: reserved,
            buffer_bytes: plan.buffer_bytes,
        })?;
        Ok(Self {
            latency: plan.latency.unwrap_or(hosts[0].switch),
            buffer: Buffer::new(shared),
            alpha: Alpha::new(plan.alpha),
            ecn: plan.ecn,
            pfc,
            is_embedded: false,
            salt: mixed(number as u64),
        })
    }
}

/// Interface for hosts.
impl<F: AsRef<[u8]> + AsMut<[u8]>> Network<F> {
    /// Sends a frame from one host to another; its last bit leaves the card at `at`.
    pub fn send(&mut self, now: Instant, at: Instant, from: usize, to: usize, frame: F) {
        let bytes = frame.as_ref().len() as u32;
        let class = Class::of(frame.as_ref());
        let uplink = self.uplinks[from];
        let packet = Packet {
            frame,
            bytes,
            from,
            sent: at,
            to,
            class,
            egress: uplink,
            place: (uplink, Part::Shared),
        };
        self.sent += 1;
        self.put_on_wire(now, at, uplink, packet);
    }

    /// Returns true if the switch has paused a priority of a host.
    #[inline]
    pub fn is_paused(&self, host: usize, frame: &[u8]) -> bool {
        let paused = self.paused(host);
        paused != 0 && paused & 1 << Class::of(frame).priority != 0
    }
}

/// Interface for the event loop and reports.
impl<F> Network<F> {
    /// Returns the bitmap of a host's priorities that its switch has paused.
    #[inline]
    pub fn paused(&self, host: usize) -> u8 {
        self.channels[self.uplinks[host]].pauses.bits()
    }

    /// Returns the channel from a host to its cable: for a function, the channel of its whole card.
    fn cable_of(&self, host: usize) -> Option<usize> {
        let uplink = *self.uplinks.get(host)?;
        match self.channels[uplink].to {
            Node::Switch(switch) if self.switches[switch].is_embedded => {
                let from_card = |channel: &Channel<F>| {
                    channel.from == Node::Switch(switch) && matches!(channel.to, Node::Switch(_))
                };
                self.channels.iter().position(from_card)
            }
            _ => Some(uplink),
        }
    }

    /// Returns the time of the next event.
    #[inline]
    pub fn next_event(&self) -> Option<Instant> {
        self.events.first().map(|(moment, _)| moment.time)
    }

    /// Takes the next output.
    #[inline]
    pub fn next_output(&mut self) -> Option<Output<F>> {
        self.outputs.pop_front()
    }

    /// Returns the latency of a frame of `bytes` from one host to another through an idle network.
    pub fn idle_latency(&self, from: usize, to: usize, bytes: u32) -> Duration {
        let mut channel = &self.channels[self.uplinks[from]];
        let mut latency = channel.cable;
        while let Node::Switch(switch) = channel.to {
            let inward = channel.rate.span(bytes);
            channel = &self.channels[self.routes.choices(switch, to)[0] as usize];
            let outward = channel.rate.span(bytes);
            let stretched = Duration(outward.0.saturating_sub(inward.0));
            latency = latency + self.switches[switch].latency + stretched + channel.cable;
        }
        latency
    }

    /// Samples the queues of switch ports, in the order of the channels.
    pub fn sample(&mut self, now: Instant) -> Vec<QueueSample> {
        let is_switch = |channel: &&mut Channel<F>| matches!(channel.from, Node::Switch(_));
        let ports = self.channels.iter_mut().filter(is_switch);
        let samples = ports.map(|channel| QueueSample {
            area: channel.egress.levels().area(now),
            most_bytes: channel.egress.take_recent_most(),
        });
        samples.collect()
    }

    /// Returns the channels of switch ports.
    pub fn switch_ports(&self) -> impl Iterator<Item = &Channel<F>> {
        let is_switch = |channel: &&Channel<F>| matches!(channel.from, Node::Switch(_));
        self.channels.iter().filter(is_switch)
    }

    /// Returns all channels.
    pub fn channels(&self) -> &[Channel<F>] {
        &self.channels
    }

    /// Returns the buffer of a switch.
    #[cfg(test)]
    pub fn buffer(&self, switch: usize) -> &Buffer {
        &self.switches[switch].buffer
    }

    /// Returns the number of packets that hosts have sent.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Returns the number of packets in queues and on wires.
    pub fn inside(&self) -> u64 {
        let of_channel = |channel: &Channel<F>| channel.egress.len() + channel.under_way.len();
        self.channels.iter().map(of_channel).sum::<usize>() as u64
    }

    fn turn_part(&self, channel: usize) -> usize {
        self.channels.len() + channel
    }

    fn signal_part(&self) -> usize {
        2 * self.channels.len()
    }

    /// Schedules a signal at the sending end of a channel at `at`.
    fn plan_signal(&mut self, at: Instant, channel: usize, priority: u8, pause: Pause) {
        let moment = self.sequence.moment(at);
        self.signals.push(Reverse(Signal {
            at,
            sequence: moment.sequence,
            channel,
            priority,
            pause,
        }));
        let part = self.signal_part();
        self.events.lower(part, moment);
    }
}

/// Events.
impl<F: AsRef<[u8]> + AsMut<[u8]>> Network<F> {
    /// Handles the events up to `now`.
    pub fn step(&mut self, now: Instant) {
        let count = self.channels.len();
        while let Some((moment, part)) = self.events.first() {
            if moment.time > now {
                break;
            }
            match part {
                part if part < count => self.arrive(moment.time, part),
                part if part < 2 * count => {
                    self.events.set(part, None);
                    self.send_next(moment.time, part - count);
                }
                _ => self.take_signal(moment.time),
            }
        }
    }

    /// Handles the arrival of the first packet of a channel in its switch; its output port is
    /// known.
    fn arrive(&mut self, now: Instant, ingress: usize) {
        let channel = &mut self.channels[ingress];
        let Some((_, mut packet)) = channel.under_way.pop_front() else {
            return self.events.set(ingress, None);
        };
        let next = channel.under_way.front().map(|(at, _)| *at);
        let next = next.map(|at| self.sequence.moment(at));
        self.events.set(ingress, next);
        let egress = packet.egress;
        match self.admit(ingress, &packet) {
            Err(reason) => {
                match reason {
                    DropReason::Queue => self.channels[egress].totals.queue_drops += 1,
                    DropReason::Headroom => self.channels[ingress].totals.headroom_drops += 1,
                }
                self.outputs.push_back(Output::Dropped(now, packet));
            }
            Ok(part) => {
                packet.place = (ingress, part);
                let priority = packet.class.priority;
                self.channels[egress].egress.push(now, packet);
                if self.channels[ingress].ingress.take_pause(priority) {
                    self.channels[ingress].totals.pauses += 1;
                    self.signal(now, ingress, priority, Pause::Begins);
                }
                self.send_next(now, egress);
            }
        }
    }

    /// Finds room for a packet in the switch at the end of a channel.
    #[inline]
    fn admit(&mut self, ingress: usize, packet: &Packet<F>) -> Result<Part, DropReason> {
        let Node::Switch(switch) = self.channels[ingress].to else {
            return Ok(Part::Shared);
        };
        let switch = &mut self.switches[switch];
        let (priority, bytes) = (packet.class.priority, u64::from(packet.bytes));
        match &switch.pfc {
            Some(pfc) if pfc.protects(priority) => {
                let ingress = &mut self.channels[ingress].ingress;
                ingress.admit(pfc, &mut switch.buffer, priority, bytes)
            }
            _ => {
                let queued = self.channels[packet.egress].egress.queued(priority);
                switch.buffer.admit_lossy(switch.alpha, queued, bytes)
            }
        }
    }

    /// Frees the room of a packet that leaves a switch; its sender may then resume.
    #[inline]
    fn release(&mut self, now: Instant, switch: usize, packet: &Packet<F>) {
        let (ingress, part) = packet.place;
        let (priority, bytes) = (packet.class.priority, u64::from(packet.bytes));
        let Switch { buffer, pfc, .. } = &mut self.switches[switch];
        match pfc {
            Some(pfc) if pfc.protects(priority) => {
                let held = &mut self.channels[ingress].ingress;
                held.release(buffer, priority, part, bytes);
                if held.take_resume(pfc, buffer, priority) {
                    self.signal(now, ingress, priority, Pause::Ends);
                }
            }
            _ => buffer.release_lossy(bytes),
        }
    }

    /// Sends the next packet of a switch port, if its wire is free.
    fn send_next(&mut self, now: Instant, egress: usize) {
        let part = self.turn_part(egress);
        let channel = &mut self.channels[egress];
        if !channel.egress.has_packets() {
            return;
        }
        if channel.free_at > now {
            let moment = self.sequence.moment(channel.free_at);
            return self.events.lower(part, moment);
        }
        let taken = channel.egress.take(now, channel.pauses.bits());
        let (Some((mut packet, queued)), Node::Switch(switch)) = (taken, channel.from) else {
            return; // all that waits is paused
        };
        let ecn = &self.switches[switch].ecn;
        let is_marked =
            packet.class.can_be_marked && ecn.is_some_and(|curve| curve.marks(queued, &self.marks));
        if is_marked {
            mark(packet.frame.as_mut());
            channel.totals.marked += 1;
        }
        let last_bit = now + channel.rate.span(packet.bytes);
        channel.free_at = last_bit;
        if channel.egress.has_packets() {
            let moment = self.sequence.moment(last_bit);
            self.events.set(part, Some(moment));
        }
        self.release(now, switch, &packet);
        self.put_on_wire(now, last_bit, egress, packet);
    }

    /// Puts a packet on a wire: its last bit leaves the sending port at `last_bit`.
    #[inline]
    fn put_on_wire(&mut self, now: Instant, last_bit: Instant, on: usize, mut packet: Packet<F>) {
        let channel = &mut self.channels[on];
        channel.totals.frames += 1;
        channel.totals.bytes += u64::from(packet.bytes);
        let last_bit = last_bit + channel.cable;
        let Node::Switch(switch) = channel.to else {
            return self.outputs.push_back(Output::Delivered(last_bit, packet));
        };
        let inward = channel.rate.span(packet.bytes);
        packet.egress = self.choose(switch, &packet);
        let outward = self.channels[packet.egress].rate.span(packet.bytes);
        let through = last_bit - inward.min(outward) + self.switches[switch].latency;
        let at = through.max(now);
        let under_way = &mut self.channels[on].under_way;
        under_way.push_back((at, packet));
        if under_way.len() == 1 {
            let moment = self.sequence.moment(at);
            self.events.set(on, Some(moment));
        }
    }

    /// Chooses the channel on which a packet leaves a switch.
    #[inline]
    fn choose(&self, switch: usize, packet: &Packet<F>) -> usize {
        let choices = self.routes.choices(switch, packet.to);
        let count = choices.len() as u64;
        let choice = match (count, self.choice) {
            (1, _) => 0,
            (_, PathChoice::Packet) => self.paths.below(count),
            (_, PathChoice::Flow) => mixed(packet.class.flow ^ self.switches[switch].salt) % count,
        };
        choices[choice as usize] as usize
    }

    /// Sends a pause frame, or the end of a pause, against a channel. It overtakes all queued
    /// frames, but not the one being sent.
    fn signal(&mut self, now: Instant, against: usize, priority: u8, pause: Pause) {
        let channel = &mut self.channels[reverse(against)];
        let sent = channel.free_at.max(now) + channel.rate.span(pause_frame::LENGTH as u32);
        channel.free_at = sent;
        let at = sent + channel.cable;
        self.plan_signal(at, against, priority, pause);
    }

    /// Handles the arrival of the next signal at the sending end of its channel.
    fn take_signal(&mut self, now: Instant) {
        let signal = self.signals.pop();
        let next = self.signals.peek();
        let next = next.map(|Reverse(next)| self.sequence.moment(next.at));
        let part = self.signal_part();
        self.events.set(part, next);
        let Some(Reverse(signal)) = signal else {
            return;
        };
        let is_pause = signal.pause == Pause::Begins;
        let channel = &mut self.channels[signal.channel];
        channel.pauses.set(now, signal.priority, is_pause);
        let is_in_card = match channel.to {
            Node::Switch(switch) => self.switches[switch].is_embedded,
            Node::Host(_) => false,
        };
        match channel.from {
            Node::Host(_) if is_in_card && is_pause => {}
            Node::Host(host) if is_in_card => self.outputs.push_back(Output::GoesOn(now, host)),
            Node::Host(host) => {
                let frame = PauseFrame {
                    host,
                    priority: signal.priority,
                    is_pause,
                };
                self.outputs.push_back(Output::Paused(now, frame));
            }
            Node::Switch(_) if is_pause => {}
            Node::Switch(_) => self.send_next(now, signal.channel),
        }
    }
}

#[cfg(test)]
mod tests;
