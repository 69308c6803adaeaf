//! Random programs of a seed in simulated worlds.

mod check;
mod error;
mod events;
mod fault_plan;
mod flow;
mod host;
mod layout;
mod levels;
mod link;
mod memory;
mod program;
mod run;
mod scenario;
mod shrink;
mod state;

pub use run::{Failure, Report, run};
pub use scenario::{Mix, Scenario, ScenarioError};
pub use shrink::{Shrunk, shrink};
pub use state::Results;
