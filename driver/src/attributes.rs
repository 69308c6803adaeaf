//! Attributes of QPs and of the GID table, and the transitions of `ibv_modify_qp`.
//!
//! Each transition has exactly the attributes that IBTA vol 1, table 91 (QP state transition
//! properties) requires for its service; optional ones are `Option`s. Attributes that the service
//! does not have are refused, by the table of `ferroce_qp`.

use ferroce_qp::{PathMtu, QpState};
use ferroce_spec::context::AccessRights;
use ferroce_spec::wqe::{AddressPath, VLAN_NONE};

use crate::identifier::Qpn;

/// Operations that the peer may request of this QP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QpAccess {
    /// True if the peer may send RDMA WRITEs.
    pub remote_write: bool,
    /// True if the peer may send RDMA READs.
    pub remote_read: bool,
    /// True if the peer may send atomics.
    pub remote_atomic: bool,
    /// True if the peer may send FLUSHes that make writes visible to all readers.
    pub flush_global: bool,
    /// True if the peer may send FLUSHes that make writes persistent.
    pub flush_persistent: bool,
}

impl From<QpAccess> for AccessRights {
    fn from(access: QpAccess) -> Self {
        let mut rights = Self::default();
        rights.set_remote_write(access.remote_write);
        rights.set_remote_read(access.remote_read);
        rights.set_remote_atomic(access.remote_atomic);
        rights.set_flush_global(access.flush_global);
        rights.set_flush_persistent(access.flush_persistent);
        rights
    }
}

impl From<AccessRights> for QpAccess {
    fn from(rights: AccessRights) -> Self {
        Self {
            remote_write: rights.remote_write(),
            remote_read: rights.remote_read(),
            remote_atomic: rights.remote_atomic(),
            flush_global: rights.flush_global(),
            flush_persistent: rights.flush_persistent(),
        }
    }
}

/// Path to a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AddressVector {
    /// Destination GID: an IPv6 or IPv4-mapped address.
    pub dest_gid: [u8; 16],
    /// MAC address of the next hop.
    pub dest_mac: [u8; 6],
    /// Index in the function's GID table.
    pub source_gid_index: u16,
    /// IPv6 traffic class, IPv4 type of service.
    pub traffic_class: u8,
    /// IPv6 hop limit, IPv4 time to live.
    pub hop_limit: u8,
    /// IPv6 flow label, 20 bits.
    pub flow_label: u32,
    /// UDP source port.
    pub udp_source_port: u16,
    /// Service level, 0 to 15: the Ethernet priority.
    pub service_level: u8,
    /// VLAN tag control information.
    pub vlan: Option<u16>,
    /// Rate limit as an `ibv_rate` number; zero: none.
    pub static_rate: u8,
}

impl From<&AddressVector> for AddressPath {
    fn from(vector: &AddressVector) -> Self {
        Self {
            dest_gid: vector.dest_gid,
            dest_mac: vector.dest_mac,
            vlan: vector.vlan.unwrap_or(VLAN_NONE),
            source_gid_index: vector.source_gid_index,
            udp_source_port: vector.udp_source_port,
            traffic_class: vector.traffic_class,
            hop_limit: vector.hop_limit,
            service_level: vector.service_level,
            reserved: 0,
            flow_label: vector.flow_label & 0xf_ffff,
            static_rate: u32::from(vector.static_rate),
            reserved_28: [0; 2],
        }
    }
}

impl From<&AddressPath> for AddressVector {
    fn from(path: &AddressPath) -> Self {
        Self {
            dest_gid: path.dest_gid,
            dest_mac: path.dest_mac,
            source_gid_index: path.source_gid_index,
            traffic_class: path.traffic_class,
            hop_limit: path.hop_limit,
            flow_label: path.flow_label & 0xf_ffff,
            udp_source_port: path.udp_source_port,
            service_level: path.service_level,
            vlan: (path.vlan != VLAN_NONE).then_some(path.vlan),
            static_rate: path.static_rate.to_le_bytes()[0],
        }
    }
}

/// An entry of the function's GID table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GidEntry {
    /// GID: an IPv6 or IPv4-mapped address; all zero: no entry.
    pub gid: [u8; 16],
    /// Source MAC address.
    pub mac: [u8; 6],
    /// VLAN ID.
    pub vlan: Option<u16>,
}

