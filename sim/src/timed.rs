//! Programs as they are, in simulated time.
//!
//! In the program, [`library`] is what keeps its time, [`membership`] its place in a world, [`bus`]
//! the way to its card, and [`processor`] what its calls cost.
//!
//! In the process of the world, [`server`] starts everything: `door` is the control socket,
//! `program` who has come through it, `card` what is served to a program, `conductor` lets the
//! world go on, `remote_thread` makes threads of programs threads of the world, `streams` says
//! when they can read what others have written, and `stall` finds out why one does not come back.

pub mod bus;
mod card;
mod conductor;
pub mod control;
mod door;
pub mod library;
pub mod membership;
pub mod processor;
mod program;
mod remote_thread;
pub mod server;
mod shared;
mod stall;
mod streams;

pub use membership::Membership;
pub use server::TimedWorld;
