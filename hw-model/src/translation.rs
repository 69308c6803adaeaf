//! Keys and addresses: what a packet or a WQE may reach, and where it is.
//!
//! - [`mpt`]: memory protection table. [`mtt`]: memory translation table. [`window`]: memory
//!   windows.
//!   [`cache`]: the cache in front of each table.
//! - [`memory_unit`]: all of them together. `responder_memory`: what packets ask of them.
//!   [`atomic`]: AtomicOps. [`protection`]: why an access is refused.

pub mod atomic;
pub mod cache;
pub mod memory_unit;
pub mod mpt;
pub mod mtt;
pub mod protection;
pub(crate) mod responder_memory;
pub mod window;
