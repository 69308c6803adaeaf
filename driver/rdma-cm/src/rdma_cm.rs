//! The tables, the channels, and the interface to the caller.

use core::net::SocketAddr;
use std::collections::{BTreeMap, VecDeque};

use ferroce_cm::{
    Cm, Config, Disposition, ListenAddress, ListenerId, PortSpace, Statistics, Transmit,
};
use ferroce_units::Instant;
use ferroce_units::random::mixed;
use ferroce_wire::cm::{CommunicationId, Mad, Message, RejectReason, ServiceId};
use ferroce_wire::{Gid, Psn};

use crate::channel::ChannelId;
use crate::errno::Errno;
use crate::event::Event;
use crate::host::Host;
use crate::id::{Id, State};

/// Maximum number of channels of one [`RdmaCm`].
pub const MAX_CHANNELS: usize = 65536;
/// Maximum number of ids of one [`RdmaCm`].
pub const MAX_IDS: usize = 65536;
/// Maximum number of joined multicast groups of one [`RdmaCm`].
pub const MAX_MULTICASTS: usize = 65536;
/// When a channel has this many events, commands that add one are refused. The network may add a
/// few more for each id.
pub const MAX_EVENTS: usize = 16384;

/// Maximum number of rejections that are kept for diagnosis.
pub const MAX_REJECTIONS: usize = 16;

#[derive(Debug, Default)]
pub(crate) struct Channel {
    pub(crate) events: VecDeque<Event>,
}

/// A group that an id has joined.
#[derive(Debug)]
pub(crate) struct Multicast {
    pub(crate) owner: u32,
    pub(crate) events_reported: u32,
}

/// Ids, channels and their events of one process or one simulated host.
#[derive(Debug)]
pub struct RdmaCm {
    pub(crate) cm: Cm,
    pub(crate) channels: BTreeMap<ChannelId, Channel>,
    pub(crate) ids: BTreeMap<u32, Id>,
    pub(crate) multicasts: BTreeMap<u32, Multicast>,
    pub(crate) by_communication: BTreeMap<CommunicationId, u32>,
    pub(crate) by_listener: BTreeMap<ListenerId, u32>,
    next_channel: u32,
    rejections: VecDeque<Rejection>,
    pub(crate) next_id: u32,
    pub(crate) next_multicast: u32,
    psn_seed: u64,
}

/// A listener, for diagnosis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenerInfo {
    /// The id
    pub id: u32,
    /// Port space
    pub port_space: PortSpace,
    /// Address and port
    pub address: SocketAddr,
    /// Requests that user space has not read
    pub unread: usize,
}

/// An id that is not a listener, for diagnosis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionInfo {
    /// The id
    pub id: u32,
    /// Port space
    pub port_space: PortSpace,
    /// Its state
    pub state: State,
    /// This side's address and port
    pub address: Option<SocketAddr>,
    /// The peer's address and port
    pub peer: Option<SocketAddr>,
}

/// A connection that was refused, for diagnosis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rejection {
    /// The side that sent the request
    pub from: Gid,
    /// The side that received the request
    pub to: Gid,
    /// The service
    pub service: ServiceId,
    /// The reason
    pub reason: RejectReason,
}