/// RESET to INIT: RC, UC and XRC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InitAttributes {
    /// Index of the P_Key.
    pub p_key_index: u16,
    /// Port, from 1.
    pub port: u8,
    /// Operations that the peer may request.
    pub access: QpAccess,
}

/// RESET to INIT: UD and GSI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdInit {
    /// Index of the P_Key.
    pub p_key_index: u16,
    /// Port, from 1.
    pub port: u8,
    /// Q_Key that received datagrams must carry, and that is sent if a request selects it. The
    /// GSI's is [`GSI_Q_KEY`](crate::GSI_Q_KEY).
    pub q_key: u32,
}

/// INIT to INIT.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InitUpdate {
    /// Index of the P_Key.
    pub p_key_index: Option<u16>,
    /// Port, from 1.
    pub port: Option<u8>,
    /// Operations that the peer may request. Not UD and GSI.
    pub access: Option<QpAccess>,
    /// Q_Key. Only UD and GSI.
    pub q_key: Option<u32>,
}

/// INIT to RTR: RC and XRC targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RtrAttributes {
    /// Path MTU.
    pub path_mtu: PathMtu,
    /// The peer's QP.
    pub dest_qpn: Qpn,
    /// First PSN that the peer will send, 24 bits.
    pub rq_psn: u32,
    /// READs and atomics that the peer may have outstanding.
    pub max_dest_rd_atomic: u8,
    /// Timer code of RNR NAKs, 5 bits.
    pub min_rnr_timer: u8,
    /// Path to the peer.
    pub path: AddressVector,
    /// Operations that the peer may request, when they change.
    pub access: Option<QpAccess>,
    /// Index of the P_Key, when it changes.
    pub p_key_index: Option<u16>,
}

/// INIT to RTR: UC and XRC initiators, which answer no READs and send no RNR NAKs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UcRtr {
    /// Path MTU.
    pub path_mtu: PathMtu,
    /// The peer's QP.
    pub dest_qpn: Qpn,
    /// First PSN that the peer will send, 24 bits.
    pub rq_psn: u32,
    /// Path to the peer.
    pub path: AddressVector,
    /// Operations that the peer may request, when they change.
    pub access: Option<QpAccess>,
    /// Index of the P_Key, when it changes.
    pub p_key_index: Option<u16>,
}

/// INIT to RTR: UD and GSI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UdRtr {
    /// Index of the P_Key, when it changes.
    pub p_key_index: Option<u16>,
    /// Q_Key, when it changes.
    pub q_key: Option<u32>,
}

/// RTR to RTS: RC and XRC initiators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RtsAttributes {
    /// First PSN to send, 24 bits.
    pub sq_psn: u32,
    /// Local ACK timeout, 5-bit code; zero: none.
    pub timeout: u8,
    /// Retries after a timeout or a sequence error, 3 bits.
    pub retry_count: u8,
    /// Retries after an RNR NAK, 3 bits; 7: forever.
    pub rnr_retry: u8,
    /// READs and atomics outstanding as requester.
    pub max_rd_atomic: u8,
    /// Operations that the peer may request, when they change.
    pub access: Option<QpAccess>,
    /// Timer code of RNR NAKs, when it changes. Only RC.
    pub min_rnr_timer: Option<u8>,
}

/// RTR to RTS: UC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UcRts {
    /// First PSN to send, 24 bits.
    pub sq_psn: u32,
    /// Operations that the peer may request, when they change.
    pub access: Option<QpAccess>,
}

/// RTR to RTS: UD and GSI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdRts {
    /// First PSN to send, 24 bits.
    pub sq_psn: u32,
    /// Q_Key, when it changes.
    pub q_key: Option<u32>,
}

/// RTR to RTS: XRC targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct XrcTargetRts {
    /// First PSN to send, 24 bits.
    pub sq_psn: u32,
    /// Local ACK timeout, 5-bit code; zero: none.
    pub timeout: u8,
    /// Operations that the peer may request, when they change.
    pub access: Option<QpAccess>,
    /// Timer code of RNR NAKs, when it changes.
    pub min_rnr_timer: Option<u8>,
}

