//! The tables, the timers, and the dispatch of datagrams to their handlers.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use ferroce_units::{Duration, Instant};
use ferroce_wire::cm::{CmTimeout, CommunicationId, Mad, MadError, Message, ServiceId};
use ferroce_wire::{Gid, Qpn};

use crate::command::{CommandError, Listen, ListenAddress, ListenerId};
use crate::config::{Config, MAX_BACKLOG, MAX_CONNECTIONS, MAX_LISTENERS};
use crate::connection::{Connection, MadBytes, Pending};
use crate::event::Event;
use crate::parameters::QpParameters;
use crate::state::State;

/// A datagram to send from QP 1 to QP 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transmit {
    /// Source
    pub from: Gid,
    /// Destination
    pub to: Gid,
    /// The datagram
    pub mad: Box<[u8; Mad::LENGTH]>,
}

/// The result of handling a received datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disposition {
    /// It was for this side, and was handled or dropped.
    Taken,
    /// A request for a service without a listener here. If no other process of the host has one,
    /// [`Cm::refuse`] answers.
    NoListener(ServiceId),
    /// It names a connection of another process of the host, with this tag, or an unknown one.
    NotOurs(u8),
    /// Not a message of communication management.
    Malformed(MadError),
}

/// Counts of what events do not show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Messages retransmitted because no answer arrived
    pub retransmissions: u64,
    /// Received messages that were already answered
    pub duplicates: u64,
    /// REQs and SIDR_REQs dropped because the backlog or a table was full
    pub requests_dropped: u64,
    /// REJs sent
    pub rejects_sent: u64,
    /// Received messages that contradict the state of their connection
    pub unexpected: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct Listener {
    key: (ServiceId, ListenAddress),
    backlog: u32,
    /// Requests that the caller has not taken.
    held: u32,
}

/// Listeners and connections of one process or one simulated host.
#[derive(Debug)]
pub struct Cm {
    pub(crate) config: Config,
    pub(crate) listeners: BTreeMap<ListenerId, Listener>,
    services: BTreeMap<(ServiceId, ListenAddress), ListenerId>,
    pub(crate) connections: BTreeMap<CommunicationId, Connection>,
    /// Connections of the passive side, by the peer's address and identifier.
    pub(crate) by_remote_id: BTreeMap<(Gid, CommunicationId), CommunicationId>,
    /// Live connections by the peer's queue pair, which is unique (12.9.8.3.1).
    pub(crate) by_remote_qpn: BTreeMap<(Gid, Qpn), CommunicationId>,
    /// Connections whose peer connects as well.
    pub(crate) peers: BTreeSet<CommunicationId>,
    deadlines: BTreeSet<(Instant, CommunicationId)>,
    mads: VecDeque<Transmit>,
    events: VecDeque<Event>,
    next_id: u32,
    next_listener: u32,
    pub(crate) statistics: Statistics,
}

const ID_MASK: u32 = 0x00ff_ffff;

