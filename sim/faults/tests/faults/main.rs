//! Packet faults. One program: the crate is compiled once for all.

mod faults_support;

mod engine;
mod plan;
