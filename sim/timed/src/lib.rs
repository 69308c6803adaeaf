//! Unmodified programs in simulated time: the world's side.
//!
//! [`server`] starts everything: `listener` is the control socket, `program` a joined program,
//! `processes` its process, `card` the device served to a program, `conductor` advances the world,
//! `remote_thread` makes threads of programs threads of the world, `cm_agent` is RDMA CM of the
//! hosts, `streams` determines when data on a stream can be read, `addresses` has the threads that
//! wait for one another, and `stall` finds out why a thread does not pass its turn.
//! [`persistent_file`] opens a file as persistent memory of a host.

mod addresses;
mod card;
mod cm_agent;
mod conductor;
pub mod control;
mod listener;
pub mod persistent_file;
mod processes;
mod program;
mod remote_thread;
pub mod server;
mod shared;
mod stall;
mod streams;

pub use ferroce_timed_protocol::trust::STRICT;
pub use ferroce_timed_protocol::{MAX_PROGRAMS, host_name};
pub use server::{Lifetime, TimedWorld};