impl Cm {
    /// Returns a communication manager without listeners and connections.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            next_id: config.first_id & ID_MASK,
            config,
            listeners: BTreeMap::new(),
            services: BTreeMap::new(),
            connections: BTreeMap::new(),
            by_remote_id: BTreeMap::new(),
            by_remote_qpn: BTreeMap::new(),
            peers: BTreeSet::new(),
            deadlines: BTreeSet::new(),
            mads: VecDeque::new(),
            events: VecDeque::new(),
            next_listener: 1,
            statistics: Statistics::default(),
        }
    }

    /// Starts to listen for requests.
    ///
    /// # Errors
    ///
    /// [`CommandError::AddressInUse`], [`CommandError::TooMany`]
    pub fn listen(&mut self, listen: &Listen) -> Result<ListenerId, CommandError> {
        let key = (listen.port_space.service_id(listen.port), listen.address);
        if self.services.contains_key(&key) {
            return Err(CommandError::AddressInUse);
        }
        if self.listeners.len() >= MAX_LISTENERS {
            return Err(CommandError::TooMany(MAX_LISTENERS));
        }
        while self.listeners.contains_key(&ListenerId(self.next_listener)) {
            self.next_listener = self.next_listener.wrapping_add(1);
        }
        let id = ListenerId(self.next_listener);
        self.next_listener = self.next_listener.wrapping_add(1);
        let backlog = match listen.backlog {
            backlog @ 1..=MAX_BACKLOG => backlog,
            _ => MAX_BACKLOG,
        };
        let held = 0;
        let listener = Listener { key, backlog, held };
        self.listeners.insert(id, listener);
        self.services.insert(key, id);
        Ok(id)
    }

    /// Stops a listener. Requests that it has reported stay until they are destroyed.
    ///
    /// # Errors
    ///
    /// [`CommandError::UnknownListener`]
    pub fn stop_listening(&mut self, id: ListenerId) -> Result<(), CommandError> {
        let listener = self.listeners.remove(&id);
        let listener = listener.ok_or(CommandError::UnknownListener(id))?;
        self.services.remove(&listener.key);
        Ok(())
    }

    /// Frees the place of a request in its listener's backlog because the caller has taken the
    /// request. Accepting, rejecting and destroying it do the same.
    pub fn release_backlog(&mut self, id: CommunicationId) {
        let connection = self.connections.get_mut(&id);
        let listener = connection.and_then(|connection| connection.backlog_of.take());
        if let Some(listener) = listener.and_then(|id| self.listeners.get_mut(&id)) {
            listener.held = listener.held.saturating_sub(1);
        }
    }

    /// Handles a datagram that QP 1 has received.
    pub fn handle_mad(&mut self, now: Instant, from: Gid, to: Gid, bytes: &[u8]) -> Disposition {
        let mad = match Mad::parse(bytes) {
            Ok(mad) => mad,
            Err(error) => return Disposition::Malformed(error),
        };
        match &mad.message {
            Message::Req(request) => return self.handle_req(now, from, to, &mad, request),
            Message::SidrReq(request) => return self.handle_sidr_req(from, to, &mad, request),
            Message::Rej(reject) => return self.handle_rej(now, from, reject),
            _ => {}
        }
        let (remote_id, id) = named(&mad.message);
        let connection = self.connections.get(&id);
        // A side that waits for the answer to its first message does not know the peer's
        // identifier.
        let is_peer = |connection: &Connection| {
            let known = connection.remote_id;
            known == CommunicationId::NONE || remote_id == Some(known)
        };
        if !connection.is_some_and(is_peer) {
            if tag(id) != self.config.tag {
                return Disposition::NotOurs(tag(id));
            }
            self.refuse_message(from, to, &mad);
            return Disposition::Taken;
        }
        match &mad.message {
            Message::Mra(mra) => self.handle_mra(now, id, mra),
            Message::Rep(response) => self.handle_rep(now, id, from, &mad, response),
            Message::Rtu(rtu) => self.handle_rtu(id, rtu),
            Message::Dreq(dreq) => self.handle_dreq(now, id, dreq),
            Message::Drep(drep) => self.handle_drep(now, id, drep),
            Message::Lap(lap) => self.handle_lap(id, &mad, lap),
            Message::SidrRep(response) => self.handle_sidr_rep(id, &mad, response),
            Message::Apr(_) => self.statistics.unexpected += 1,
            Message::Req(_) | Message::Rej(_) | Message::SidrReq(_) => {}
        }
        Disposition::Taken
    }

    /// Handles every timeout that has expired by `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some((deadline, id)) = self.deadlines.first().copied() {
            if deadline > now {
                break;
            }
            self.set_deadline(id, None);
            self.expire(now, id);
        }
    }

    /// Returns the time at which [`Cm::handle_timeout`] must be called next.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Takes the next datagram to send.
    pub fn poll_mad(&mut self) -> Option<Transmit> {
        self.mads.pop_front()
    }

    /// Takes the next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns the counts.
    #[must_use]
    pub const fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// Returns the attributes for the local queue pair of a connection; `None` for an unknown
    /// connection.
    #[must_use]
    pub fn qp_parameters(&self, id: CommunicationId) -> Option<QpParameters> {
        self.connections.get(&id)?.parameters
    }

    /// Returns the state of a connection or service resolution.
    #[must_use]
    pub fn state(&self, id: CommunicationId) -> Option<State> {
        let connection = self.connections.get(&id)?;
        Some(connection.state)
    }

    /// Returns the addresses of a connection: local, then remote.
    #[must_use]
    pub fn addresses(&self, id: CommunicationId) -> Option<(Gid, Gid)> {
        let connection = self.connections.get(&id)?;
        Some((connection.local_gid, connection.remote_gid))
    }

    /// Returns the connections and service resolutions with their services and states, by
    /// identifier.
    pub fn connections(&self) -> impl Iterator<Item = (CommunicationId, ServiceId, State)> + '_ {
        let all = self.connections.iter();
        all.map(|(id, connection)| (*id, connection.service_id, connection.state))
    }

    /// Returns the listeners with their services and the number of requests that they hold.
    pub fn listeners(&self) -> impl Iterator<Item = (ListenerId, ServiceId, u32)> + '_ {
        let all = self.listeners.iter();
        all.map(|(id, listener)| (*id, listener.key.0, listener.held))
    }

    /// Returns true if there is no connection, no timer and nothing to poll. There may be
    /// listeners.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.connections.is_empty()
            && self.by_remote_id.is_empty()
            && self.by_remote_qpn.is_empty()
            && self.peers.is_empty()
            && self.deadlines.is_empty()
            && self.mads.is_empty()
            && self.events.is_empty()
            && self.listeners.values().all(|listener| listener.held == 0)
    }

    /// Returns the listener of a service at an address: the most specific one.
    pub(crate) fn listener(&self, service_id: ServiceId, address: Gid) -> Option<ListenerId> {
        let any_of_version = match address.to_ipv4() {
            Some(_) => ListenAddress::AnyIpv4,
            None => ListenAddress::AnyIpv6,
        };
        let candidates = [
            ListenAddress::Gid(address),
            any_of_version,
            ListenAddress::Any,
        ];
        let mut found = candidates.iter().map(|address| (service_id, *address));
        found.find_map(|key| self.services.get(&key).copied())
    }

    /// Takes a place in a listener's backlog. Returns false if the backlog or the table of
    /// connections is full: the request is dropped and will be retransmitted.
    pub(crate) fn hold_request(&mut self, id: ListenerId) -> bool {
        let has_room = self.connections.len() < MAX_CONNECTIONS;
        match self.listeners.get_mut(&id) {
            Some(listener) if has_room && listener.held < listener.backlog => {
                listener.held += 1;
                true
            }
            _ => {
                self.statistics.requests_dropped += 1;
                false
            }
        }
    }

    /// Returns the connection of a command.
    pub(crate) fn connection(
        &mut self,
        id: CommunicationId,
    ) -> Result<&mut Connection, CommandError> {
        match self.connections.get_mut(&id) {
            Some(connection) if !connection.is_orphan => Ok(connection),
            _ => Err(CommandError::UnknownConnection(id)),
        }
    }

    /// Adds a connection. Its identifier has the tag of this side and is not zero.
    pub(crate) fn add(&mut self, connection: Connection) -> Result<CommunicationId, CommandError> {
        if self.connections.len() >= MAX_CONNECTIONS {
            return Err(CommandError::TooMany(MAX_CONNECTIONS));
        }
        // There are more identifiers than connections: the loop ends.
        loop {
            let id = CommunicationId(u32::from(self.config.tag) << 24 | self.next_id);
            self.next_id = (self.next_id + 1) & ID_MASK;
            if id.0 & ID_MASK != 0 && !self.connections.contains_key(&id) {
                self.connections.insert(id, connection);
                return Ok(id);
            }
        }
    }

    /// Removes a connection.
    pub(crate) fn remove(&mut self, id: CommunicationId) -> Option<Connection> {
        self.set_deadline(id, None);
        self.release_backlog(id);
        self.forget_remote_qpn(id);
        self.peers.remove(&id);
        let connection = self.connections.remove(&id)?;
        let key = (connection.remote_gid, connection.remote_id);
        if self.by_remote_id.get(&key) == Some(&id) {
            self.by_remote_id.remove(&key);
        }
        Some(connection)
    }

    /// Frees the peer's queue pair for another connection.
    pub(crate) fn forget_remote_qpn(&mut self, id: CommunicationId) {
        let Some(connection) = self.connections.get(&id) else {
            return;
        };
        if let Some(parameters) = connection.parameters {
            let key = (connection.remote_gid, parameters.remote_qpn);
            if self.by_remote_qpn.get(&key) == Some(&id) {
                self.by_remote_qpn.remove(&key);
            }
        }
    }

    pub(crate) fn set_deadline(&mut self, id: CommunicationId, deadline: Option<Instant>) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        if let Some(old) = std::mem::replace(&mut connection.deadline, deadline) {
            self.deadlines.remove(&(old, id));
        }
        if let Some(deadline) = deadline {
            self.deadlines.insert((deadline, id));
        }
    }

    /// Reports an event of a connection, unless the caller has destroyed it.
    pub(crate) fn report(&mut self, id: CommunicationId, event: Event) {
        let connection = self.connections.get(&id);
        if !connection.is_some_and(|connection| connection.is_orphan) {
            self.events.push_back(event);
        }
    }

    /// Sends a datagram between two addresses.
    pub(crate) fn transmit(&mut self, from: Gid, to: Gid, mad: MadBytes) {
        self.mads.push_back(Transmit { from, to, mad });
    }

    /// Sends a datagram to the peer of a connection.
    pub(crate) fn send(&mut self, id: CommunicationId, mad: MadBytes) {
        if let Some((from, to)) = self.addresses(id) {
            self.transmit(from, to, mad);
        }
    }

    /// Sends a message of a connection.
    pub(crate) fn send_message(&mut self, id: CommunicationId, message: impl Into<Message>) {
        if let Some(connection) = self.connections.get(&id) {
            let mad = bytes(connection.transaction_id, message);
            self.send(id, mad);
        }
    }

    /// Sends a message, and retransmits it until it is answered.
    pub(crate) fn send_and_await(
        &mut self,
        now: Instant,
        id: CommunicationId,
        message: impl Into<Message>,
        attribute_modifier: u32,
    ) {
        let first = self.config.first_retransmission;
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let mut mad = Mad::new(connection.transaction_id, message);
        mad.header.attribute_modifier = attribute_modifier;
        let mad = Box::new(mad.to_bytes());
        let response_time = connection.response_time;
        let interval = first.map_or(response_time, |first| first.min(response_time));
        connection.pending = Some(Pending {
            mad: mad.clone(),
            interval,
            retries_left: connection.max_cm_retries,
        });
        self.set_deadline(id, Some(now + interval));
        self.send(id, mad);
    }

    /// Stops the retransmission of an answered message.
    pub(crate) fn stop_awaiting(&mut self, id: CommunicationId) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.pending = None;
        }
        self.set_deadline(id, None);
    }

    /// Handles a timeout of a connection: retransmits the message or gives up.
    fn expire(&mut self, now: Instant, id: CommunicationId) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let response_time = connection.response_time;
        let Some(pending) = connection.pending.as_mut() else {
            return self.expire_hold(id);
        };
        if pending.interval < response_time {
            let doubled = pending.interval + pending.interval;
            pending.interval = doubled.min(response_time);
        } else if let Some(left) = pending.retries_left.checked_sub(1) {
            pending.retries_left = left;
        } else {
            return self.give_up(now, id);
        }
        let (mad, interval) = (pending.mad.clone(), pending.interval);
        self.statistics.retransmissions += 1;
        self.set_deadline(id, Some(now + interval));
        self.send(id, mad);
    }

    /// Handles the end of TIMEWAIT, or of the time for which a service response is kept.
    fn expire_hold(&mut self, id: CommunicationId) {
        if let Some(connection) = self.remove(id) {
            if connection.state == State::Timewait && !connection.is_orphan {
                self.events.push_back(Event::TimewaitExit { id });
            }
        }
    }
}

