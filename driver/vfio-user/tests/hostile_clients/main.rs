//! Hostile clients and clients that die: their server keeps no file descriptors of theirs. Its own
//! program: it counts the file descriptors of the process.

#[path = "../common/mod.rs"]
mod common;

mod killed;
mod messages;
