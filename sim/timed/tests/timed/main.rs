//! Worlds of programs. One program: the crate is compiled once for all.

mod timed_support;

mod cm;
mod programs;
