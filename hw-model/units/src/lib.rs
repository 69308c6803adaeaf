//! Basics of every simulation: time, always an argument and never read from a clock; numbers that a
//! seed fixes; and a heap of what is due.

mod clock;
pub mod heap;
pub mod random;
mod time;

pub use clock::ClockDomain;
pub use time::{Duration, Instant};
