//! Everything around the NIC model: the fabric between processes, the in-process bus, captures.
//!
//! - [`function`]: one process's NIC function, ready for a driver. Made of
//!   [`in_process`] (the bus, and the model that runs in the application's threads), [`doorbells`]
//!   (BAR2), [`memory`] (DMA), [`pinned`] (memory that the program takes away), [`interrupts`], [`polling`] (empty polls), and [`background`] (the
//!   thread for applications that do not poll).
//! - [`fabric`]: who is there on this machine ([`fabric::registry`]), shared-memory rings between
//!   them ([`fabric::ring`]), and the cable that the model sees ([`fabric::port`]).
//! - [`uplink`]: wires that lead out of the fabric: taps, QEMU's sockets, UDP, captures.
//! - [`serve`]: functions for other processes, over vfio-user.
//! - [`perf`]: perftest's loops in simulated time.
//! - [`trace`]: where the time of an operation goes, waveforms and captures in simulated time.
//! - [`world`]: hosts, NICs and what is between them in simulated time, in one thread.
//! - [`mod@reference`]: measured tables that the model is compared with. [`report`]: plots of both.
//!   [`validate`]: what the model must show, and whether it does.
//! - [`selftest`]: the staged check of a device on any bus. [`registers`]: its registers by name.
//! - [`devices`]: which NICs a program has. [`host`]: name and addresses. [`neighbours`]: who has an
//!   address. [`capture`]: pcapng. [`clock`]: real time for the model.
//! - The command `ferroce` is in `main.rs` and `cli`.
//!
//! `unsafe` is in [`memory`], [`shared_memory`] and [`os`] only.

pub mod background;
pub mod capture;
pub mod clock;
pub mod devices;
pub mod doorbells;
pub mod error;
pub mod fabric;
pub mod fork;
pub mod function;
pub mod host;
pub mod in_process;
pub mod interrupts;
mod mapping;
pub mod memory;
pub mod neighbours;
pub mod os;
pub mod perf;
pub mod perftest;
pub mod pinned;
pub mod polling;
pub mod random_keys;
pub mod reference;
pub mod registers;
pub mod report;
pub mod selftest;
pub mod serve;
pub mod shared_memory;
#[cfg(test)]
mod test_support;
pub mod timed;
pub mod trace;
pub mod uplink;
pub mod validate;
pub mod world;

pub use error::Error;
pub use fabric::directory::{runtime_directory, socket_path};
