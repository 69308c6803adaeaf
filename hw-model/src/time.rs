//! What work costs, and when its results arrive.
//!
//! - [`edge`]: bounded queues between blocks. [`timing`]: the table of costs. `turn`: what all
//!   blocks share while they step.

pub mod edge;
pub mod timing;
pub(crate) mod turn;
