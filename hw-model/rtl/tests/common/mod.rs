//! Code that tests of several modules share.

#![allow(
    dead_code,
    unused_imports,
    unused_macros,
    reason = "each test uses a part of it"
)]

pub mod frames;
pub mod host;
pub mod lines;
pub mod memory;
pub mod packets;
pub mod pieces;
