//! Connection release: DREQ, DREP (IBTA vol 1, 12.6.10, 12.6.11).

use super::layout::{CommunicationId, PrivateData, layout};
use crate::identifiers::Qpn;

layout! {
    /// Request for communication release (table 112).
    pub struct Dreq of 1856 bits {
        /// Local Communication ID
        pub local_communication_id: CommunicationId = 32,
        /// Remote Communication ID
        pub remote_communication_id: CommunicationId = 32,
        /// Remote QPN/EECN: the receiver's queue pair
        pub remote_qpn_eecn: Qpn = 24,
        /// Sent as zero, kept when received
        pub reserved8: u8 = 8,
        /// PrivateData
        pub private_data: PrivateData<220> = 1760,
    }
}

layout! {
    /// Reply to a request for communication release (table 113).
    pub struct Drep of 1856 bits {
        /// Local Communication ID
        pub local_communication_id: CommunicationId = 32,
        /// Remote Communication ID
        pub remote_communication_id: CommunicationId = 32,
        /// PrivateData
        pub private_data: PrivateData<224> = 1792,
    }
}
