//! RDMA CM of the hosts: the kernel's side of `/dev/infiniband/rdma_cm`, in simulated time.
//!
//! Each host has one agent. It executes the commands of the host's programs when the world has
//! reached their time. It is also a thread of the world that handles datagrams one after the other;
//! each takes `host.cm_mad_ns`. Datagrams are frames between QP 1 of the hosts. A program has its
//! host's card to itself, so datagrams do not pass through the card: they take the time of MACs,
//! cables and switch, and `host.cm_mad_ns` includes PCIe and interrupt.
//!
//! A host whose programs have never listened does not answer requests, so the requester retransmits
//! them. This way a client may be started before its server.

mod frame;
mod host;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use ferroce_model::preset::Preset;
use ferroce_model::preset::costs::Costs;
use ferroce_rdma_cm::{ChannelId, Config, Disposition, Errno, RdmaCm, Reply, Transmit};
use ferroce_timed_protocol::cm::MAX_CHANNELS;
use ferroce_units::{Duration, Instant};
use ferroce_wire::Qpn;
use ferroce_world::{Cpu, Next, ThreadId, Waker, Wire};

use frame::Received;
use host::{AgentHost, Listening};

/// Maximum number of frames that wait for an agent; further ones are lost, and the peer sends them
/// again.
const MAX_WAITING: usize = 4096;
/// Tag of communication identifiers: programs of a host share one agent.
const TAG: u8 = 1;

/// A program that has channels.
pub trait ChannelOwner {
    /// Returns its unique number.
    fn id(&self) -> u64;
    /// Returns its host.
    fn host(&self) -> usize;
    /// Sets how many events wait in one of its channels.
    fn set_events(&self, channel: usize, count: u32);
}

/// The agents of all hosts of a world.
pub struct CmAgents<P> {
    agents: Vec<Agent<P>>,
    wire: Wire,
    waker: Waker,
    /// Programs that have new events and are not notified yet.
    reached: Vec<Arc<P>>,
}

/// The agent of a host.
struct Agent<P> {
    cm: RdmaCm,
    host: AgentHost,
    /// `None`: no program of the world has opened a channel.
    thread: Option<ThreadId>,
    /// Frames by arrival.
    waiting: VecDeque<(Instant, Vec<u8>)>,
    /// The frame that it is handling, until its time has passed.
    in_hand: Option<Vec<u8>>,
    channels: BTreeMap<ChannelId, Channel<P>>,
    has_listened: bool,
    /// Datagrams sent so far: their PSNs.
    sent: u32,
    mad_cost: Duration,
}

/// An open channel.
struct Channel<P> {
    program: Arc<P>,
    /// Its number within the program.
    number: usize,
    /// Number of events that the program has been shown.
    shown: u32,
}

impl<P: ChannelOwner> CmAgents<P> {
    /// Creates the agents of hosts with these presets.
    pub fn new(presets: &[Preset], wire: Wire, waker: Waker) -> Self {
        let agents = presets.iter().enumerate();
        Self {
            agents: agents
                .map(|(host, preset)| Agent::new(host, presets.len(), preset))
                .collect(),
            wire,
            waker,
            reached: Vec::new(),
        }
    }

    /// Returns true if the agents are threads of the world.
    pub fn have_threads(&self) -> bool {
        self.agents.iter().any(|agent| agent.thread.is_some())
    }

    /// Sets the thread in which [`CmAgents::step`] is called for a host.
    pub fn set_thread(&mut self, host: usize, thread: ThreadId) {
        self.agents[host].thread = Some(thread);
    }

    /// Takes the programs that have new events.
    pub fn take_reached(&mut self) -> Vec<Arc<P>> {
        std::mem::take(&mut self.reached)
    }

