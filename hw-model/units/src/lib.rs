//! Basics of every simulation: time, which is always an argument and never read from a clock;
//! seeded random numbers; and a heap of due times.

mod clock;
pub mod heap;
pub mod random;
mod time;

pub use clock::ClockDomain;
pub use time::{Duration, Instant};
