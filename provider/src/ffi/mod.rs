//! The C interface: the only unsafe code and the only C names of the crate.
//!
//! Rules of the boundary:
//! - Every entry checks, converts, calls safe code, and converts the result to the convention of
//!   its verb ([`boundary`]). A panic ends there as `EIO`.
//! - A pointer from the program is either null, which is refused, or one that this library returned
//!   ([`handle`]). The verbs contract forbids any other pointer, and no other check is possible.
//! - Calls that block are plain frames around one system call, with no lock held and nothing to
//!   drop, because a thread may be cancelled in them ([`blocking`]).
//! - No code runs and no file is opened before the program calls: children of the program inherit
//!   the preload.

mod blocking;
mod boundary;
mod exports;
mod handle;
mod interpose;
mod kernel_copy;
mod live_file;
mod loading;
mod netlink;
mod next;
mod objects;
mod pinned;
mod poll_api;
mod rdma_cm;
mod request;
mod send_api;
mod work_request;
