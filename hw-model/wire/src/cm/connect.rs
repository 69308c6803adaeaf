//! Connection establishment: REQ, REP, RTU (IBTA vol 1, 12.6.5, 12.6.8, 12.6.9).

use super::layout::{CmTimeout, CommunicationId, PrivateData, layout};
use super::service::ServiceId;
use crate::address::Gid;
use crate::identifiers::{PKey, QKey, Qpn};
use crate::psn::Psn;

layout! {
    /// The primary or the alternate path of a REQ, as its sender sees it.
    pub struct ReqPath of 352 bits {
        /// Local Port LID; with RoCE 0xffff
        pub local_port_lid: u16 = 16,
        /// Remote Port LID; with RoCE 0xffff
        pub remote_port_lid: u16 = 16,
        /// Local Port GID
        pub local_port_gid: Gid = 128,
        /// Remote Port GID
        pub remote_port_gid: Gid = 128,
        /// Flow Label
        pub flow_label: u32 = 20,
        /// Sent as zero, kept when received
        pub reserved6: u8 = 6,
        /// Packet Rate, as the static rate of an address handle
        pub packet_rate: u8 = 6,
        /// Traffic Class
        pub traffic_class: u8 = 8,
        /// Hop Limit
        pub hop_limit: u8 = 8,
        /// SL: service level
        pub sl: u8 = 4,
        /// Subnet Local: packets carry no global route header
        pub subnet_local: bool = 1,
        /// Sent as zero, kept when received
        pub reserved3: u8 = 3,
        /// Local ACK Timeout
        pub local_ack_timeout: CmTimeout = 5,
        /// Sent as zero, kept when received; in the alternate path, the first is SAP Supported
        pub reserved3_end: u8 = 3,
    }
}

layout! {
    /// Request for communication (table 106).
    pub struct Req of 1856 bits {
        /// Local Communication ID
        pub local_communication_id: CommunicationId = 32,
        /// Sent as zero, kept when received
        pub reserved8: u8 = 8,
        /// Vendor ID of the enhanced connection establishment (ECE)
        pub vendor_id: u32 = 24,
        /// ServiceID
        pub service_id: ServiceId = 64,
        /// Local CA GUID
        pub local_ca_guid: u64 = 64,
        /// Sent as zero, kept when received
        pub reserved32: u32 = 32,
        /// Local Q_Key: of a reliable datagram
        pub local_q_key: QKey = 32,
        /// Local QPN
        pub local_qpn: Qpn = 24,
        /// Responder Resources: READs and atomics that the sender can answer at a time
        pub responder_resources: u8 = 8,
        /// Local EECN: end-to-end context of a reliable datagram
        pub local_eecn: u32 = 24,
        /// Initiator Depth: READs and atomics that the sender may have outstanding
        pub initiator_depth: u8 = 8,
        /// Remote EECN
        pub remote_eecn: u32 = 24,
        /// Remote CM Response Timeout: the receiver answers within
        pub remote_cm_response_timeout: CmTimeout = 5,
        /// Transport Service Type: 0 RC, 1 UC, 2 RD, 3 see Extended Transport Type
        pub transport_service_type: u8 = 2,
        /// End-to-End Flow Control
        pub end_to_end_flow_control: bool = 1,
        /// Starting PSN
        pub starting_psn: Psn = 24,
        /// Local CM Response Timeout: the sender answers within
        pub local_cm_response_timeout: CmTimeout = 5,
        /// Retry Count
        pub retry_count: u8 = 3,
        /// Partition Key
        pub partition_key: PKey = 16,
        /// Path Packet Payload MTU, numbered as in the verbs
        pub path_packet_payload_mtu: u8 = 4,
        /// RDC Exists
        pub rdc_exists: bool = 1,
        /// RNR Retry Count
        pub rnr_retry_count: u8 = 3,
        /// Max CM Retries
        pub max_cm_retries: u8 = 4,
        /// SRQ: the queue pair has a shared receive queue
        pub srq: bool = 1,
        /// Extended Transport Type: 1 XRC
        pub extended_transport_type: u8 = 3,
        /// Primary path
        pub primary: ReqPath = 352,
        /// Alternate path; all zero if there is none
        pub alternate: ReqPath = 352,
        /// PrivateData
        pub private_data: PrivateData<92> = 736,
    }
}

/// The service that a REQ asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TransportService {
    /// Reliable connection
    Rc,
    /// Unreliable connection
    Uc,
    /// Extended reliable connection (IBTA annex A14)
    Xrc,
}

impl Req {
    /// Returns the transport service; None for reliable datagrams and what is reserved.
    #[must_use]
    pub const fn transport_service(&self) -> Option<TransportService> {
        match (self.transport_service_type, self.extended_transport_type) {
            (0, _) => Some(TransportService::Rc),
            (1, _) => Some(TransportService::Uc),
            (3, 1) => Some(TransportService::Xrc),
            _ => None,
        }
    }

    /// Sets the two fields of the transport service.
    pub const fn set_transport_service(&mut self, service: TransportService) {
        (self.transport_service_type, self.extended_transport_type) = match service {
            TransportService::Rc => (0, 0),
            TransportService::Uc => (1, 0),
            TransportService::Xrc => (3, 1),
        };
    }
}

layout! {
    /// Reply to a request for communication (table 110).
    pub struct Rep of 1856 bits {
        /// Local Communication ID
        pub local_communication_id: CommunicationId = 32,
        /// Remote Communication ID
        pub remote_communication_id: CommunicationId = 32,
        /// Local Q_Key
        pub local_q_key: QKey = 32,
        /// Local QPN
        pub local_qpn: Qpn = 24,
        /// Vendor ID (ECE), bits 23 ..= 16
        pub vendor_id_high: u8 = 8,
        /// Local EE Context Number; the QPN of an XRC target
        pub local_ee_context_number: u32 = 24,
        /// Vendor ID (ECE), bits 15 ..= 8
        pub vendor_id_middle: u8 = 8,
        /// Starting PSN
        pub starting_psn: Psn = 24,
        /// Vendor ID (ECE), bits 7 ..= 0
        pub vendor_id_low: u8 = 8,
        /// Responder Resources
        pub responder_resources: u8 = 8,
        /// Initiator Depth
        pub initiator_depth: u8 = 8,
        /// Target ACK Delay
        pub target_ack_delay: CmTimeout = 5,
        /// Failover Accepted
        pub failover_accepted: u8 = 2,
        /// End-To-End Flow Control
        pub end_to_end_flow_control: bool = 1,
        /// RNR Retry Count
        pub rnr_retry_count: u8 = 3,
        /// SRQ
        pub srq: bool = 1,
        /// Sent as zero, kept when received
        pub reserved4: u8 = 4,
        /// Local CA GUID
        pub local_ca_guid: u64 = 64,
        /// PrivateData
        pub private_data: PrivateData<196> = 1568,
    }
}

layout! {
    /// Ready to use (table 111).
    pub struct Rtu of 1856 bits {
        /// Local Communication ID
        pub local_communication_id: CommunicationId = 32,
        /// Remote Communication ID
        pub remote_communication_id: CommunicationId = 32,
        /// PrivateData
        pub private_data: PrivateData<224> = 1792,
    }
}
