//! Basics of every simulation: time, which is always an argument and never read from a clock;
//! seeded random numbers; a heap of due times; and shorter lists that still fail.

mod clock;
pub mod heap;
pub mod random;
pub mod shrink;
mod time;

pub use clock::ClockDomain;
pub use time::{Duration, Instant};
