//! Units of simulation: time, always an argument and never read from a clock, and numbers that a
//! seed fixes.

pub mod random;
mod time;

pub use time::{Duration, Instant};
