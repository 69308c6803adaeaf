//! The limits of everything that the peer could make grow.

use std::time::Duration;

/// Most file descriptors in one message that this side takes.
pub const MESSAGE_FDS_MAX: usize = 16;

/// Most bytes of data in one access that this side takes, as it says in its capabilities.
pub const DATA_TRANSFER_SIZE_MAX: usize = 1024 * 1024;

/// Longest message that this side takes: the longest access and the fields in front of it.
///
/// A header that says more ends the connection, because there is no end to wait for.
pub const MESSAGE_SIZE_MAX: usize = DATA_TRANSFER_SIZE_MAX + 4096;

/// Longest access by a DMA message that this side sends, whatever the client allows.
///
/// QEMU 11.1 says 1 MiB, but never answers one of 256 KiB.
pub const DMA_MESSAGE_SIZE_MAX: usize = 64 * 1024;

/// How long a request waits for its reply: what QEMU waits.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
