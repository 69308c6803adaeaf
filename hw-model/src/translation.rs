//! Keys and addresses: the memory that a packet or a WQE may access, and its location.
//!
//! - [`mpt`]: memory protection table. [`mtt`]: memory translation table. [`protection`]: reasons
//!   why an access is refused.
//! - [`page_faults`]: pages of on-demand regions that software has still to bring in.
//! - [`memory_unit`]: both tables, and the accesses through them: data, atomics, memory windows.

pub mod memory_unit;
pub mod mpt;
pub mod mtt;
pub mod page_faults;
pub mod protection;