/// RTS to RTS, SQD to RTS, and SQE to RTS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RtsUpdate {
    /// Operations that the peer may request. Not UD and GSI.
    pub access: Option<QpAccess>,
    /// Timer code of RNR NAKs. Only RC and XRC targets.
    pub min_rnr_timer: Option<u8>,
    /// Q_Key. Only UD and GSI.
    pub q_key: Option<u32>,
}

/// SQD to SQD: any attribute of the service may change while the send queue is drained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SqdUpdate {
    /// Index of the P_Key.
    pub p_key_index: Option<u16>,
    /// Port, from 1.
    pub port: Option<u8>,
    /// Operations that the peer may request.
    pub access: Option<QpAccess>,
    /// Path to the peer.
    pub path: Option<AddressVector>,
    /// Local ACK timeout.
    pub timeout: Option<u8>,
    /// Retries after a timeout or a sequence error.
    pub retry_count: Option<u8>,
    /// Retries after an RNR NAK.
    pub rnr_retry: Option<u8>,
    /// READs and atomics outstanding as requester.
    pub max_rd_atomic: Option<u8>,
    /// READs and atomics that the peer may have outstanding.
    pub max_dest_rd_atomic: Option<u8>,
    /// Timer code of RNR NAKs.
    pub min_rnr_timer: Option<u8>,
    /// Q_Key.
    pub q_key: Option<u32>,
}

/// A transition of a QP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModifyQp {
    /// Any state to RESET: outstanding work requests and their completions are discarded.
    ToReset,
    /// RESET to INIT: RC, UC and XRC.
    ToInit(InitAttributes),
    /// RESET to INIT: UD and GSI.
    ToInitUd(UdInit),
    /// INIT to INIT.
    InitToInit(InitUpdate),
    /// INIT to RTR: RC and XRC targets.
    ToRtr(RtrAttributes),
    /// INIT to RTR: UC and XRC initiators.
    ToRtrUc(UcRtr),
    /// INIT to RTR: UD and GSI.
    ToRtrUd(UdRtr),
    /// RTR to RTS: RC and XRC initiators.
    ToRts(RtsAttributes),
    /// RTR to RTS: UC.
    ToRtsUc(UcRts),
    /// RTR to RTS: UD and GSI.
    ToRtsUd(UdRts),
    /// RTR to RTS: XRC targets.
    ToRtsXrcTarget(XrcTargetRts),
    /// RTS to RTS.
    UpdateRts(RtsUpdate),
    /// RTS to SQD.
    ToSqd {
        /// True if `AsyncEvent::SqDrained` is raised when the send queue has drained.
        notify_drained: bool,
    },
    /// SQD to SQD.
    SqdUpdate(SqdUpdate),
    /// SQD to RTS.
    SqdToRts(RtsUpdate),
    /// SQE to RTS: UC, UD and GSI, whose receive queues have continued to work.
    SqeToRts(RtsUpdate),
    /// Any state but RESET to ERR.
    ToErr,
}

/// Current attributes of a QP, as the device reports them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuePairAttributes {
    /// State.
    pub state: QpState,
    /// True if the send queue is still draining (only in SQD).
    pub draining: bool,
    /// Path MTU; none before RTR.
    pub path_mtu: Option<PathMtu>,
    /// Q_Key (UD, GSI).
    pub q_key: u32,
    /// PSN expected next.
    pub rq_psn: u32,
    /// PSN of the next request.
    pub sq_psn: u32,
    /// The peer's QP.
    pub dest_qpn: Qpn,
    /// Operations that the peer may request.
    pub access: QpAccess,
    /// Path to the peer.
    pub path: AddressVector,
    /// Index of the P_Key.
    pub p_key_index: u16,
    /// READs and atomics outstanding as requester.
    pub max_rd_atomic: u8,
    /// READs and atomics that the peer may have outstanding.
    pub max_dest_rd_atomic: u8,
    /// Timer code of RNR NAKs.
    pub min_rnr_timer: u8,
    /// Port.
    pub port: u8,
    /// Local ACK timeout.
    pub timeout: u8,
    /// Retries after a timeout or a sequence error.
    pub retry_count: u8,
    /// Retries after an RNR NAK.
    pub rnr_retry: u8,
}
