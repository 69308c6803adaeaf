//! What work costs, and when its results arrive.
//!
//! - [`edge`]: bounded queues between blocks. [`timing`]: the table of costs.

pub mod edge;
pub mod timing;
