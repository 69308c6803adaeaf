//! Linux interfaces that the driver's buses use.
//!
//! - [`buffer_memory`]: memory for the driver's buffers. [`huge_page`]: page sizes of the
//!   application's memory. [`memfd`], [`shared_mapping`]: files that two processes map.
//!   [`doorbell_pages`]: such a file, or a mapped BAR.
//! - [`eventfds`]: interrupts. [`clock`], [`idle`]: time, and waiting.
//! - [`fork`]: keeps children from the device. [`peer`]: the process at the other end of a socket.
#![expect(unsafe_code, reason = "system calls, and views of mapped memory")]

pub mod buffer_memory;
pub mod clock;
pub mod doorbell_pages;
pub mod eventfds;
pub mod fork;
pub mod huge_page;
pub mod idle;
pub mod memfd;
pub mod peer;
pub mod shared_mapping;
