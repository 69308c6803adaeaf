//! Service identifiers, and their resolution for datagrams: SIDR_REQ, SIDR_REP (IBTA vol 1, 12.11).

use core::fmt;

use super::layout::{CommunicationId, PrivateData, layout, numbers};
use crate::identifiers::{PKey, QKey, Qpn};

/// The 64-bit identifier of a service.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ServiceId(pub u64);

numbers! {
    ServiceId: |value| ServiceId(value), |id| id.0;
}

impl ServiceId {
    /// Returns the service of a port in the range of the RDMA IP CM service (IBTA vol 1, annex
    /// A11.3.1). `protocol` is TCP (6), UDP (17) or another IP protocol.
    #[must_use]
    pub const fn ip(protocol: u8, port: u16) -> Self {
        Self(1 << 24 | (protocol as u64) << 16 | port as u64)
    }

    /// Returns the IP protocol and the port; None outside of the range of the RDMA IP CM service.
    #[must_use]
    pub const fn to_ip(self) -> Option<(u8, u16)> {
        if self.0 >> 24 == 1 {
            Some(((self.0 >> 16) as u8, self.0 as u16))
        } else {
            None
        }
    }
}

impl fmt::Debug for ServiceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServiceId({:#018x})", self.0)
    }
}

layout! {
    /// Service ID resolution request (table 119).
    pub struct SidrReq of 1856 bits {
        /// RequestID: chosen by the sender, returned in the response
        pub request_id: CommunicationId = 32,
        /// Partition Key
        pub partition_key: PKey = 16,
        /// Sent as zero, kept when received
        pub reserved16: u16 = 16,
        /// ServiceID
        pub service_id: ServiceId = 64,
        /// PrivateData
        pub private_data: PrivateData<216> = 1728,
    }
}

layout! {
    /// Service ID resolution response (table 120).
    pub struct SidrRep of 1856 bits {
        /// RequestID
        pub request_id: CommunicationId = 32,
        /// Status
        pub status: SidrStatus = 8,
        /// Additional Information Length
        pub additional_information_length: u8 = 8,
        /// Vendor ID (ECE), bits 23 ..= 8
        pub vendor_id_high: u16 = 16,
        /// QPN: the queue pair of the service
        pub qpn: Qpn = 24,
        /// Vendor ID (ECE), bits 7 ..= 0
        pub vendor_id_low: u8 = 8,
        /// ServiceID
        pub service_id: ServiceId = 64,
        /// Q_Key
        pub q_key: QKey = 32,
        /// Additional Information
        pub additional_information: PrivateData<72> = 576,
        /// PrivateData
        pub private_data: PrivateData<136> = 1088,
    }
}

/// Result of a service ID resolution. Any number can arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SidrStatus(pub u8);

numbers! {
    SidrStatus: |value| SidrStatus(value as u8), |status| u64::from(status.0);
}

impl SidrStatus {
    /// Valid: the QPN and the Q_Key may be used
    pub const SUCCESS: Self = Self(0);
    /// The service is not supported
    pub const UNSUPPORTED: Self = Self(1);
    /// The service provider has refused
    pub const REJECT: Self = Self(2);
    /// No queue pair is available
    pub const NO_QP: Self = Self(3);
    /// The request must go to another port
    pub const REDIRECT: Self = Self(4);
    /// The format of the request is not supported
    pub const UNSUPPORTED_VERSION: Self = Self(5);
}
