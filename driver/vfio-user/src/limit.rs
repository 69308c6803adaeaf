//! Limits of all resources and waits that the peer could otherwise increase.

use std::time::Duration;

/// Maximum number of file descriptors in one message that this side accepts.
pub const MESSAGE_FDS_MAX: usize = 16;

/// Maximum number of data bytes in one access that this side accepts, as stated in its
/// capabilities.
pub const DATA_TRANSFER_SIZE_MAX: usize = 1024 * 1024;

/// Longest message that this side accepts: the fields of an access, and its longest data.
///
/// A header with a greater length ends the connection, because the end of its message is unknown.
pub const MESSAGE_SIZE_MAX: usize = DATA_TRANSFER_SIZE_MAX + 4096;

/// Longest `VERSION` message that this side accepts.
pub const VERSION_SIZE_MAX: usize = 4096;

/// Longest access by a DMA message that this side sends, even if the client allows more.
///
/// QEMU 11.1 states 1 MiB, but never answers an access of 256 KiB.
pub const DMA_MESSAGE_SIZE_MAX: usize = 64 * 1024;

/// Time limit of a reply to a request: the same as QEMU's.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Time limit of a reply to a DMA message. Shorter than [`REQUEST_TIMEOUT`], so that a client whose
/// register access waits for the DMA still gets an answer to it.
pub const DMA_MESSAGE_TIMEOUT: Duration = Duration::from_secs(2);

/// Time limit for a client to agree on a version. Until then it blocks other clients, although the
/// server has no information about it.
pub const AGREEMENT_TIMEOUT: Duration = Duration::from_secs(5);

/// Time limit for the rest of a message, once it has begun.
pub const MESSAGE_TIMEOUT: Duration = Duration::from_secs(10);

/// Time limit for the `VERSION` of a client that connects while another one is served.
pub const REFUSAL_TIMEOUT: Duration = Duration::from_secs(1);

/// Time that the peer may leave its socket full before the connection ends.
pub const SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of abandoned requests, whose replies may still come. With one more the peer
/// counts as gone.
pub const ABANDONED_REQUESTS_MAX: usize = 64;

/// Maximum number of commands that wait to be executed. When there are more, the socket is not
/// read.
pub const QUEUED_COMMANDS_MAX: usize = 256;

/// When the waiting commands have this many bytes, the socket is not read.
pub const QUEUED_BYTES_MAX: usize = 4 * DATA_TRANSFER_SIZE_MAX;

/// When the waiting commands have this many file descriptors, the socket is not read.
pub const QUEUED_FDS_MAX: usize = 4 * MESSAGE_FDS_MAX;

/// Regions, and kinds of interrupts, that a device may have.
pub const INDEX_MAX: u32 = 64;

/// Maximum number of vectors of one kind of interrupts: the limit of MSI-X.
pub const VECTORS_MAX: u32 = 2048;

/// Longest description of a region that a client requests.
pub const REGION_INFO_SIZE_MAX: u32 = 64 * 1024;
