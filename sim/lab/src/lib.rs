//! Experiments in simulated time, and what is measured elsewhere.
//!
//! - [`perf`]: perftest's loops. [`perftest`]: the real program's figures.
//! - [`mod@reference`]: measured tables that the model is compared with.
//! - [`validate`]: what the model must show, and whether it does. [`report`]: plots of both.

pub mod perf;
pub mod perftest;
pub mod reference;
pub mod report;
pub mod validate;
