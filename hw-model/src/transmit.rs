//! From a doorbell to a frame.
//!
//! - [`scheduler`]: which queue pair is next. `wqe_fetch`, [`wqe_cache`], [`wqe`]: its work queue
//!   elements.
//! - `local_operation`: those that need no packet. [`scatter_list`]: where their payload is.
//! - `egress`: turns of processing units, and packets into frames by [`packetizer`].

pub(crate) mod egress;
pub(crate) mod local_operation;
pub mod packetizer;
pub mod scatter_list;
pub mod scheduler;
pub mod wqe;
pub mod wqe_cache;
pub(crate) mod wqe_fetch;
