//! Experiments in simulated time, and published measurements to compare them with.
//!
//! - [`perf`]: perftest's loops. [`perftest`]: the real program's figures.
//! - [`mod@reference`]: measured tables that the model is compared with.
//! - [`validate`]: targets of the model, and whether it meets them. [`report`]: plots of both.

pub mod perf;
pub mod perftest;
pub mod reference;
pub mod report;
pub mod validate;
