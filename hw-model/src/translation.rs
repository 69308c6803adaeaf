//! Keys and addresses: what a packet or a WQE may reach, and where it is.
//!
//! - [`mpt`]: memory protection table. [`mtt`]: memory translation table. [`window`]: memory
//!   windows.
//! - [`memory_unit`]: all of them together. [`atomic`]: AtomicOps. [`protection`]: why an access is
//!   refused.

pub mod atomic;
pub mod memory_unit;
pub mod mpt;
pub mod mtt;
pub mod protection;
pub mod window;
