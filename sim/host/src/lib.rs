//! The host's side of a modelled card, without an operating system.
//!
//! - [`memory`]: memory as the device accesses it by DMA. [`mapping`]: checks of a bus before a
//!   mapping. [`interrupts`]: from the thread of the model to handlers.
//! - [`identity`]: name and addresses of a host. [`numbered_hosts`]: those of a host with only a
//!   number.
//! - [`prefetch`]: of the processor's cache.
//!
//! `unsafe` is in [`memory`] and [`prefetch`] only.

pub mod identity;
pub mod interrupts;
pub mod mapping;
pub mod memory;
pub mod numbered_hosts;
pub mod prefetch;
