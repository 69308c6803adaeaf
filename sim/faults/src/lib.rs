//! Packet faults: loss, duplication, corruption, delay, reordering, failed links, partitions. And
//! situations of programs and their devices at given times ([`Situation`]).
//!
//! A [`Plan`] lists the faults; an [`Engine`] decides the fate of each frame. The decision depends
//! on the content of the packet, not on time or on the order of other packets: on the seed of the
//! plan, the fault, the number of the flow, the distance of the PSN from the first PSN of the flow,
//! and the number of earlier transmissions of this PSN. QPNs and first PSNs are random in each run;
//! the same program with other numbers meets the same faults.
//!
//! There is no clock, thread or I/O in this crate. The caller executes the [`Verdict`].

#![forbid(unsafe_code)]

mod agenda;
mod chance;
mod corrupt;
mod counters;
mod engine;
mod flow;
mod held;
mod packet;
mod plan;
mod process;
mod verdict;

pub use agenda::{Agenda, DueStep};
pub use corrupt::{Corruption, corrupt, write_icrc};
pub use counters::{FaultCounter, FaultCounters};
pub use engine::{Engine, MAX_LOOK_AHEAD, Run};
pub use flow::{MAX_FLOWS, MAX_HOST_PAIRS, SEEN_WINDOW};
pub use held::{Held, MAX_HELD};
pub use packet::{FlowKey, Packet, PacketClass};
pub use plan::error::PlanError;
pub use plan::situation::{Lasting, Onset, OnsetError, Situation, Step, TEARDOWN, Teardown};
pub use plan::{Cause, Fault, Kind, MAX_EXPRESSION, MAX_FAULTS, MAX_PATHS, MAX_RANGES, Plan};
pub use plan::{Selector, When};
pub use verdict::Verdict;
