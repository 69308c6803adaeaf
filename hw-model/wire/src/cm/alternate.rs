//! Alternate paths: LAP, APR (IBTA vol 1, 12.8.1, 12.8.2).

use super::layout::{CmTimeout, CommunicationId, PrivateData, layout};
use crate::address::Gid;
use crate::identifiers::Qpn;

layout! {
    /// Load alternate path (table 115).
    pub struct Lap of 1856 bits {
        /// Local Communication ID
        pub local_communication_id: CommunicationId = 32,
        /// Remote Communication ID
        pub remote_communication_id: CommunicationId = 32,
        /// Sent as zero, kept when received
        pub reserved32: u32 = 32,
        /// Remote QPN/EECN
        pub remote_qpn_eecn: Qpn = 24,
        /// Remote CM Response Timeout
        pub remote_cm_response_timeout: CmTimeout = 5,
        /// Sent as zero, kept when received
        pub reserved3: u8 = 3,
        /// Sent as zero, kept when received
        pub reserved32_path: u32 = 32,
        /// Alternate Local Port LID
        pub alternate_local_port_lid: u16 = 16,
        /// Alternate Remote Port LID
        pub alternate_remote_port_lid: u16 = 16,
        /// Alternate Local Port GID
        pub alternate_local_port_gid: Gid = 128,
        /// Alternate Remote Port GID
        pub alternate_remote_port_gid: Gid = 128,
        /// Alternate Flow Label
        pub alternate_flow_label: u32 = 20,
        /// Sent as zero, kept when received
        pub reserved4: u8 = 4,
        /// Alternate Traffic Class
        pub alternate_traffic_class: u8 = 8,
        /// Alternate Hop Limit
        pub alternate_hop_limit: u8 = 8,
        /// Sent as zero, kept when received
        pub reserved2: u8 = 2,
        /// Alternate Packet Rate
        pub alternate_packet_rate: u8 = 6,
        /// Alternate SL
        pub alternate_sl: u8 = 4,
        /// Alternate Subnet Local
        pub alternate_subnet_local: bool = 1,
        /// Sent as zero, kept when received
        pub reserved3_sl: u8 = 3,
        /// Alternate Local ACK Timeout
        pub alternate_local_ack_timeout: CmTimeout = 5,
        /// Sent as zero, kept when received
        pub reserved3_end: u8 = 3,
        /// PrivateData
        pub private_data: PrivateData<168> = 1344,
    }
}

layout! {
    /// Alternate path response (table 116).
    pub struct Apr of 1856 bits {
        /// Local Communication ID
        pub local_communication_id: CommunicationId = 32,
        /// Remote Communication ID
        pub remote_communication_id: CommunicationId = 32,
        /// Additional Information Length
        pub additional_information_length: u8 = 8,
        /// AR Status
        pub ar_status: u8 = 8,
        /// Sent as zero, kept when received
        pub reserved16: u16 = 16,
        /// Additional Information
        pub additional_information: PrivateData<72> = 576,
        /// PrivateData
        pub private_data: PrivateData<148> = 1184,
    }
}

impl Apr {
    /// AR Status: the alternate path has been loaded.
    pub const LOADED: u8 = 0;
    /// AR Status: invalid communication identifier.
    pub const INVALID_COMMUNICATION_ID: u8 = 1;
    /// AR Status: alternate paths are not supported.
    pub const NOT_SUPPORTED: u8 = 2;
}
