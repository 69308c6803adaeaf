//! The cost of work, and when its results arrive.
//!
//! - [`edge`]: bounded queues between blocks. [`timing`]: the table of costs. [`registers`]: limits
//!   of concurrency. `turn`: state that all blocks share while they step.

pub mod edge;
pub mod registers;
pub mod timing;
pub(crate) mod turn;
