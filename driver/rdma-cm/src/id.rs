//! The state of an id.

use core::net::SocketAddr;

use ferroce_cm::{ListenAddress, ListenerId, Path, PortSpace};
use ferroce_wire::cm::{CommunicationId, TransportService};
use ferroce_wire::{Gid, Psn};

use crate::channel::ChannelId;
use crate::errno::Errno;
use crate::host::Device;

/// State of an id (`enum rdma_cm_state`). Resolution takes no time here, so the kernel's states
/// that wait for it do not exist.
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
    /// A connection is being established, or exists; or a service is being resolved, or was
    /// resolved.
    Connect,
    /// The connection has ended.
    Disconnect,
    /// It waits for requests.
    Listen,
    /// Its device has been removed.
    DeviceRemoval,
}

/// Kinds of queue pairs, `enum ibv_qp_type`. A program may pass any number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QpType(pub(crate) u8);

impl QpType {
    /// Not specified: a listener accepts every kind.
    pub(crate) const ANY: Self = Self(0);
    pub(crate) const RC: Self = Self(2);
    pub(crate) const UC: Self = Self(3);
    pub(crate) const UD: Self = Self(4);
    pub(crate) const XRC_SEND: Self = Self(9);
    pub(crate) const XRC_RECV: Self = Self(10);

    /// Returns the transport service in the REQ for this kind of queue pair.
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
    pub(crate) has_flush: bool,
    pub(crate) gid: Gid,
    pub(crate) gid_index: u8,
}

impl Attachment {
    /// Returns the device and the index of a GID.
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
                has_flush: device.has_flush,
                gid: address.gid,
                gid_index: address.gid_index,
            })
        })
    }
}

/// Options of an id.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Options {
    pub(crate) traffic_class: Option<u8>,
    pub(crate) is_reuse: bool,
    /// True if the id listens only on the IP version of its address; `None`: the default of that
    /// version.
    pub(crate) is_family_only: Option<bool>,
    pub(crate) ack_timeout: Option<u8>,
}

#[derive(Debug)]
pub(crate) struct Id {
    pub(crate) channel: ChannelId,
    /// User space's name for it (`uid`); zero on the passive side until ACCEPT.
    pub(crate) uid: u64,
    pub(crate) port_space: PortSpace,
    pub(crate) qp_type: QpType,
    pub(crate) state: State,
    /// Events that user space has read.
    pub(crate) events_reported: u32,
    /// The claim of the port, which must be released.
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
    /// For a request that user space has not read: its listener, whose channel has the event.
    pub(crate) unread_of: Option<u32>,
    pub(crate) options: Options,
    /// The Q_Key of a UD id, once known.
    pub(crate) q_key: Option<u32>,
    /// The starting PSN that this side puts into its messages.
    pub(crate) starting_psn: Psn,
}

impl Id {
    pub(crate) fn new(channel: ChannelId, port_space: PortSpace, qp_type: QpType) -> Self {
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
        if self.state == state {
            Ok(())
        } else {
            Err(Errno::EINVAL)
        }
    }
}
