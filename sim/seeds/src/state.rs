//! A program in progress: its hosts, connections and work requests; posting and polling.

use std::collections::BTreeMap;

use ferroce_driver::{
    AddressVector, CompletionStatus, DataSegment, Destination, ModifyQp, RemoteAddress, SendData,
    SendOperation, SendRequest, WorkCompletion,
};
use ferroce_world::World;

use crate::error::Wrong;
use crate::fault_plan;
use crate::flow::{Allowed, Flow, Posted, check_received};
use crate::host::{Host, is_full};
use crate::layout::{GRH, Layouts};
use crate::link::{BIND, Link, Q_KEY};
use crate::program::{Kind, Operation, Program, Transport, direction};
use crate::scenario::Scenario;

/// Maximum number of completions per poll.
const POLL: usize = 64;
/// Maximum number of receives in a shared queue.
const SHARED_RECEIVES: u64 = 8;

/// Results of requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Results {
    /// Requests that were posted.
    pub posted: u64,
    /// Completions with success.
    pub succeeded: u64,
    /// Completions with an error.
    pub failed: u64,
    /// Requests that were flushed.
    pub flushed: u64,
    /// Messages that were received.
    pub received: u64,
}

impl Results {
    /// Adds other results.
    pub(crate) fn add(&mut self, other: &Self) {
        self.posted += other.posted;
        self.succeeded += other.succeeded;
        self.failed += other.failed;
        self.flushed += other.flushed;
        self.received += other.received;
    }
}

/// A program in progress.
pub(crate) struct State {
    pub program: Program,
    pub hosts: Vec<Host>,
    pub links: Vec<Link>,
    pub flows: Vec<Flow>,
    pub layouts: Layouts,
    pub round: usize,
    pub results: Results,
    /// The faults may exhaust the retries of a connection.
    pub breaks: bool,
    /// The faults may keep messages of unreliable services from arriving.
    pub disturbs: bool,
    /// Packets of a flow overtake each other.
    reorders: bool,
    /// The connection and the side of each queue pair.
    numbers: BTreeMap<(usize, u32), (usize, usize)>,
    shared_receives: usize,
    /// The path to each host.
    paths: Vec<AddressVector>,
}

impl State {
    /// Brings the hosts up and creates all objects.
    pub fn new(world: &World, scenario: &Scenario) -> Result<Self, Wrong> {
        let program = Program::of(scenario);
        let layouts = Layouts::of(&program, scenario.hosts);
        let hosts = layouts.hosts.iter().enumerate();
        let hosts: Result<Vec<_>, _> = hosts
            .map(|(number, layout)| Host::open(world, number, scenario.seed, layout.clone()))
            .collect();
        let mut hosts = hosts?;
        let links: Result<Vec<_>, _> = program
            .connections
            .iter()
            .enumerate()
            .map(|(number, plan)| Link::create(plan, number, &mut hosts, scenario.seed))
            .collect();
        let links = links?;
        let ends = links.iter().enumerate().flat_map(|(number, link)| {
            let key = |side: usize| (link.ends[side].host, link.ends[side].qp.number().0);
            [0, 1].map(|side| (key(side), (number, side)))
        });
        let faults = scenario.faults.as_ref();
        Ok(Self {
            numbers: ends.collect(),
            flows: Vec::new(),
            round: 0,
            results: Results::default(),
            breaks: fault_plan::may_break_connections(faults),
            disturbs: fault_plan::disturbs(faults),
            reorders: fault_plan::reorders(faults),
            shared_receives: 1 + (scenario.seed % SHARED_RECEIVES) as usize,
            paths: (0..scenario.hosts).map(|host| world.path(host)).collect(),
            program,
            hosts,
            links,
            layouts,
        })
    }

    /// Begins a round: connections work, nothing is in flight.
    pub fn begin_round(&mut self, round: usize) {
        self.round = round;
        let flow = |number: usize| Flow {
            target: self.target_of(number),
            ..Flow::default()
        };
        self.flows = (0..2 * self.links.len()).map(flow).collect();
    }

    /// Returns the expected contents of the memory that a direction writes.
    fn target_of(&self, number: usize) -> Vec<u8> {
        let (link, side) = (&self.links[number / 2], number % 2);
        let host = &self.hosts[link.ends[1 - side].host];
        let range = host.layout.targets.get(&number);
        range.map_or(Vec::new(), |range| host.known[range.clone()].to_vec())
    }

