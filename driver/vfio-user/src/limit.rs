//! The limits of everything that the peer could make grow or wait.

use std::time::Duration;

/// Most file descriptors in one message that this side takes.
pub const MESSAGE_FDS_MAX: usize = 16;

/// Most bytes of data in one access that this side takes, as it says in its capabilities.
pub const DATA_TRANSFER_SIZE_MAX: usize = 1024 * 1024;

/// Longest message that this side takes: the longest access and the fields in front of it.
///
/// A header that says more ends the connection, because there is no end to wait for.
pub const MESSAGE_SIZE_MAX: usize = DATA_TRANSFER_SIZE_MAX + 4096;

/// Longest `VERSION` message that this side takes.
pub const VERSION_SIZE_MAX: usize = 4096;

/// Longest access by a DMA message that this side sends, whatever the client allows.
///
/// QEMU 11.1 says 1 MiB, but never answers one of 256 KiB.
pub const DMA_MESSAGE_SIZE_MAX: usize = 64 * 1024;

/// How long a request waits for its reply: what QEMU waits.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a DMA message waits for its reply. Shorter than [`REQUEST_TIMEOUT`], so that a client
/// whose register access waits for the DMA still gets an answer to it.
pub const DMA_MESSAGE_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a client may take until it has agreed on a version. Until then it keeps others out, and
/// the server knows nothing of it.
pub const AGREEMENT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a peer may take for the rest of a message, once it has begun.
pub const MESSAGE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a client that comes while another one is served may take to say its version.
pub const REFUSAL_TIMEOUT: Duration = Duration::from_secs(1);

/// How long the peer may leave its socket full before the connection ends.
pub const SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// Requests that nobody waits for any more, and whose replies may still come. With one more the
/// peer counts as gone.
pub const ABANDONED_REQUESTS_MAX: usize = 64;

/// Commands that wait to be executed. When there are more, the socket is not read.
pub const QUEUED_COMMANDS_MAX: usize = 256;

/// Bytes of the commands that wait to be executed, before one more is taken.
pub const QUEUED_BYTES_MAX: usize = 4 * DATA_TRANSFER_SIZE_MAX;

/// File descriptors of the commands that wait to be executed, before one more is taken.
pub const QUEUED_FDS_MAX: usize = 4 * MESSAGE_FDS_MAX;

/// Regions, and kinds of interrupts, that a device may have.
pub const INDEX_MAX: u32 = 64;

/// Vectors of one kind of interrupts: what MSI-X can have.
pub const VECTORS_MAX: u32 = 2048;

/// Longest description of a region that a client asks for.
pub const REGION_INFO_SIZE_MAX: u32 = 64 * 1024;