impl RdmaCm {
    /// Returns a connection manager without channels.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let psn_seed = u64::from(config.tag) << 32 | u64::from(config.first_id);
        Self {
            cm: Cm::new(config),
            channels: BTreeMap::new(),
            ids: BTreeMap::new(),
            multicasts: BTreeMap::new(),
            by_communication: BTreeMap::new(),
            by_listener: BTreeMap::new(),
            rejections: VecDeque::new(),
            next_channel: 0,
            next_id: 0,
            next_multicast: 0,
            psn_seed,
        }
    }

    /// Adds a channel, as `open` does.
    ///
    /// # Errors
    ///
    /// [`Errno::ENOMEM`] if there are [`MAX_CHANNELS`].
    pub fn open_channel(&mut self) -> Result<ChannelId, Errno> {
        if self.channels.len() >= MAX_CHANNELS {
            return Err(Errno::ENOMEM);
        }
        // There are more numbers than channels: the loop ends.
        while self.channels.contains_key(&ChannelId(self.next_channel)) {
            self.next_channel = self.next_channel.wrapping_add(1);
        }
        let channel = ChannelId(self.next_channel);
        self.next_channel = self.next_channel.wrapping_add(1);
        self.channels.insert(channel, Channel::default());
        Ok(channel)
    }

    /// Ends a channel and its ids, as the last `close` does.
    pub fn close_channel(&mut self, now: Instant, host: &mut impl Host, channel: ChannelId) {
        let ids = self.ids.iter().filter(|(_, id)| id.channel == channel);
        let handles: Vec<u32> = ids.map(|(handle, _)| *handle).collect();
        for handle in handles {
            self.destroy(now, host, handle);
        }
        self.channels.remove(&channel);
        self.take_reports(now, host);
    }

    /// Takes a datagram that QP 1 has received.
    pub fn handle_mad(
        &mut self,
        now: Instant,
        host: &mut impl Host,
        from: Gid,
        to: Gid,
        bytes: &[u8],
    ) -> Disposition {
        let disposition = self.cm.handle_mad(now, from, to, bytes);
        self.take_reports(now, host);
        disposition
    }

    /// Answers a datagram that no process of the host has taken ([`Cm::refuse`]).
    pub fn refuse(&mut self, from: Gid, to: Gid, bytes: &[u8]) {
        if let Some(service) = requested_service(bytes) {
            self.note_rejection(Rejection {
                from,
                to,
                service,
                reason: RejectReason::INVALID_SERVICE_ID,
            });
        }
        self.cm.refuse(from, to, bytes);
    }

    /// The newest rejections, sent without a listener or received, oldest first.
    pub fn rejections(&self) -> impl Iterator<Item = Rejection> + '_ {
        self.rejections.iter().copied()
    }

    pub(crate) fn note_rejection(&mut self, rejection: Rejection) {
        if self.rejections.len() == MAX_REJECTIONS {
            self.rejections.pop_front();
        }
        self.rejections.push_back(rejection);
    }

    /// Handles every time-out that is due at `now`.
    pub fn handle_timeout(&mut self, now: Instant, host: &mut impl Host) {
        self.cm.handle_timeout(now);
        self.take_reports(now, host);
    }

    /// Ends connections whose peer's process has ended without a message ([`Cm::end_lost`]).
    pub fn end_lost(
        &mut self,
        now: Instant,
        host: &mut impl Host,
        has_ended: impl Fn(Gid, u8) -> bool,
    ) {
        self.cm.end_lost(now, has_ended);
        self.take_reports(now, host);
    }

    /// Returns true if a connection exists or is ending.
    #[must_use]
    pub fn has_connections(&self) -> bool {
        self.cm.connections().next().is_some()
    }

    /// Returns when [`RdmaCm::handle_timeout`] has to be called next.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        self.cm.next_timeout()
    }

    /// Returns the next datagram to send from QP 1.
    pub fn poll_mad(&mut self) -> Option<Transmit> {
        self.cm.poll_mad()
    }

    /// Returns the number of events that GET_EVENT can return.
    #[must_use]
    pub fn waiting_events(&self, channel: ChannelId) -> usize {
        let channel = self.channels.get(&channel);
        channel.map_or(0, |channel| channel.events.len())
    }

    /// Returns the counts of the messages.
    #[must_use]
    pub const fn statistics(&self) -> Statistics {
        self.cm.statistics()
    }

    /// The ids that wait for requests.
    pub fn listeners(&self) -> impl Iterator<Item = ListenerInfo> + '_ {
        let listening = self.ids.iter().filter(|(_, id)| id.state == State::Listen);
        listening.filter_map(|(handle, id)| {
            Some(ListenerInfo {
                id: *handle,
                port_space: id.port_space,
                address: id.source?,
                unread: id.unread,
            })
        })
    }

    /// The other ids.
    pub fn connections(&self) -> impl Iterator<Item = ConnectionInfo> + '_ {
        let others = self.ids.iter().filter(|(_, id)| id.state != State::Listen);
        others.map(|(handle, id)| ConnectionInfo {
            id: *handle,
            port_space: id.port_space,
            state: id.state,
            address: id.source,
            peer: id.destination,
        })
    }

    /// Returns true if there is no channel, no id, no timer and nothing to poll.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.channels.is_empty()
            && self.ids.is_empty()
            && self.multicasts.is_empty()
            && self.by_communication.is_empty()
            && self.by_listener.is_empty()
            && self.cm.listeners().next().is_none()
            && self.cm.is_idle()
    }

    /// Returns the starting PSN of a new id, which differs from other ids' PSNs.
    pub(crate) fn next_psn(&mut self) -> Psn {
        self.psn_seed = self.psn_seed.wrapping_add(1);
        Psn::new(mixed(self.psn_seed) as u32)
    }

    /// Returns whether another id has the same port in a way that a listener excludes.
    pub(crate) fn is_port_shared(&self, handle: u32, port: u16, address: ListenAddress) -> bool {
        let Some(own) = self.ids.get(&handle) else {
            return false;
        };
        self.ids.iter().any(|(other, id)| {
            *other != handle && id.port_space == own.port_space && id.claim == Some((port, address))
        })
    }
}

/// Returns the service that a REQ or SIDR_REQ requests.
fn requested_service(bytes: &[u8]) -> Option<ServiceId> {
    match Mad::parse(bytes).ok()?.message {
        Message::Req(request) => Some(request.service_id),
        Message::SidrReq(request) => Some(request.service_id),
        _ => None,
    }
}
