//! Machines with a function of either kind, and the minimal software that drives it by the
//! contract. This code does not depend on the kind.

#![allow(dead_code, reason = "each test uses a part of it")]

pub mod cable;
pub mod device;
pub mod host;
pub mod machine;
pub mod pair;
pub mod queues;