    /// Returns the events that may make requests of a direction fail.
    pub fn allowed(&self, number: usize) -> Allowed {
        let (connection, side) = (number / 2, number % 2);
        let transport = self.links[connection].plan.transport;
        let has = |side: usize, kind: Kind| {
            let is_it = |o: &Operation| (o.connection, o.side, o.kind) == (connection, side, kind);
            self.program.round(self.round).any(is_it)
        };
        // A repeated READ request that arrives after its key was invalidated is refused, although
        // the requester has received its data meanwhile.
        let refuses = |side: usize| self.reorders && has(side, Kind::SendInvalidate);
        let is_disrupted = self.program.is_disrupted(self.round, connection);
        let breaks = self.breaks || is_disrupted || refuses(0) || refuses(1);
        Allowed {
            breaks: transport.is_reliable() && breaks,
            deregisters: has(1 - side, Kind::Deregister) || refuses(side),
        }
    }

    /// Returns true if a connection may break in this round.
    pub fn may_break(&self, connection: usize) -> bool {
        self.allowed(direction(connection, 0)).breaks
    }

    /// Returns the oldest request without a completion of each queue pair.
    pub fn oldest_outstanding(&self) -> Vec<String> {
        let oldest = self.flows.iter().filter_map(|flow| {
            let number = flow.outstanding.front()?;
            Some(flow.posted[*number].operation.to_string())
        });
        oldest.collect()
    }

    /// Returns the number of requests without a completion.
    pub fn outstanding(&self) -> usize {
        self.flows.iter().map(|flow| flow.outstanding.len()).sum()
    }
}

/// Posting.
impl State {
    /// Executes an operation. Returns false if its queue is full.
    pub fn execute(&mut self, operation: &Operation) -> Result<bool, Wrong> {
        match operation.kind {
            Kind::Deregister => self.deregister(operation).map(|()| true),
            Kind::Fail => {
                let end = &self.links[operation.connection].ends[operation.side];
                end.qp.modify(&ModifyQp::ToErr).map_err(Wrong::of)?;
                Ok(true)
            }
            _ => self.post(operation),
        }
        .map_err(|wrong| wrong.at(operation))
    }

    fn deregister(&mut self, operation: &Operation) -> Result<(), Wrong> {
        let end = &mut self.links[operation.connection].ends[operation.side];
        end.window = None;
        match end.offered.take() {
            Some(region) => region.deregister().map_err(Wrong::of),
            None => Ok(()),
        }
    }

    fn post(&mut self, operation: &Operation) -> Result<bool, Wrong> {
        let mut posted = self.posted(operation);
        let (link, side) = (&self.links[operation.connection], operation.side);
        let (own, peer) = (link.ends[side].host, link.ends[1 - side].host);
        let window = link.ends[1 - side]
            .window
            .as_ref()
            .and_then(|(_, key)| *key);
        posted.invalidates = window.filter(|_| operation.kind == Kind::SendInvalidate);
        let path = self.paths[peer];
        let srqn = self.hosts[peer].xrc_number();
        let destination = match link.plan.transport {
            Transport::Rc | Transport::Uc => Destination::Connected,
            Transport::Xrc => Destination::Xrc { srqn },
            Transport::Ud => Destination::Datagram {
                path: &path,
                qpn: link.ends[1 - side].qp.number(),
                q_key: Q_KEY,
            },
        };
        let segments = self.segments(operation);
        let data = self.hosts[own].known[operation.source..][..operation.length].to_vec();
        let inline = [&data[..operation.length / 2], &data[operation.length / 2..]];
        let request = SendRequest {
            wr_id: operation.index as u64,
            operation: self.operation(&posted),
            destination,
            signaled: operation.is_signaled,
            solicited: operation.is_solicited,
            fence: operation.is_fenced && link.plan.transport.is_reliable(),
            data: if operation.is_inline {
                SendData::Inline(&inline)
            } else {
                SendData::ScatterGather(&segments)
            },
        };
        let mut batch = link.ends[side]
            .qp
            .send_queue()
            .expect("the side sends")
            .lock();
        if is_full(batch.post(&request))? {
            return Ok(false);
        }
        batch.ring();
        drop(batch);
        self.note(posted);
        Ok(true)
    }

    /// Records a posted request and its effect.
    fn note(&mut self, posted: Posted) {
        let operation = &posted.operation;
        let end = &mut self.links[operation.connection].ends[1 - operation.side];
        if let (Some(_), Some((_, key))) = (posted.invalidates, &mut end.window) {
            *key = None;
        }
        let flow = &mut self.flows[operation.direction()];
        if let Some((offset, bytes)) = &posted.write {
            flow.target[*offset..][..bytes.len()].copy_from_slice(bytes);
        }
        flow.outstanding.push_back(flow.posted.len());
        flow.posted.push(posted);
        self.results.posted += 1;
    }

