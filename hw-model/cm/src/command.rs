//! Commands of the caller.

use ferroce_wire::cm::{
    CmTimeout, CommunicationId, IpCmHeader, RejectReason, ServiceId, SidrStatus, TransportService,
};
use ferroce_wire::{Gid, PKey, Psn, QKey, Qpn};

use crate::state::State;

/// The upper part of a service identifier, as RDMA CM numbers it (`enum rdma_port_space`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u16)]
pub enum PortSpace {
    /// Datagrams of IP over InfiniBand
    Ipoib = 0x0002,
    /// Connections between IP addresses
    Tcp = 0x0106,
    /// Datagrams between IP addresses
    Udp = 0x0111,
    /// Any service of InfiniBand
    Ib = 0x013f,
}

impl PortSpace {
    /// Returns the service of a port.
    #[must_use]
    pub const fn service_id(self, port: u16) -> ServiceId {
        ServiceId((self as u64) << 16 | port as u64)
    }
}

/// Names a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListenerId(pub u32);

/// The destinations that a listener serves; the most specific one is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ListenAddress {
    /// One address
    Gid(Gid),
    /// Every IPv4 address
    AnyIpv4,
    /// Every address except IPv4 addresses
    AnyIpv6,
    /// Every address
    Any,
}

/// A request to listen.
#[derive(Debug, Clone, Copy)]
pub struct Listen {
    /// Port space
    pub port_space: PortSpace,
    /// Port
    pub port: u16,
    /// Which destinations
    pub address: ListenAddress,
    /// Number of requests that are held; 0, or more than [`MAX_BACKLOG`](crate::MAX_BACKLOG), means
    /// the maximum
    pub backlog: u32,
}

/// The path to the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Path {
    /// This side's address
    pub local_gid: Gid,
    /// The peer's address
    pub remote_gid: Gid,
    /// Partition
    pub p_key: PKey,
    /// Path MTU, numbered as in the verbs
    pub mtu: u8,
    /// Flow Label
    pub flow_label: u32,
    /// Traffic Class
    pub traffic_class: u8,
    /// Hop Limit
    pub hop_limit: u8,
    /// Service level
    pub sl: u8,
    /// Static rate
    pub packet_rate: u8,
    /// Maximum time that a packet is in flight
    pub packet_lifetime: CmTimeout,
    /// Local ACK Timeout of the queue pair
    pub local_ack_timeout: CmTimeout,
}

impl Path {
    /// Returns a path with the values of Linux on RoCE.
    #[must_use]
    pub const fn new(local_gid: Gid, remote_gid: Gid) -> Self {
        Self {
            local_gid,
            remote_gid,
            p_key: PKey::DEFAULT,
            mtu: 3,
            flow_label: 0,
            traffic_class: 0,
            hop_limit: 64,
            sl: 0,
            packet_rate: 0,
            packet_lifetime: CmTimeout::new(16),
            local_ack_timeout: CmTimeout::new(17),
        }
    }
}

/// Enhanced connection establishment: vendor options that both sides agree on. They are passed on
/// unread, as Linux does: the vendor in reserved fields, its options in the attribute modifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ece {
    /// 24 bits
    pub vendor_id: u32,
    /// Options
    pub attr_mod: u32,
}

/// The contents of a REQ.
#[derive(Debug, Clone)]
pub struct Connect {
    /// The peer's service
    pub service_id: ServiceId,
    /// The path
    pub path: Path,
    /// RC, UC or XRC
    pub transport: TransportService,
    /// GUID of the local device
    pub local_ca_guid: u64,
    /// The local queue pair
    pub qpn: Qpn,
    /// PSN of the first packet that it receives: the peer starts with it
    pub starting_psn: Psn,
    /// Maximum number of READs and atomics that this side answers concurrently
    pub responder_resources: u8,
    /// Maximum number of READs and atomics that this side may have outstanding
    pub initiator_depth: u8,
    /// Retry Count of the queue pair
    pub retry_count: u8,
    /// RNR Retry Count of the peer's queue pair
    pub rnr_retry_count: u8,
    /// End-to-end flow control
    pub flow_control: bool,
    /// The queue pair has a shared receive queue
    pub srq: bool,
    /// Enhanced connection establishment
    pub ece: Ece,
    /// Both sides connect to the same service (IBTA vol 1, 12.10.4)
    pub is_peer: bool,
    /// Addresses of the RDMA IP CM service, which precede the private data
    pub ip: Option<IpCmHeader>,
    /// At most 92 bytes, or 56 after the header of the RDMA IP CM service
    pub private_data: Vec<u8>,
}

/// The contents of a REP.
#[derive(Debug, Clone)]
pub struct Accept {
    /// GUID of the local device
    pub local_ca_guid: u64,
    /// The local queue pair
    pub qpn: Qpn,
    /// PSN of the first packet that it receives: the peer starts with it
    pub starting_psn: Psn,
    /// Maximum number of READs and atomics that this side answers concurrently
    pub responder_resources: u8,
    /// Maximum number of READs and atomics that this side may have outstanding
    pub initiator_depth: u8,
    /// RNR Retry Count of the peer's queue pair
    pub rnr_retry_count: u8,
    /// End-to-end flow control
    pub flow_control: bool,
    /// The queue pair has a shared receive queue
    pub srq: bool,
    /// Enhanced connection establishment
    pub ece: Ece,
    /// At most 196 bytes
    pub private_data: Vec<u8>,
}

/// The contents of a REJ of a REQ or a REP.
#[derive(Debug, Clone)]
pub struct Reject {
    /// Reason
    pub reason: RejectReason,
    /// Additional reject information, at most 72 bytes
    pub additional_information: Vec<u8>,
    /// At most 148 bytes
    pub private_data: Vec<u8>,
}

impl Reject {
    /// Returns the refusal by an application.
    #[must_use]
    pub const fn by_consumer(private_data: Vec<u8>) -> Self {
        Self {
            reason: RejectReason::CONSUMER,
            additional_information: Vec::new(),
            private_data,
        }
    }
}

/// The contents of a SIDR_REQ.
#[derive(Debug, Clone)]
pub struct SidrRequest {
    /// The peer's service
    pub service_id: ServiceId,
    /// The path
    pub path: Path,
    /// Addresses of the RDMA IP CM service, which precede the private data
    pub ip: Option<IpCmHeader>,
    /// At most 216 bytes, or 180 after the header of the RDMA IP CM service
    pub private_data: Vec<u8>,
}

/// The contents of a SIDR_REP.
#[derive(Debug, Clone)]
pub struct SidrResponse {
    /// Result
    pub status: SidrStatus,
    /// The queue pair of the service
    pub qpn: Qpn,
    /// Its Q_Key
    pub q_key: QKey,
    /// Enhanced connection establishment
    pub ece: Ece,
    /// At most 136 bytes
    pub private_data: Vec<u8>,
}

/// Reason why a command was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// Another listener has the service at that address.
    #[error("the service has a listener")]
    AddressInUse,
    /// A table is full.
    #[error("no more than {0} entries")]
    TooMany(usize),
    /// No such listener.
    #[error("unknown listener {}", .0.0)]
    UnknownListener(ListenerId),
    /// No such connection.
    #[error("unknown connection {0}")]
    UnknownConnection(CommunicationId),
    /// The connection's state does not permit the command.
    #[error("not in state {0:?}")]
    State(State),
    /// The private data exceeds the room in the message.
    #[error("{length} bytes of private data, the message has room for {limit}")]
    PrivateData {
        /// Bytes given.
        length: usize,
        /// Bytes that fit.
        limit: usize,
    },
}
