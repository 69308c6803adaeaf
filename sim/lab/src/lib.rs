//! Experiments in simulated time, and published measurements to compare them with.
//!
//! - [`perf`]: perftest's loops. [`perftest`]: figures of the real program.
//! - [`mod@reference`]: measured tables that the model is compared with.
//! - [`calibrate`]: the host's cost of a post, from a measured table.
//! - [`faulty_link`]: the cost of loss and reordering. [`resends`]: retransmission timers.
//!   [`incast`]: several hosts that send to one.
//! - [`validate`]: targets of the model, and whether it meets them. [`report`]: plots of both.
//!   [`cache`]: runs each experiment only once. [`json_text`]: results for programs.

pub mod cache;
pub mod calibrate;
pub mod faulty_link;
pub mod incast;
pub mod json_text;
mod number_text;
pub mod perf;
pub mod perftest;
pub mod reference;
pub mod report;
pub mod resends;
pub mod validate;
