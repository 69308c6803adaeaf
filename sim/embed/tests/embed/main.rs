//! Functions in this process and in others. One program: the crate is compiled once for all.

#[path = "../common/mod.rs"]
mod common;

mod driver_and_model;
mod gsi;
mod multicast;
mod processes;
