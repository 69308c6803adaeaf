//! Events that user space reads.

use crate::abi;

// `enum rdma_cm_event_type`
pub(crate) const ADDR_RESOLVED: u32 = 0;
pub(crate) const ADDR_ERROR: u32 = 1;
pub(crate) const ROUTE_RESOLVED: u32 = 2;
pub(crate) const CONNECT_REQUEST: u32 = 4;
pub(crate) const CONNECT_RESPONSE: u32 = 5;
pub(crate) const UNREACHABLE: u32 = 7;
pub(crate) const REJECTED: u32 = 8;
pub(crate) const ESTABLISHED: u32 = 9;
pub(crate) const DISCONNECTED: u32 = 10;
pub(crate) const DEVICE_REMOVAL: u32 = 11;
pub(crate) const MULTICAST_JOIN: u32 = 12;
pub(crate) const TIMEWAIT_EXIT: u32 = 15;
pub(crate) const USER: u32 = 18;
pub(crate) const INTERNAL: u32 = 19;

/// An event that waits to be read.
#[derive(Debug)]
pub(crate) struct Event {
    /// The id that counts the event: for a request, the listener.
    pub(crate) owner: u32,
    pub(crate) multicast: Option<u32>,
    /// The id of a request.
    pub(crate) request: Option<u32>,
    pub(crate) response: Box<abi::EventResponse>,
}
