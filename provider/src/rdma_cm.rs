//! RDMA CM: the device file `/dev/infiniband/rdma_cm` of the kernel, in this process.
//!
//! The distribution's librdmacm opens the file, writes commands to it and polls it.
//! `ffi/interpose.rs` takes the calls, [`channel`] finds the channel of a descriptor, and the
//! [`agent`] of the process executes the command: `ferroce_rdma_cm` does what the kernel's modules
//! do, over QP 1 of each device ([`gsi`]).

mod agent;
pub mod channel;
mod gsi;
mod host;
mod report;
mod timer;

/// The path of the device file.
pub const DEVICE_FILE: &[u8] = b"/dev/infiniband/rdma_cm";

/// Version of its commands.
pub const ABI_VERSION: u32 = 4;

/// Its device number: major 10 is that of misc devices, which share a dynamic range of minors.
pub const DEVICE_NUMBER: (u32, u32) = (10, 58);
