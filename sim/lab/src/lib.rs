//! Published measurements, and the experiments of `ferroce_perf` that are compared with them.
//!
//! - [`perftest`]: the experiments with the real program.
//! - [`mod@reference`]: measured tables that the model is compared with.
//! - [`calibrate`]: the host's cost of a post, from a measured table.
//! - [`faulty_link`]: the cost of loss and reordering. [`resends`]: retransmission timers.
//!   [`dead_peer`]: time until a request without an answer fails.
//!   [`incast`]: several hosts that send to one.
//! - [`validate`]: targets of the model, and whether it meets them. [`report`]: plots of both.
//!   [`cache`]: runs each experiment only once.

pub mod cache;
pub mod calibrate;
pub mod dead_peer;
pub mod faulty_link;
pub mod incast;
pub mod perftest;
pub mod reference;
pub mod report;
pub mod resends;
pub mod validate;
