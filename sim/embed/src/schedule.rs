//! When the model runs, who runs it, and who sleeps: see the tables in `schedule/README.md`.
//!
//! [`policy`] decides. The program's threads (`in_process/bus.rs`, `in_process/waiting.rs`) and the
//! background thread (`background.rs`) do what it says. [`tunables`] has the numbers, [`calls`]
//! what the program has called, and [`shared`] the words by which processes wake each other.

pub mod calls;
pub mod policy;
pub mod shared;
#[cfg(all(test, not(loom)))]
mod simulation;
pub mod tunables;
