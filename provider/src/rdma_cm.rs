//! RDMA CM: the device file `/dev/infiniband/rdma_cm` of the kernel, in this process.
//!
//! The distribution's librdmacm opens the file, writes commands to it and polls it.
//! `ffi/interpose` takes the calls, [`channel`] finds the channel of a descriptor, and the
//! [`agent`] of the process executes the command: `ferroce_rdma_cm` does what the kernel's modules
//! do, over QP 1 of each device ([`gsi`]). In simulated time the agent of the host does it, in the
//! world ([`world_agent`]).

use std::sync::Arc;

use ferroce_driver::bus::Slept;
use ferroce_rdma_cm::{ChannelId, Reply};

use crate::errno::Errno;
use crate::os::event_fd::EventFd;

mod agent;
mod announced;
pub mod channel;
mod gsi;
mod host;
mod report;
mod timer;
mod world_agent;

/// The path of the device file.
pub const DEVICE_FILE: &[u8] = b"/dev/infiniband/rdma_cm";

/// Version of its commands.
pub const ABI_VERSION: u32 = 4;

/// Its device number: misc devices have major 10 and share a dynamic range of minors.
pub const DEVICE_NUMBER: (u32, u32) = (10, 58);

/// A communication manager: what executes the commands of a channel.
pub trait Manager: Send + Sync {
    /// Returns true unless a parent of this process created it.
    fn is_current(&self) -> bool;

    /// Opens a channel whose events `fd` shows.
    ///
    /// # Errors
    /// `ENOMEM` if there are too many.
    fn open_channel(&self, fd: Arc<EventFd>) -> Result<ChannelId, Errno>;

    /// Closes a channel, and ends its connections.
    fn close_channel(&self, id: ChannelId);

    /// Executes a command.
    ///
    /// # Errors
    /// The errors of the kernel's device file; `EAGAIN` if GET_EVENT finds no event.
    fn command(&self, channel: ChannelId, bytes: &[u8], option: &[u8]) -> Result<Reply, Errno>;

    /// Executes MIGRATE_ID; `source` is the channel that has the id, or why there is none.
    ///
    /// # Errors
    /// The errors of the kernel's device file.
    fn migrate(
        &self,
        channel: ChannelId,
        bytes: &[u8],
        source: Result<ChannelId, ferroce_rdma_cm::Errno>,
    ) -> Result<Reply, Errno>;

    /// In simulated time, waits until an event can be read, or a signal ends the wait. `None`: the
    /// program runs in real time, and its descriptor shows events.
    fn sleep_until_event(&self, channel: ChannelId) -> Option<Slept>;
}
