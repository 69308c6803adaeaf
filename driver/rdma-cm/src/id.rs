//! What an id knows, and its end.

use core::net::SocketAddr;

use ferroce_cm::{ListenAddress, ListenerId, Path, PortSpace};
use ferroce_units::Instant;
use ferroce_wire::cm::{CommunicationId, TransportService};
use ferroce_wire::{Gid, Psn};

use crate::abi;
use crate::command::{Body, Reply};
use crate::errno::Errno;
use crate::host::{Device, Host};
use crate::rdma_cm::{ChannelId, MAX_IDS, RdmaCm};

/// How far an id has come (`enum rdma_cm_state`). Resolution takes no time here: the states in
/// which the kernel waits for it are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// As created
    Idle,
    /// It has a source address and a port.
    AddrBound,
    /// It has a destination and a device.
    AddrResolved,
    /// It has a path.
    RouteResolved,
    /// A connection is being made, or exists; or a service is being resolved, or has been.
    Connect,
    /// The connection has ended.
    Disconnect,
    /// It waits for requests.
    Listen,
    /// Its device has been removed.
    DeviceRemoval,
}

/// Kinds of queue pairs, `enum ibv_qp_type`. Any number can arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QpType(pub(crate) u8);

impl QpType {
    /// The creator has named none: a listener takes every kind.
    pub(crate) const ANY: Self = Self(0);
    pub(crate) const RC: Self = Self(2);
    pub(crate) const UC: Self = Self(3);
    pub(crate) const UD: Self = Self(4);
    pub(crate) const XRC_SEND: Self = Self(9);
    pub(crate) const XRC_RECV: Self = Self(10);

    /// Returns the service that a REQ of this kind of queue pair asks for.
    pub(crate) const fn transport(self) -> Option<TransportService> {
        match self {
            Self::RC => Some(TransportService::Rc),
            Self::UC => Some(TransportService::Uc),
            Self::XRC_SEND => Some(TransportService::Xrc),
            _ => None,
        }
    }

    /// Returns the kind of queue pair that answers a REQ.
    pub(crate) const fn of_passive(transport: TransportService) -> Self {
        match transport {
            TransportService::Rc => Self::RC,
            TransportService::Uc => Self::UC,
            TransportService::Xrc => Self::XRC_RECV,
        }
    }
}

/// The device of an id, and its address there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Attachment {
    pub(crate) node_guid: u64,
    pub(crate) device_index: u32,
    pub(crate) port_num: u8,
    pub(crate) mtu: u8,
    pub(crate) gid: Gid,
    pub(crate) gid_index: u8,
}

impl Attachment {
    /// Returns the place of a GID in the tables of the devices.
    pub(crate) fn find(devices: &[Device], gid: Gid) -> Option<Self> {
        Self::all(devices).find(|attachment| attachment.gid == gid)
    }

    /// Every address of every device.
    pub(crate) fn all(devices: &[Device]) -> impl Iterator<Item = Self> + '_ {
        devices.iter().flat_map(|device| {
            device.addresses.iter().map(|address| Self {
                node_guid: device.node_guid,
                device_index: device.index,
                port_num: device.port_num,
                mtu: device.active_mtu,
                gid: address.gid,
                gid_index: address.gid_index,
            })
        })
    }
}

/// What the options of an id say.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Options {
    pub(crate) traffic_class: Option<u8>,
    pub(crate) is_reuse: bool,
    /// Only the family of the address; None is the rule of the family.
    pub(crate) is_family_only: Option<bool>,
    pub(crate) ack_timeout: Option<u8>,
}

