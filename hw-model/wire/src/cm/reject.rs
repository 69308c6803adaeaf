//! Messages that delay or refuse: MRA, REJ (IBTA vol 1, 12.6.6, 12.6.7).

use core::fmt;

use super::layout::{CmTimeout, CommunicationId, PrivateData, layout, numbers};

layout! {
    /// Message receipt acknowledgment (table 107).
    pub struct Mra of 1856 bits {
        /// Local Communication ID
        pub local_communication_id: CommunicationId = 32,
        /// Remote Communication ID
        pub remote_communication_id: CommunicationId = 32,
        /// Message MRAed: 0 REQ, 1 REP, 2 LAP
        pub message_mraed: u8 = 2,
        /// Sent as zero, kept when received
        pub reserved6: u8 = 6,
        /// Service Timeout: the answer comes within
        pub service_timeout: CmTimeout = 5,
        /// Sent as zero, kept when received
        pub reserved3: u8 = 3,
        /// PrivateData
        pub private_data: PrivateData<222> = 1776,
    }
}

impl Mra {
    /// Message MRAed: a REQ
    pub const REQ: u8 = 0;
    /// Message MRAed: a REP
    pub const REP: u8 = 1;
    /// Message MRAed: a LAP
    pub const LAP: u8 = 2;
}

layout! {
    /// Reject (table 108).
    pub struct Rej of 1856 bits {
        /// Local Communication ID; zero if the sender has none
        pub local_communication_id: CommunicationId = 32,
        /// Remote Communication ID; zero if the sender does not know it
        pub remote_communication_id: CommunicationId = 32,
        /// Message REJected: 0 REQ, 1 REP, 2 none of them
        pub message_rejected: u8 = 2,
        /// Sent as zero, kept when received
        pub reserved6: u8 = 6,
        /// Reject Info Length: bytes of additional reject information
        pub reject_info_length: u8 = 7,
        /// Sent as zero, kept when received
        pub reserved1: u8 = 1,
        /// Reason
        pub reason: RejectReason = 16,
        /// Additional Reject Information (ARI); its meaning depends on the reason
        pub additional_reject_information: PrivateData<72> = 576,
        /// PrivateData
        pub private_data: PrivateData<148> = 1184,
    }
}

impl Rej {
    /// Message REJected: a REQ
    pub const REQ: u8 = 0;
    /// Message REJected: a REP
    pub const REP: u8 = 1;
    /// Message REJected: no message, as after a timeout
    pub const NO_MESSAGE: u8 = 2;
}

/// Reason why a connection was refused (table 109). Any number can arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RejectReason(pub u16);

numbers! {
    RejectReason: |value| RejectReason(value as u16), |reason| u64::from(reason.0);
}

/// Declares the reasons.
macro_rules! reasons {
    ($($name:ident = $code:literal, $text:literal;)*) => {
        impl RejectReason {
            $(#[doc = $text] pub const $name: Self = Self($code);)*

            /// Returns the IBTA's name of the reason; `None` for an unknown number.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self {
                    $(Self::$name => Some($text),)*
                    _ => None,
                }
            }
        }
    };
}

reasons! {
    NO_QP = 1, "no QP available";
    NO_EEC = 2, "no EE context available";
    NO_RESOURCES = 3, "no resources available";
    TIMEOUT = 4, "timeout";
    UNSUPPORTED_REQUEST = 5, "unsupported request";
    INVALID_COMMUNICATION_ID = 6, "invalid communication ID";
    INVALID_COMMUNICATION_INSTANCE = 7, "invalid communication instance";
    INVALID_SERVICE_ID = 8, "invalid service ID";
    INVALID_TRANSPORT_SERVICE_TYPE = 9, "invalid transport service type";
    STALE_CONNECTION = 10, "stale connection";
    RDC_DOES_NOT_EXIST = 11, "RDC does not exist";
    PRIMARY_REMOTE_PORT_GID = 12, "primary remote port GID rejected";
    PRIMARY_REMOTE_PORT_LID = 13, "primary remote port LID rejected";
    INVALID_PRIMARY_SL = 14, "invalid primary SL";
    INVALID_PRIMARY_TRAFFIC_CLASS = 15, "invalid primary traffic class";
    INVALID_PRIMARY_HOP_LIMIT = 16, "invalid primary hop limit";
    INVALID_PRIMARY_PACKET_RATE = 17, "invalid primary packet rate";
    ALTERNATE_REMOTE_PORT_GID = 18, "alternate remote port GID rejected";
    ALTERNATE_REMOTE_PORT_LID = 19, "alternate remote port LID rejected";
    INVALID_ALTERNATE_SL = 20, "invalid alternate SL";
    INVALID_ALTERNATE_TRAFFIC_CLASS = 21, "invalid alternate traffic class";
    INVALID_ALTERNATE_HOP_LIMIT = 22, "invalid alternate hop limit";
    INVALID_ALTERNATE_PACKET_RATE = 23, "invalid alternate packet rate";
    PORT_AND_CM_REDIRECTION = 24, "port and CM redirection";
    PORT_REDIRECTION = 25, "port redirection";
    INVALID_PATH_MTU = 26, "invalid path MTU";
    INSUFFICIENT_RESPONDER_RESOURCES = 27, "insufficient responder resources";
    CONSUMER = 28, "consumer reject";
    RNR_RETRY_COUNT = 29, "RNR retry count reject";
    DUPLICATE_LOCAL_COMMUNICATION_ID = 30, "duplicate local communication ID";
    INVALID_CLASS_VERSION = 31, "invalid class version";
    INVALID_PRIMARY_FLOW_LABEL = 32, "invalid primary flow label";
    INVALID_ALTERNATE_FLOW_LABEL = 33, "invalid alternate flow label";
    VENDOR_OPTION_NOT_SUPPORTED = 35, "vendor option not supported";
}

impl fmt::Display for RejectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} ({})", self.0),
            None => write!(f, "reason {}", self.0),
        }
    }
}
