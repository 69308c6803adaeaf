//! A verbs program in Rust: thin handles over the public C ABI, as a program that was built on
//! Debian 12 sees it. The conformance suite in `tests/` is written with it, one file per object.
//!
//! It knows nothing of Ferroce but the command that it runs under; keys, addresses and numbers go
//! through unchecked, for judging them is the device's task. Handles keep their parents alive
//! and are destroyed once.

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
