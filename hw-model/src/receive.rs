//! From a frame to the processing unit of its queue pair.
//!
//! - `ingress`: the way of a frame. [`depacketizer`]: its headers. [`multicast`], [`datagram`]:
//!   what
//!   multicast groups and datagrams need besides.

pub mod datagram;
pub mod depacketizer;
pub(crate) mod ingress;
pub mod multicast;