#[derive(Debug)]
pub(crate) struct Id {
    pub(crate) channel: ChannelId,
    /// How user space names it; zero until the passive side has accepted.
    pub(crate) uid: u64,
    pub(crate) port_space: PortSpace,
    pub(crate) qp_type: QpType,
    pub(crate) state: State,
    /// Events that user space has read.
    pub(crate) events_reported: u32,
    /// What the host has to be given back.
    pub(crate) claim: Option<(u16, ListenAddress)>,
    pub(crate) source: Option<SocketAddr>,
    pub(crate) destination: Option<SocketAddr>,
    pub(crate) attachment: Option<Attachment>,
    /// GID of the destination.
    pub(crate) remote_gid: Gid,
    pub(crate) path: Option<Path>,
    pub(crate) communication: Option<CommunicationId>,
    pub(crate) listener: Option<ListenerId>,
    pub(crate) backlog: usize,
    /// Requests that user space has not read.
    pub(crate) unread: usize,
    /// Of a request that user space has not read: its listener, whose channel has the event.
    pub(crate) unread_of: Option<u32>,
    pub(crate) options: Options,
    /// Of a UD id, once it has one.
    pub(crate) q_key: Option<u32>,
    /// The first PSN that this side sends in a message.
    pub(crate) starting_psn: Psn,
}

impl Id {
    fn new(channel: ChannelId, port_space: PortSpace, qp_type: QpType) -> Self {
        Self {
            channel,
            uid: 0,
            port_space,
            qp_type,
            state: State::Idle,
            events_reported: 0,
            claim: None,
            source: None,
            destination: None,
            attachment: None,
            remote_gid: Gid::UNSPECIFIED,
            path: None,
            communication: None,
            listener: None,
            backlog: 0,
            unread: 0,
            unread_of: None,
            options: Options::default(),
            q_key: None,
            starting_psn: Psn::new(0),
        }
    }

    /// Returns true if it is for datagrams.
    pub(crate) fn is_ud(&self) -> bool {
        self.qp_type == QpType::UD
    }

    /// Returns its device.
    ///
    /// # Errors
    ///
    /// EINVAL if it has none.
    pub(crate) fn attached(&self) -> Result<Attachment, Errno> {
        self.attachment.ok_or(Errno::EINVAL)
    }

    /// Returns an error unless it is in this state.
    pub(crate) fn expect_state(&self, state: State) -> Result<(), Errno> {
        match self.state == state {
            true => Ok(()),
            false => Err(Errno::EINVAL),
        }
    }
}

impl RdmaCm {
    /// CREATE_ID
    pub(crate) fn create_id(&mut self, channel: ChannelId, body: &Body) -> Result<Reply, Errno> {
        body.expect_room(size_of::<u32>())?;
        let command: abi::CreateId = body.parse()?;
        let (port_space, qp_type) = match command.port_space {
            0x0002 => (PortSpace::Ipoib, QpType::UD),
            0x0106 => (PortSpace::Tcp, QpType::RC),
            0x0111 => (PortSpace::Udp, QpType::UD),
            0x013f => (PortSpace::Ib, QpType(command.qp_type)),
            _ => return Err(Errno::EINVAL),
        };
        let handle = self.add_id(channel, port_space, qp_type)?;
        if let Some(id) = self.ids.get_mut(&handle) {
            id.uid = command.uid;
        }
        Ok(body.reply(command.response, &handle))
    }

    /// Adds an id.
    ///
    /// # Errors
    ///
    /// ENOMEM if the table is full.
    pub(crate) fn add_id(
        &mut self,
        channel: ChannelId,
        port_space: PortSpace,
        qp_type: QpType,
    ) -> Result<u32, Errno> {
        if self.ids.len() >= MAX_IDS {
            return Err(Errno::ENOMEM);
        }
        // There are more numbers than ids: the loop ends.
        while self.ids.contains_key(&self.next_id) {
            self.next_id = self.next_id.wrapping_add(1);
        }
        let handle = self.next_id;
        self.next_id = handle.wrapping_add(1);
        let mut id = Id::new(channel, port_space, qp_type);
        id.starting_psn = self.next_psn();
        self.ids.insert(handle, id);
        Ok(handle)
    }

