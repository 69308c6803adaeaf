//! A verbs program in Rust: thin handles over the public C ABI, as it was on Debian 12. The
//! conformance suite in `tests/` is written with it, one file per object.
//!
//! It uses nothing of Ferroce but the command that runs it. It passes keys, addresses and numbers
//! on unchecked, because the device has to check them. Handles keep their parents alive and are
//! destroyed once.

pub mod address;
pub mod bench;
pub mod context;
pub mod cq;
pub mod harness;
pub mod memory;
pub mod object;
pub mod qp;
pub mod srq;
pub mod sys;
pub mod work_request;