/// Returns the identifiers in a message: the sender's, if it has one, and the receiver's.
fn named(message: &Message) -> (Option<CommunicationId>, CommunicationId) {
    let (sender, receiver) = match message {
        Message::Mra(it) => (it.local_communication_id, it.remote_communication_id),
        Message::Rep(it) => (it.local_communication_id, it.remote_communication_id),
        Message::Rtu(it) => (it.local_communication_id, it.remote_communication_id),
        Message::Dreq(it) => (it.local_communication_id, it.remote_communication_id),
        Message::Drep(it) => (it.local_communication_id, it.remote_communication_id),
        Message::Lap(it) => (it.local_communication_id, it.remote_communication_id),
        Message::Apr(it) => (it.local_communication_id, it.remote_communication_id),
        Message::Rej(it) => (it.local_communication_id, it.remote_communication_id),
        Message::SidrRep(it) => return (None, it.request_id),
        Message::Req(_) | Message::SidrReq(_) => return (None, CommunicationId::NONE),
    };
    (Some(sender), receiver)
}

/// Returns the tag of the side that issued an identifier: see [`Config::tag`].
pub(crate) const fn tag(id: CommunicationId) -> u8 {
    (id.0 >> 24) as u8
}

/// Encodes a message as a datagram.
pub(crate) fn bytes(transaction_id: u64, message: impl Into<Message>) -> MadBytes {
    Box::new(Mad::new(transaction_id, message).to_bytes())
}

/// Converts a timeout code to a duration.
pub(crate) fn duration(timeout: CmTimeout) -> Duration {
    Duration::from_ns(timeout.as_ns())
}
