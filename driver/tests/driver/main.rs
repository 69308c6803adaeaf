//! The driver with a fake device that keeps the contract and moves no data. All tests are one
//! program, so that the driver is linked once.

#[path = "../support/mod.rs"]
mod support;

mod completions;
mod events;
mod golden;
mod health;
mod memory;
mod objects;
mod on_demand;
mod push;
mod resize;
mod shared;
mod transitions;
mod versions;
mod wqe;
