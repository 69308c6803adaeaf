//! `ferroce perf`: perftest's loops on simulated hosts, in one process and in simulated time.
//!
//! - [`spec`]: the specification of a measurement. [`plan`]: one message size of it, with
//!   perftest's choice for everything that is not specified.
//! - [`setup`]: hosts, queue pairs and memory, made of [`side`] (the resources of a thread),
//!   [`region`], [`buffer`] and [`connect`].
//! - [`workload`]: the loops, as simulated threads. [`processor`]: the simulated processor that
//!   runs each. [`calls`]: the driver calls that they make, with the costs of
//!   [`ferroce_model::preset::costs`]. [`queue`]: the CQs that they poll or sleep on. [`lock`]: the
//!   cost of sharing a QP, a CQ or a doorbell.
//! - [`runner`]: runs one size. [`sweep`]: runs many specifications at once, on all processors.
//! - [`options`]: options as text, as a command line has them. [`explained`]: the time of one
//!   message.
//! - [`pattern`]: which hosts send to which. [`traffic`]: how these flows share a fabric.
//! - [`utilisation`]: how much of the time each part was in use, and which one limits the figure.
//! - [`sensitivity`]: which parameters change a figure.
//! - [`statistics`]: figures from exact samples, computed as perftest computes them. [`table`]:
//!   perftest's columns. [`json`]: everything, in stable order; [`csv`]: a line for each row.
//! - [`json_text`]: JSON as text. [`number_text`]: numbers for people.

pub mod buffer;
pub mod calls;
pub mod connect;
pub mod course;
pub mod csv;
pub mod error;
pub mod explained;
pub mod json;
pub mod json_text;
pub mod lock;
pub mod number_text;
pub mod options;
pub mod pattern;
pub mod plan;
pub mod processor;
pub mod queue;
pub mod region;
pub mod result;
pub mod runner;
pub mod sensitivity;
pub mod setup;
pub mod side;
pub mod spec;
pub mod statistics;
pub mod sweep;
pub mod table;
pub mod timeline;
pub mod traffic;
pub mod utilisation;
pub mod workload;

pub use error::Error;
pub use result::{BandwidthRow, LatencyRow, PerfResult, PerfRow};
pub use spec::{
    Atomics, Iterations, Location, Operation, PageSize, PerfSpec, Placement, Service, Sharing,
    Test, Topology, Workload,
};

#[cfg(test)]
mod tests;

use std::sync::atomic::AtomicBool;

/// Measures `spec`, one size after the other.
///
/// # Errors
/// Any [`Error`].
pub fn run(spec: &PerfSpec) -> Result<PerfResult, Error> {
    let stop = AtomicBool::new(false);
    let rows = spec
        .sizes
        .iter()
        .map(|&size| runner::run(spec, size, &stop, None));
    Ok(PerfResult {
        rows: rows.collect::<Result<_, _>>()?,
    })
}
