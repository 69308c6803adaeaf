//! The seeded world: random verbs programs on simulated hosts with packet faults, checked against a
//! plain model of memory.
//!
//! ```text
//!  seed or TOML file ─► Scenario ─► Program: connections, operations ─► hosts of a World
//!                                      │                                   │
//!                                      └──► reference: Flow, check ◄───────┘ completions, memory
//! ```
//!
//! [`run()`] executes a [`Scenario`] in rounds. In a round each host executes its operations one
//! after the other; each completion is checked when it is polled. When all requests are complete
//! and nothing is in flight, memory must be in a state that the IBTA permits, and all queues,
//! credits and buffers of the cards must be free. Failed connections are reconnected for the next
//! round.
//!
//! The same scenario gives the same events. [`shrink()`] shortens a failing one, [`run_many`] runs
//! many.

mod check;
mod error;
mod events;
mod fault_plan;
mod flow;
mod host;
mod layout;
mod levels;
mod link;
mod many;
mod memory;
mod program;
mod run;
mod scenario;
mod shrink;
mod state;

pub use many::{Summary, run_each, run_many};
pub use run::{Failure, Report, run};
pub use scenario::{Mix, Scenario, ScenarioError};
pub use shrink::{Shrunk, shrink};
pub use state::Results;
