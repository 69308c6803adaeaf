//! What tests of several modules share.

#![allow(dead_code, reason = "each test uses a part of it")]

pub mod frames;
pub mod host;
pub mod memory;
pub mod packed;