    /// Returns the effect of an operation if all earlier ones are executed.
    fn posted(&self, operation: &Operation) -> Posted {
        let flow = &self.flows[operation.direction()];
        let own = self.links[operation.connection].ends[operation.side].host;
        let there = operation.target..operation.target + operation.length;
        let data = || self.hosts[own].known[operation.source..][..operation.length].to_vec();
        let (write, expected) = match operation.kind {
            Kind::Write | Kind::WriteImmediate => (Some((operation.target, data())), None),
            Kind::Read => (None, Some(flow.target[there].to_vec())),
            Kind::CompareSwap => {
                let write = operation.is_equal.then(|| (operation.target, data()));
                (write, Some(flow.target[there].to_vec()))
            }
            _ => (None, None),
        };
        Posted {
            operation: operation.clone(),
            write,
            expected,
            returned: None,
            invalidates: None,
            is_done: false,
        }
    }

    fn operation(&self, posted: &Posted) -> SendOperation {
        let operation = &posted.operation;
        let side = operation.side;
        let link = &self.links[operation.connection];
        let peer = &self.hosts[link.ends[1 - side].host];
        let remote = link.remote(1 - side, peer, operation.target, operation.connection);
        let immediate = operation.immediate();
        let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_ne_bytes);
        match operation.kind {
            Kind::SendImmediate => SendOperation::SendImmediate(immediate),
            Kind::SendInvalidate => match posted.invalidates {
                Some(key) => SendOperation::SendInvalidate(key),
                None => SendOperation::Send,
            },
            Kind::Write => SendOperation::RdmaWrite(remote),
            Kind::WrongKey => SendOperation::RdmaWrite(RemoteAddress {
                r_key: ferroce_driver::RKey(remote.r_key.0 ^ 0x5a5a_5a00),
                ..remote
            }),
            Kind::WriteImmediate => SendOperation::RdmaWriteImmediate(remote, immediate),
            Kind::Read => SendOperation::RdmaRead(remote),
            Kind::CompareSwap => {
                let own = &self.hosts[link.ends[side].host];
                let current = posted.expected.as_deref().map_or(0, number);
                SendOperation::CompareSwap {
                    remote,
                    compare: current.wrapping_add(u64::from(!operation.is_equal)),
                    swap: number(&own.known[operation.source..][..8]),
                }
            }
            Kind::FetchAdd => {
                let (word, shift) = self.layouts.counters[&operation.index];
                let offset = peer.layout.counters.start + 8 * word;
                SendOperation::FetchAdd {
                    remote: RemoteAddress {
                        virtual_address: peer.memory.virtual_address(offset),
                        r_key: peer.counters.rkey(),
                    },
                    add: 1 << shift,
                }
            }
            _ => SendOperation::Send,
        }
    }

    /// Returns the local data of an operation, in one or several pieces.
    fn segments(&self, operation: &Operation) -> Vec<DataSegment> {
        let host = &self.hosts[self.links[operation.connection].ends[operation.side].host];
        let landing = host.layout.landings.get(&operation.index);
        let mut offset = landing.map_or(operation.source, |range| range.start);
        let mut left = operation.length;
        (0..operation.segments)
            .map(|number| {
                let length = left / (operation.segments - number);
                let segment = host.segment(offset, length);
                offset += length;
                left -= length;
                segment
            })
            .filter(|segment| segment.length > 0)
            .collect()
    }
}

/// Polling.
impl State {
    /// Takes all completions of a host, and posts receives for the completed ones.
    pub fn poll(&mut self, host: usize) -> Result<(), Wrong> {
        loop {
            let mut sends = Vec::new();
            let mut receives = Vec::new();
            self.hosts[host]
                .send_cq
                .poll(POLL, |completion| sends.push(completion));
            self.hosts[host]
                .receive_cq
                .poll(POLL, |completion| receives.push(completion));
            for completion in &sends {
                self.complete_send(host, completion)?;
            }
            for completion in &receives {
                self.complete_receive(host, completion)?;
            }
            if sends.is_empty() && receives.is_empty() {
                return Ok(());
            }
        }
    }

    fn end_of(&self, host: usize, completion: &WorkCompletion) -> Result<(usize, usize), Wrong> {
        let end = self.numbers.get(&(host, completion.qpn.0));
        end.copied().ok_or_else(|| {
            Wrong::new(format!(
                "host {host} has no QP of the completion {completion:?}"
            ))
        })
    }

