//! Events for the caller.

use ferroce_wire::Gid;
use ferroce_wire::cm::{CommunicationId, IpCmHeader, RejectReason, Rep, Req, SidrRep, SidrReq};

use crate::command::{Ece, ListenerId};

/// An event of a listener, a connection or a service resolution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A REQ has arrived: [`Cm::accept`](crate::Cm::accept) or [`Cm::reject`](crate::Cm::reject).
    ConnectRequest {
        /// None if this side connects as well and the peer's request has precedence
        listener: Option<ListenerId>,
        /// The connection: a new one if `listener` is set
        id: CommunicationId,
        /// The peer's address
        from: Gid,
        /// The destination address of the request
        to: Gid,
        /// The message
        request: Box<Req>,
        /// Enhanced connection establishment
        ece: Ece,
        /// Addresses, with the RDMA IP CM service
        ip: Option<IpCmHeader>,
        /// Private data after the addresses
        private_data: Vec<u8>,
    },
    /// A REP has arrived: [`Cm::establish`](crate::Cm::establish) or
    /// [`Cm::reject`](crate::Cm::reject).
    ConnectResponse {
        /// The connection
        id: CommunicationId,
        /// The message
        response: Box<Rep>,
        /// Enhanced connection establishment
        ece: Ece,
    },
    /// A RTU has arrived: the passive side may send.
    Established {
        /// The connection
        id: CommunicationId,
        /// Private data of the RTU
        private_data: Vec<u8>,
    },
    /// The peer has refused the connection, or this side has refused its message.
    Rejected {
        /// The connection
        id: CommunicationId,
        /// Reason
        reason: RejectReason,
        /// Additional reject information
        additional_information: Vec<u8>,
        /// Private data of the peer
        private_data: Vec<u8>,
    },
    /// No answer after all retries.
    Unreachable {
        /// The connection or the service resolution
        id: CommunicationId,
    },
    /// An established connection has ended.
    Disconnected {
        /// The connection
        id: CommunicationId,
        /// True if the peer did not answer
        is_timeout: bool,
        /// Private data of the DREQ or DREP
        private_data: Vec<u8>,
    },
    /// The last event of a connection: its queue pair number may be reused.
    TimewaitExit {
        /// The connection
        id: CommunicationId,
    },
    /// A SIDR_REQ has arrived: [`Cm::respond`](crate::Cm::respond).
    SidrRequest {
        /// The listener
        listener: ListenerId,
        /// The resolution
        id: CommunicationId,
        /// The peer's address
        from: Gid,
        /// The destination address of the request
        to: Gid,
        /// The message
        request: Box<SidrReq>,
        /// Addresses, with the RDMA IP CM service
        ip: Option<IpCmHeader>,
        /// Private data after the addresses
        private_data: Vec<u8>,
    },
    /// A SIDR_REP has arrived: the last event of a resolution.
    SidrResponse {
        /// The resolution
        id: CommunicationId,
        /// The message
        response: Box<SidrRep>,
        /// Enhanced connection establishment
        ece: Ece,
    },
}
