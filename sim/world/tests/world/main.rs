//! Simulated hosts. One program: the crate is compiled once for all.

#[path = "../../../../hw-model/transport/tests/captures/mod.rs"]
mod captures;
#[path = "../world_support/mod.rs"]
mod world_support;

mod fast_forward;
mod faults;
mod golden_loss;
mod hosts;
mod recovery;
