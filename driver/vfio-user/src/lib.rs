//! The vfio-user protocol: a PCI device that another process offers over a UNIX socket.
//!
//! [`Server`] offers a [`Device`]; [`Client`] uses a device of any server. Both negotiate their
//! capabilities, pass file descriptors for mappable memory and for interrupts, and carry memory
//! accesses of the device as messages where there is no file descriptor.
//!
//! Messages of the peer are not trusted: each is answered, with an errno if it cannot be executed,
//! and all waiting, queueing and allocation has a limit in [`limit`].
//!
//! The normative text is QEMU's `docs/interop/vfio-user.rst`; constants shared with VFIO are in the
//! kernel's `include/uapi/linux/vfio.h`.
#![forbid(unsafe_code)]

mod admission;
pub mod capabilities;
pub mod client;
pub mod device;
pub mod dma;
pub mod error;
#[doc(hidden)]
pub mod fuzz;
pub mod irq;
pub mod limit;
mod message;
mod queue;
pub mod region;
mod requester;
pub mod server;
mod session;
mod socket;
pub mod stop;

pub use capabilities::{Capabilities, ProcessMemory};
pub use client::{Client, ClientBacking, ClientMemory, ClientOptions};
pub use device::{Device, DeviceInfo};
pub use dma::{DmaBacking, DmaMap, DmaMessages, DmaRange};
pub use error::{ConnectError, Errno, RequestError};
pub use irq::{IrqAction, IrqInfo};
pub use region::{RegionInfo, RegionMmap};
pub use server::{Server, ServerOptions, serve_connection};
pub use socket::Timeouts;
pub use stop::Stop;
