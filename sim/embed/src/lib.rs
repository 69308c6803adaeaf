//! The NIC inside a process: the model that runs in the application's threads, and the fabric that
//! connects the processes of a machine.
//!
//! - [`function`]: the NIC function of a process, ready for a driver. It consists of [`in_process`]
//!   (the bus, the model, and memory that the program unmaps) and [`background`] (the thread for
//!   applications that do not poll). [`schedule`] decides when the model runs, and on which thread.
//! - [`fabric`]: the functions on this machine ([`fabric::registry`]), and the shared-memory rings
//!   between them ([`fabric::ring`]). [`port`]: the cable of a model.
//! - [`uplink`]: wires that lead out of the fabric: taps, QEMU's sockets, UDP, captures.
//! - [`devices`]: the NICs of a program. [`identities`]: their names and addresses.
//!   [`neighbours`]: resolution of addresses. [`capture`]: frames of this process in a file.
//!   [`clock`]: real time for the model. [`cycles`]: clock cycles of cards in RTL.
//! - [`faults`]: plans of packet faults. [`counters`]: counters of the devices of this process.
//!   [`dma_buf`]: files that count as dma-bufs.
//! - [`address`]: names of devices. [`mod@open`]: opens those that are not in this process.
//!   [`attached`]: devices that another crate opens instead.

pub mod address;
pub mod attached;
pub mod background;
pub mod capture;
pub mod clock;
pub mod counters;
pub mod cycles;
pub mod devices;
pub mod dma_buf;
pub mod error;
pub mod fabric;
pub mod faults;
pub mod function;
pub mod identities;
pub mod in_process;
pub mod neighbours;
pub mod open;
pub mod personality;
pub mod port;
pub mod queue_pairs;
pub mod random_keys;
pub mod recovery;
pub mod relaxed_order;
pub mod schedule;
pub mod uplink;

pub use error::Error;
pub use fabric::directory::{runtime_directory, socket_path};