    /// Returns the id of a command.
    ///
    /// # Errors
    ///
    /// ENOENT if there is none, EINVAL if it is of another channel, ENXIO if its device has been
    /// removed.
    pub(crate) fn id(&mut self, channel: ChannelId, handle: u32) -> Result<&mut Id, Errno> {
        let id = self.ids.get_mut(&handle).ok_or(Errno::ENOENT)?;
        match id.state {
            _ if id.channel != channel => Err(Errno::EINVAL),
            State::DeviceRemoval => Err(Errno::ENXIO),
            _ => Ok(id),
        }
    }

    /// Returns the id of a command, which needs a device.
    ///
    /// # Errors
    ///
    /// Also EINVAL if it has none.
    pub(crate) fn attached_id(
        &mut self,
        channel: ChannelId,
        handle: u32,
    ) -> Result<(&mut Id, Attachment), Errno> {
        let id = self.id(channel, handle)?;
        let attachment = id.attached()?;
        Ok((id, attachment))
    }

    /// DESTROY_ID
    pub(crate) fn destroy_id(
        &mut self,
        now: Instant,
        host: &mut impl Host,
        channel: ChannelId,
        body: &Body,
    ) -> Result<Reply, Errno> {
        body.expect_room(size_of::<u32>())?;
        let command: abi::DestroyId = body.parse()?;
        let id = self.ids.get(&command.id).ok_or(Errno::ENOENT)?;
        if id.channel != channel {
            return Err(Errno::EINVAL);
        }
        let events_reported = self.destroy(now, host, command.id);
        Ok(body.reply(command.response, &events_reported))
    }

    /// Ends an id: its connection, its multicast groups, its port, the events that wait, and the
    /// ids of requests that user space has not read. Returns the number of events that it has read.
    pub(crate) fn destroy(&mut self, now: Instant, host: &mut impl Host, handle: u32) -> u32 {
        self.release(now, host, handle);
        let unread = self.purge_events(handle);
        let reported = self.ids.remove(&handle).map_or(0, |id| id.events_reported);
        for request in unread {
            self.destroy(now, host, request);
        }
        reported
    }

    /// Ends what an id does, but not the id: connection, listener, groups, port.
    pub(crate) fn release(&mut self, now: Instant, host: &mut impl Host, handle: u32) {
        self.leave_all(handle);
        let Some(id) = self.ids.get_mut(&handle) else {
            return;
        };
        let (port_space, claim) = (id.port_space, id.claim.take());
        let (listener, communication) = (id.listener.take(), id.communication.take());
        if let Some(communication) = communication {
            self.by_communication.remove(&communication);
            self.cm.destroy(now, communication);
        }
        if let Some(listener) = listener {
            self.by_listener.remove(&listener);
            // It is in the table as long as the id names it.
            let _ = self.cm.stop_listening(listener);
        }
        if let Some((port, address)) = claim {
            host.release_port(port_space, port, address);
        }
    }

    /// The messages of a connection are over: its identifier will name another one.
    pub(crate) fn forget_communication(&mut self, handle: u32) {
        let id = self.ids.get_mut(&handle);
        if let Some(communication) = id.and_then(|id| id.communication.take()) {
            self.by_communication.remove(&communication);
        }
    }

    /// DEVICE_REMOVAL to every id of a device: what they do ends, and user space destroys them.
    pub fn remove_device(&mut self, now: Instant, host: &mut impl Host, node_guid: u64) {
        let is_of_device = |id: &Id| {
            id.attachment
                .is_some_and(|attachment| attachment.node_guid == node_guid)
        };
        let ids = self.ids.iter().filter(|(_, id)| is_of_device(id));
        let handles: Vec<u32> = ids.map(|(handle, _)| *handle).collect();
        for handle in handles {
            self.report(handle, crate::event::DEVICE_REMOVAL, 0, &[], abi::zeroed());
            self.release(now, host, handle);
            if let Some(id) = self.ids.get_mut(&handle) {
                id.state = State::DeviceRemoval;
                id.attachment = None;
            }
        }
    }
}
