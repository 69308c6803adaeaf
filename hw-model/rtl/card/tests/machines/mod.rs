//! Machines with a function of either kind, and just enough software to drive it by the contract
//! alone. Nothing here knows which kind it is.

#![allow(dead_code, reason = "each test uses a part of it")]

pub mod cable;
pub mod device;
pub mod host;
pub mod machine;
pub mod pair;
pub mod queues;
