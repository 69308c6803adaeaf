//! Programs as they are, in simulated time.
//!
//! In the program, [`library`] is what keeps its time, [`membership`] its place in a world, [`bus`]
//! the way to its card, and [`processor`] what its calls cost.

pub mod bus;
pub mod control;
pub mod library;
pub mod membership;
pub mod processor;

pub use membership::Membership;