    /// Opens a channel for a program. Returns its number.
    ///
    /// # Errors
    /// `ENOMEM` if the program has [`MAX_CHANNELS`].
    pub fn open(&mut self, program: &Arc<P>) -> Result<u32, Errno> {
        let agent = &mut self.agents[program.host()];
        let own = agent.channels.values();
        let own = own.filter(|channel| channel.program.id() == program.id());
        let used: Vec<usize> = own.map(|channel| channel.number).collect();
        let number = (0..MAX_CHANNELS).find(|number| !used.contains(number));
        let number = number.ok_or(Errno::ENOMEM)?;
        let id = agent.cm.open_channel()?;
        program.set_events(number, 0);
        let channel = Channel {
            program: Arc::clone(program),
            number,
            shown: 0,
        };
        agent.channels.insert(id, channel);
        Ok(number as u32)
    }

    /// Closes a channel, and ends its connections.
    ///
    /// # Errors
    /// `EINVAL` if the program has no such channel.
    pub fn close(&mut self, now: Instant, program: &P, number: u32) -> Result<(), Errno> {
        let host = program.host();
        let id = self.agents[host].channel(program, number)?;
        self.close_channel(now, host, id);
        Ok(())
    }

    /// Closes all channels of a program that has ended.
    pub fn forget(&mut self, now: Instant, program: &P) {
        let host = program.host();
        let own = self.agents[host].channels.iter();
        let own = own.filter(|(_, channel)| channel.program.id() == program.id());
        let ids: Vec<ChannelId> = own.map(|(id, _)| *id).collect();
        for id in ids {
            self.close_channel(now, host, id);
        }
    }

    fn close_channel(&mut self, now: Instant, host: usize, id: ChannelId) {
        let agent = &mut self.agents[host];
        agent.channels.remove(&id);
        agent.cm.close_channel(now, &mut agent.host, id);
        self.settle(now, host);
    }

    /// Executes a command.
    ///
    /// # Errors
    /// The errors of the kernel's device file; `EINVAL` if the program has no such channel.
    pub fn command(
        &mut self,
        now: Instant,
        program: &P,
        number: u32,
        bytes: &[u8],
        option: &[u8],
    ) -> Result<Reply, Errno> {
        let host = program.host();
        let listening = self.listening();
        let agent = &mut self.agents[host];
        agent.host.set_listening(listening);
        let id = agent.channel(program, number)?;
        let reply = agent.cm.command(now, &mut agent.host, id, bytes, option);
        agent.has_listened |= agent.cm.listeners().next().is_some();
        self.settle(now, host);
        reply
    }

    /// Returns the ports on which the hosts listen.
    fn listening(&self) -> Vec<Listening> {
        let agents = self.agents.iter().enumerate();
        let of_host = |(host, agent): (usize, &Agent<P>)| {
            let listeners = agent.cm.listeners();
            let ports = listeners.map(move |listener| Listening {
                space: listener.port_space,
                port: listener.address.port(),
                host,
            });
            ports.collect::<Vec<_>>()
        };
        agents.flat_map(of_host).collect()
    }

    /// Executes MIGRATE_ID; `source` is the number of the channel that has the id.
    ///
    /// # Errors
    /// As for [`CmAgents::command`]; the errno in `source`.
    pub fn migrate(
        &mut self,
        now: Instant,
        program: &P,
        number: u32,
        bytes: &[u8],
        source: Result<u32, Errno>,
    ) -> Result<Reply, Errno> {
        let host = program.host();
        let agent = &mut self.agents[host];
        let id = agent.channel(program, number)?;
        let source = source.and_then(|number| agent.channel(program, number));
        let reply = agent.cm.migrate(id, bytes, source);
        self.settle(now, host);
        reply
    }

