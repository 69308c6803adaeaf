//! Attributes of a queue pair that follow from the messages.

use ferroce_wire::cm::{CmTimeout, Rep, Req, ReqPath, TransportService};
use ferroce_wire::{PKey, Psn, Qpn};

use crate::command::{Accept, Connect};

/// Attributes of the local queue pair that the messages have fixed so far (IBTA vol 1, 12.7).
///
/// The Starting PSN of a message is the first PSN that its receiver sends (12.7.31).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QpParameters {
    /// Service
    pub transport: TransportService,
    /// The local queue pair
    pub local_qpn: Qpn,
    /// The peer's queue pair
    pub remote_qpn: Qpn,
    /// PSN of the first packet to send
    pub sq_psn: Psn,
    /// PSN of the first packet to receive
    pub rq_psn: Psn,
    /// Partition
    pub p_key: PKey,
    /// Path MTU, numbered as in the verbs
    pub path_mtu: u8,
    /// Maximum number of READs and atomics that this side answers concurrently (max_dest_rd_atomic)
    pub responder_resources: u8,
    /// Maximum number of READs and atomics that this side may have outstanding (max_rd_atomic)
    pub initiator_depth: u8,
    /// Retry count
    pub retry_count: u8,
    /// RNR retry count
    pub rnr_retry_count: u8,
    /// Local ACK timeout
    pub local_ack_timeout: CmTimeout,
    /// Flow label
    pub flow_label: u32,
    /// Traffic class
    pub traffic_class: u8,
    /// Hop limit
    pub hop_limit: u8,
    /// Service level
    pub sl: u8,
    /// Static rate
    pub packet_rate: u8,
    /// The peer's queue pair has a shared receive queue
    pub remote_srq: bool,
}

impl QpParameters {
    /// Returns the attributes that are known when the REQ is sent.
    pub(crate) fn of_connect(connect: &Connect) -> Self {
        let path = &connect.path;
        Self {
            transport: connect.transport,
            local_qpn: connect.qpn,
            remote_qpn: Qpn::new(0),
            sq_psn: Psn::new(0),
            rq_psn: connect.starting_psn,
            p_key: path.p_key,
            path_mtu: path.mtu,
            responder_resources: connect.responder_resources,
            initiator_depth: connect.initiator_depth,
            retry_count: connect.retry_count,
            rnr_retry_count: connect.rnr_retry_count,
            local_ack_timeout: path.local_ack_timeout,
            flow_label: path.flow_label,
            traffic_class: path.traffic_class,
            hop_limit: path.hop_limit,
            sl: path.sl,
            packet_rate: path.packet_rate,
            remote_srq: false,
        }
    }

    /// Returns the attributes that a REQ fixes on the passive side: the peer's limits, mirrored.
    pub(crate) fn of_request(request: &Req, transport: TransportService) -> Self {
        let path: &ReqPath = &request.primary;
        Self {
            transport,
            local_qpn: Qpn::new(0),
            remote_qpn: request.local_qpn,
            sq_psn: request.starting_psn,
            rq_psn: Psn::new(0),
            p_key: request.partition_key,
            path_mtu: request.path_packet_payload_mtu,
            responder_resources: request.initiator_depth,
            initiator_depth: request.responder_resources,
            retry_count: request.retry_count,
            rnr_retry_count: request.rnr_retry_count,
            local_ack_timeout: path.local_ack_timeout,
            flow_label: path.flow_label,
            traffic_class: path.traffic_class,
            hop_limit: path.hop_limit,
            sl: path.sl,
            packet_rate: path.packet_rate,
            remote_srq: request.srq,
        }
    }

    /// Adds the attributes that the passive side chose.
    pub(crate) fn accept(&mut self, accept: &Accept) {
        self.local_qpn = accept.qpn;
        self.rq_psn = accept.starting_psn;
        self.responder_resources = accept.responder_resources;
        self.initiator_depth = accept.initiator_depth;
    }

    /// Adds the attributes that a REP fixes on the active side.
    pub(crate) fn respond(&mut self, response: &Rep) {
        self.remote_qpn = remote_qpn(response, self.transport);
        self.sq_psn = response.starting_psn;
        self.responder_resources = response.initiator_depth;
        self.initiator_depth = response.responder_resources;
        self.rnr_retry_count = response.rnr_retry_count;
        self.remote_srq = response.srq;
    }
}

/// Returns the queue pair of a REP: an XRC target is in the place of the EE context (annex A14).
pub(crate) fn remote_qpn(response: &Rep, transport: TransportService) -> Qpn {
    match transport {
        TransportService::Xrc => Qpn::new(response.local_ee_context_number),
        _ => response.local_qpn,
    }
}
