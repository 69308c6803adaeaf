//! Experiments in simulated time, and published measurements to compare them with.
//!
//! - [`perf`]: perftest's loops. [`perftest`]: the real program's figures.
//! - [`mod@reference`]: measured tables that the model is compared with.
//! - [`calibrate`]: the host's cost of a post, from a measured table.
//! - [`faulty_link`]: what loss and reordering cost. [`resends`]: when a request is sent again.
//!   [`incast`]: how hosts that all send to one share its cable.
//! - [`validate`]: targets of the model, and whether it meets them. [`report`]: plots of both.
//!   [`cache`]: each experiment runs once.

pub mod cache;
pub mod calibrate;
pub mod faulty_link;
pub mod incast;
mod number_text;
pub mod perf;
pub mod perftest;
pub mod reference;
pub mod report;
pub mod resends;
pub mod validate;
