//! Programs as they are, in simulated time.
//!
//! In the process of the world, [`server`] starts everything: `door` is the control socket,
//! `program` who has come through it, `card` what is served to a program, `conductor` lets the
//! world go on, `remote_thread` makes threads of programs threads of the world, `streams` says
//! when they can read what others have written, and `stall` finds out why one does not come back.

mod card;
mod conductor;
pub mod control;
mod door;
mod program;
mod remote_thread;
pub mod server;
mod shared;
mod stall;
mod streams;

pub use server::TimedWorld;
