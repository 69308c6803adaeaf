//! When the model runs, who runs it, and who sleeps: see the table in `schedule/README.md`.
//!
//! [`policy`] decides; [`poller`] and [`background`] do it, on the program's threads and on the
//! background thread; [`tunables`] has the numbers, and [`shared`] the words by which processes wake
//! each other.

pub mod background;
pub mod policy;
pub mod poller;
pub mod shared;
pub mod tunables;

#[cfg(all(test, not(loom)))]
mod simulation;