    fn complete_send(&mut self, host: usize, completion: &WorkCompletion) -> Result<(), Wrong> {
        let (connection, side) = self.end_of(host, completion)?;
        if completion.wr_id == BIND {
            return match completion.status {
                CompletionStatus::Success => Ok(()),
                status => Err(Wrong::new(format!("a bind completes with {status:?}"))),
            };
        }
        let number = direction(connection, side);
        let allowed = self.allowed(number);
        let posted = self.flows[number].complete(completion, allowed)?;
        *match completion.status {
            CompletionStatus::Success => &mut self.results.succeeded,
            CompletionStatus::WorkRequestFlushedError => &mut self.results.flushed,
            _ => &mut self.results.failed,
        } += 1;
        if completion.status != CompletionStatus::Success {
            self.links[connection].is_broken = true;
            return Ok(());
        }
        let host = &self.hosts[host];
        if let Some(range) = host.layout.landings.get(&posted.operation.index) {
            posted.returned = Some(host.memory.bytes(range.clone()));
        }
        Ok(())
    }

    fn complete_receive(&mut self, host: usize, completion: &WorkCompletion) -> Result<(), Wrong> {
        let (connection, side) = self.end_of(host, completion)?;
        let number = direction(connection, 1 - side);
        match completion.status {
            CompletionStatus::Success => self.check_message(host, number, completion)?,
            CompletionStatus::WorkRequestFlushedError
            | CompletionStatus::RemoteInvalidRequestError
                if self.may_break(connection) || self.links[connection].is_broken =>
            {
                self.links[connection].is_broken = true;
                let is_taken = completion.status != CompletionStatus::WorkRequestFlushedError;
                self.flows[number].received += usize::from(is_taken);
            }
            // A WRITE with immediate data to deregistered memory.
            CompletionStatus::LocalAccessError if self.allowed(number).deregisters => {
                self.links[connection].is_broken = true;
            }
            status => {
                return Err(Wrong::new(format!(
                    "a receive of connection {connection}, side {side} has {status:?}"
                )));
            }
        }
        self.hosts[host].free_buffer(completion.wr_id as usize);
        let end = &mut self.links[connection].ends[side];
        let outstanding = match end.sharing {
            Some(sharing) => &mut self.hosts[host].shared(sharing).outstanding,
            None => &mut end.outstanding,
        };
        *outstanding = outstanding.checked_sub(1).ok_or_else(|| {
            Wrong::new(format!(
                "more receives complete than were posted: {completion:?}"
            ))
        })?;
        self.feed(connection, side)
    }

    /// Checks that a message is the next one of its direction, or any sent message if the service
    /// is unreliable.
    fn check_message(
        &mut self,
        host: usize,
        number: usize,
        completion: &WorkCompletion,
    ) -> Result<(), Wrong> {
        let link = &self.links[number / 2];
        let flow = &self.flows[number];
        let sender = &self.hosts[link.ends[number % 2].host];
        let messages = flow
            .posted
            .iter()
            .filter(|p| p.operation.kind.takes_receive());
        let check = |posted: &Posted| {
            check_received(posted, completion)?;
            let operation = &posted.operation;
            if operation.kind == Kind::WriteImmediate {
                return Ok(());
            }
            let header = if completion.with_grh { GRH } else { 0 };
            let start = completion.wr_id as usize + header;
            let seen = self.hosts[host]
                .memory
                .bytes(start..start + operation.length);
            if seen == sender.known[operation.source..][..operation.length] {
                Ok(())
            } else {
                Err(Wrong::new(format!("the data of {operation} is wrong")))
            }
        };
        let mut candidates = messages.skip(if link.plan.transport.is_reliable() {
            flow.received
        } else {
            0
        });
        let result = if link.plan.transport.is_reliable() {
            candidates.next().map(check)
        } else {
            candidates.map(check).find(Result::is_ok)
        };
        let unexpected = || Wrong::new(format!("no message was sent for {completion:?}"));
        result.ok_or_else(unexpected)??;
        self.flows[number].received += 1;
        self.results.received += 1;
        Ok(())
    }

    /// Posts receives of a side.
    pub fn feed(&mut self, connection: usize, side: usize) -> Result<(), Wrong> {
        let link = &mut self.links[connection];
        let end = &mut link.ends[side];
        let host = &mut self.hosts[end.host];
        if let Some(sharing) = end.sharing {
            return host.fill_shared(sharing, self.shared_receives);
        }
        let Some(queue) = end.qp.receive_queue() else {
            return Ok(());
        };
        let number = direction(connection, 1 - side);
        let expected = self
            .program
            .round(self.round)
            .filter(|o| o.direction() == number && o.kind.takes_receive());
        let count = match link.plan.transport.is_reliable() {
            _ if link.is_broken => 0,
            true => expected.count().saturating_sub(self.flows[number].received),
            false => usize::MAX,
        };
        while end.outstanding < count.min(link.plan.receive_depth) {
            let Some((wr_id, segments)) = host.take_buffer() else {
                return Ok(());
            };
            queue.post(wr_id, &segments).map_err(Wrong::of)?;
            end.outstanding += 1;
        }
        Ok(())
    }
}
