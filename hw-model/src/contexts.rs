//! State of objects that software has created, cached from its tables in host memory.
//!
//! - [`queue_pair`], [`work_queue`], [`path`]: QPC. [`shared_receive_queue`]: SRQC.
//!   [`completion_queue`], [`completion_resize`], `cqe_builder`: CQC, and the CQEs written to it.
//! - [`timers`]: retransmission timers. [`numbering`]: which number a new object gets.

pub mod completion_queue;
pub mod completion_resize;
pub(crate) mod cqe_builder;
pub mod numbering;
pub mod path;
pub mod queue_pair;
pub mod shared_receive_queue;
pub mod timers;
pub mod work_queue;