    /// Runs a step of the thread of a host.
    pub fn step(&mut self, host: usize, cpu: &mut Cpu<'_>) -> Next {
        let now = cpu.now();
        let agent = &mut self.agents[host];
        agent.cm.handle_timeout(now, &mut agent.host);
        if let Some(frame) = agent.in_hand.take() {
            agent.take(now, &frame);
        }
        self.settle(now, host);
        let agent = &mut self.agents[host];
        let arrival = agent.waiting.front().map(|(arrival, _)| *arrival);
        if arrival.is_some_and(|arrival| arrival <= now) {
            agent.in_hand = agent.waiting.pop_front().map(|(_, frame)| frame);
            return Next::At(now + agent.mad_cost);
        }
        if let Some(due) = agent.cm.next_timeout().into_iter().chain(arrival).min() {
            cpu.set_deadline(due);
        }
        Next::Parked
    }

    /// Sends the agent's pending datagrams, shows its events, and schedules its next time-out.
    fn settle(&mut self, now: Instant, host: usize) {
        while let Some(transmit) = self.agents[host].cm.poll_mad() {
            self.transmit(now, host, &transmit);
        }
        let agent = &mut self.agents[host];
        for (id, channel) in &mut agent.channels {
            let count = agent.cm.waiting_events(*id) as u32;
            let shown = std::mem::replace(&mut channel.shown, count);
            if count != shown {
                channel.program.set_events(channel.number, count);
            }
            if count > shown {
                self.reached.push(Arc::clone(&channel.program));
            }
        }
        if let (Some(due), Some(thread)) = (agent.cm.next_timeout(), agent.thread) {
            self.waker.wake(thread, due);
        }
    }

    fn transmit(&mut self, now: Instant, from: usize, transmit: &Transmit) {
        let Some(to) = host::of_address(transmit.to, self.agents.len()) else {
            tracing::debug!(to = %transmit.to, "datagram of RDMA CM to no host");
            return;
        };
        let agent = &mut self.agents[from];
        let frame = frame::emit(transmit, from, to, agent.sent);
        agent.sent = agent.sent.wrapping_add(1);
        let arrivals = self.wire.send(now, from, to, Qpn::GSI.value(), &frame);
        let peer = &mut self.agents[to];
        for arrival in arrivals.into_iter().flatten() {
            if peer.waiting.len() >= MAX_WAITING {
                return;
            }
            let place = peer.waiting.partition_point(|(other, _)| *other <= arrival);
            peer.waiting.insert(place, (arrival, frame.clone()));
            if let Some(thread) = peer.thread {
                self.waker.wake(thread, arrival);
            }
        }
    }
}

impl<P: ChannelOwner> Agent<P> {
    fn new(number: usize, hosts: usize, preset: &Preset) -> Self {
        let config = Config {
            // Unique per host, because it also seeds the PSNs.
            first_id: (number as u32) << 8 | 1,
            ..Config::new(TAG)
        };
        Self {
            cm: RdmaCm::new(config),
            host: AgentHost::new(number, hosts, preset),
            thread: None,
            waiting: VecDeque::new(),
            in_hand: None,
            channels: BTreeMap::new(),
            has_listened: false,
            sent: 0,
            mad_cost: Costs::new(preset).cm_mad,
        }
    }

    fn channel(&self, program: &P, number: u32) -> Result<ChannelId, Errno> {
        let is_it = |channel: &Channel<P>| {
            channel.program.id() == program.id() && channel.number == number as usize
        };
        let found = self.channels.iter().find(|(_, channel)| is_it(channel));
        found.map(|(id, _)| *id).ok_or(Errno::EINVAL)
    }

    /// Handles a frame.
    fn take(&mut self, now: Instant, frame: &[u8]) {
        let Some(Received { from, to, mad }) = frame::parse(frame) else {
            return;
        };
        let disposition = self.cm.handle_mad(now, &mut self.host, from, to, mad);
        match disposition {
            // The host may be about to listen, unless the request is its own.
            Disposition::NoListener(_) if !self.has_listened && !self.host.owns(from) => {}
            Disposition::NoListener(_) | Disposition::NotOurs(_) => self.cm.refuse(from, to, mad),
            Disposition::Malformed(error) => tracing::debug!(%error, "datagram to QP 1 dropped"),
            Disposition::Taken => {}
        }
    }
}
