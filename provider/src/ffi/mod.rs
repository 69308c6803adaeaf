//! What C sees: the only unsafe code and the only C names of the crate.
//!
//! Rules of the boundary:
//! - Every entry checks, converts, calls safe code, and turns the result into the convention of its
//!   verb ([`boundary`]). A panic ends there as `EIO`.
//! - A pointer from the program is either null, which is refused, or what this library gave it
//!   ([`handle`]). The verbs contract forbids anything else, and nothing else can be checked.
//! - Calls that block are plain frames around one system call, with no lock held and nothing to
//!   drop, because a thread may be cancelled in them ([`blocking`]).
//! - Nothing runs and nothing is opened before the program calls: children of the program inherit
//!   the preload.

pub mod abi;

mod blocking;
mod boundary;
mod descriptor;
pub(crate) mod event_fd;
mod exports;
mod fork;
mod handle;
mod interpose;
mod kernel_copy;
mod memory;
mod objects;
mod ops;
mod pinned;
mod poll_api;
mod request;
mod send_api;
mod work_request;

pub(crate) use descriptor::FileIdentity;
pub(crate) use fork::{Generation, ProcessLock};
pub(crate) use memory::populate;
