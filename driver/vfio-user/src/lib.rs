//! The vfio-user protocol: a PCI device that another process offers over a UNIX socket.
//!
//! [`Server`] offers what implements [`Device`]; [`Client`] uses such a device, whoever offers it.
//! Both negotiate what they may ask of each other, pass file descriptors for memory that can be
//! mapped and for interrupts, and carry memory accesses of the device as messages where there is
//! no file descriptor.
//!
//! Nothing that the peer sends is trusted: each message is answered, with an errno where it cannot
//! be obeyed, and everything that waits, queues or allocates has a limit in [`limit`].
//!
//! The normative text is QEMU's `docs/interop/vfio-user.rst`; constants shared with VFIO stand in
//! the kernel's `include/uapi/linux/vfio.h`.
#![forbid(unsafe_code)]

pub mod capabilities;
pub mod client;
pub mod device;
pub mod dma;
mod door;
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
pub use socket::Patience;
pub use stop::Stop;
