//! Everything around the NIC model: the fabric between processes, the in-process bus, captures.
//!

//! - [`fabric`]: who is there on this machine, and shared-memory rings between them.
//! - [`clock`]: real time for the model.

pub mod capture;
pub mod clock;
pub mod error;
pub mod fabric;
pub mod fork;
pub mod memory;
pub mod os;
pub mod shared_memory;
#[cfg(test)]
mod test_support;

pub use error::Error;
pub use fabric::directory::runtime_directory;
