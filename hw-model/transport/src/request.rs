//! What the send queue asks for: one work request, without its memory.

use ferroce_wire::{Immediate, RKey};

/// The longest message: 2^31 bytes (IBTA vol 1, 9.4).
pub const MAX_MESSAGE_LENGTH: u32 = 1 << 31;

/// Send requests that a queue pair holds at most; the others wait in their ring.
pub const MAX_OUTSTANDING_SEND_REQUESTS: usize = 256;

/// A place in the peer's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remote {
    /// First byte.
    pub virtual_address: u64,
    /// Key of the region.
    pub r_key: RKey,
}

/// What a send request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendOperation {
    /// SEND.
    Send,
    /// SEND with immediate data.
    SendImmediate(Immediate),
    /// RDMA WRITE.
    RdmaWrite {
        /// Destination.
        remote: Remote,
    },
    /// RDMA WRITE with immediate data.
    RdmaWriteImmediate {
        /// Destination.
        remote: Remote,
        /// Data for the peer's completion.
        immediate: Immediate,
    },
    /// RDMA READ.
    RdmaRead {
        /// Source.
        remote: Remote,
    },
}

impl SendOperation {
    /// The kind, for completions.
    #[must_use]
    pub const fn kind(self) -> SendKind {
        match self {
            SendOperation::Send | SendOperation::SendImmediate(_) => SendKind::Send,
            SendOperation::RdmaWrite { .. } | SendOperation::RdmaWriteImmediate { .. } => {
                SendKind::RdmaWrite
            }
            SendOperation::RdmaRead { .. } => SendKind::RdmaRead,
        }
    }

    /// Whether the request is answered with data rather than with an acknowledge.
    pub(crate) const fn is_read(self) -> bool {
        matches!(self, SendOperation::RdmaRead { .. })
    }

    /// Whether the peer spends a receive WQE on it.
    pub(crate) const fn takes_receive(self) -> bool {
        !matches!(
            self,
            SendOperation::RdmaWrite { .. } | SendOperation::RdmaRead { .. }
        )
    }
}

/// Kinds of send requests that completions tell apart (`enum ibv_wc_opcode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendKind {
    /// SEND, with immediate data or without.
    Send,
    /// RDMA WRITE, with immediate data or without.
    RdmaWrite,
    /// RDMA READ.
    RdmaRead,
}

/// One work request of the send queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendRequest {
    /// Chosen by the caller and echoed, e.g. the index of the WQE.
    pub id: u32,
    /// What to do.
    pub operation: SendOperation,
    /// Bytes of the message, 0 ..= [`MAX_MESSAGE_LENGTH`].
    pub length: u32,
    /// Complete also when it succeeds.
    pub signaled: bool,
    /// Ask the peer for a completion event.
    pub solicited: bool,
    /// Begin only when all earlier READs and atomics have completed.
    pub fence: bool,
}
