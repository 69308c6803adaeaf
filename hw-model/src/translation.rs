//! Keys and addresses: what a packet or a WQE may reach, and where it is.
//!
//! - [`mpt`]: memory protection table. [`mtt`]: memory translation table. [`protection`]: why an
//!   access is refused.
//! - [`memory_unit`]: both tables, and what goes through them: accesses, atomics, memory windows.

pub mod memory_unit;
pub mod mpt;
pub mod mtt;
pub mod protection;
