//! The driver in front of a fake device that keeps the contract and moves no data. One program: the
//! driver is compiled once for all of them.

#[path = "../support/mod.rs"]
mod support;

mod completions;
mod events;
mod golden;
mod health;
mod memory;
mod objects;
mod push;
mod resize;
mod shared;
mod transitions;
mod versions;
mod wqe;
