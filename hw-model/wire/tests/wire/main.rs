//! Frames and messages. One program: the crate is compiled once for all.

mod common;

mod cm;
mod golden;
mod properties;
mod recovery;
mod refusals;
mod vectors;
