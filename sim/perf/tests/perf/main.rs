//! Measurements of whole worlds. One program: the crate is compiled once for all.

mod trace_support;

mod congestion;
mod mechanisms;
mod trace;
