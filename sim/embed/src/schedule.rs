//! Decides when the model runs, which thread runs it, and which threads sleep: see the tables in
//! `schedule/README.md`.
//!
//! [`policy`] decides. The program's threads (`in_process/bus.rs`, `in_process/waiting.rs`) and the
//! background thread (`background.rs`) execute its decisions. [`tunables`] has the numbers,
//! [`calls`] the state learned from the program's calls, and [`shared`] the words with which
//! processes wake each other.

pub mod calls;
pub mod policy;
pub mod shared;
#[cfg(all(test, not(loom)))]
mod simulation;
pub mod tunables;
