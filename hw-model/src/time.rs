//! What work costs, and when its results arrive.
//!
//! - [`edge`]: bounded queues between blocks. [`timing`]: the table of costs. [`registers`]: what
//!   may be under way at once. `turn`: what all blocks share while they step.

pub mod edge;
pub mod registers;
pub mod timing;
pub(crate) mod turn;
