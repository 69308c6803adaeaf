//! Requests of a packet to the NIC's memory blocks, and their results.

use ferroce_wire::RKey;

/// The caller's next action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a memory operation has to be executed and answered"]
pub enum Step {
    /// The packet is processed.
    Done,
    /// Hold the packet: it is out of order. [`crate::Qp::take_held`] names it when it must be
    /// handled again; if there is no room for it: [`crate::Qp::drop_held`].
    Hold,
    /// Pass the payload to [`crate::Qp::handle_arrivals`].
    Arrivals,
    /// Execute this and answer with [`crate::Qp::handle_memory`].
    Memory(MemoryOp),
}

/// Memory access of a remote peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// RDMA WRITE.
    Write,
    /// RDMA READ.
    Read,
    /// Atomic.
    Atomic,
    /// FLUSH.
    Flush {
        /// It makes writes visible to all readers.
        global: bool,
        /// It makes writes persistent.
        persistent: bool,
        /// The whole region: address and length are not checked.
        region: bool,
    },
}

/// Operation of an atomic on its eight bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtomicOperation {
    /// Replaces them by `swap` if they equal `compare`.
    CompareSwap {
        /// The value to compare with.
        compare: u64,
        /// The new value.
        swap: u64,
    },
    /// Adds to them, modulo 2^64.
    FetchAdd {
        /// The number to add.
        add: u64,
    },
}

/// One memory operation. `srqn` is the SRQN of an XRC request and `None` otherwise: an XRC target
/// has no protection domain, so the protection domain of this shared receive queue applies.
/// "Payload" means the whole payload of the packet being processed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryOp {
    /// Check key, bounds, protection domain and rights. Result: [`MemoryAnswer::Valid`] or
    /// [`MemoryAnswer::Invalid`].
    Validate {
        /// Key.
        r_key: RKey,
        /// First byte.
        virtual_address: u64,
        /// Bytes of the whole message; never zero, except for a FLUSH.
        length: u32,
        /// Kind of access.
        access: Access,
        /// XRC: the SRQ whose protection domain applies.
        srqn: Option<u32>,
    },
    /// Consume a receive WQE. Result: [`MemoryAnswer::Receive`], [`MemoryAnswer::NoReceive`] or
    /// [`MemoryAnswer::ReceiveError`].
    TakeReceive,
    /// The same from a shared receive queue that the peer names (XRC). The result may also be
    /// [`MemoryAnswer::Invalid`]: no SRQ in the XRC domain has this number.
    TakeShared {
        /// Number of the shared receive queue.
        srqn: u32,
    },
    /// Write the payload to validated memory. Result: [`MemoryAnswer::Done`] or
    /// [`MemoryAnswer::Failed`].
    WriteRemote {
        /// Key.
        r_key: RKey,
        /// First byte.
        virtual_address: u64,
        /// Bytes; never zero.
        length: u32,
        /// XRC: the SRQ whose protection domain applies.
        srqn: Option<u32>,
    },
    /// Execute an atomic operation on validated memory: eight bytes, aligned. Result:
    /// [`MemoryAnswer::Atomic`] or [`MemoryAnswer::Failed`].
    Atomic {
        /// Key.
        r_key: RKey,
        /// First byte, a multiple of eight.
        virtual_address: u64,
        /// The operation.
        operation: AtomicOperation,
        /// XRC: the SRQ whose protection domain applies.
        srqn: Option<u32>,
    },
    /// Make earlier writes to validated memory visible to all readers. Result:
    /// [`MemoryAnswer::Done`] or [`MemoryAnswer::Failed`].
    Flush {
        /// Key.
        r_key: RKey,
        /// First byte of the range; meaningless for the whole region.
        virtual_address: u64,
        /// Bytes of the range, never zero; meaningless for the whole region.
        length: u32,
        /// [`Access::Flush`], as it was validated.
        access: Access,
        /// XRC: the SRQ whose protection domain applies.
        srqn: Option<u32>,
    },
    /// Write the payload, eight bytes, to validated memory at once. Result: [`MemoryAnswer::Done`]
    /// or [`MemoryAnswer::Failed`].
    WriteAtomically {
        /// Key.
        r_key: RKey,
        /// First byte, a multiple of eight.
        virtual_address: u64,
        /// XRC: the SRQ whose protection domain applies.
        srqn: Option<u32>,
    },
    /// Invalidate a key at the request of a SEND whose payload is written. Result:
    /// [`MemoryAnswer::Done`] or [`MemoryAnswer::Failed`] (the key cannot be invalidated this way).
    Invalidate {
        /// Key.
        r_key: RKey,
        /// XRC: the SRQ whose protection domain applies.
        srqn: Option<u32>,
    },
    /// Write the 40 bytes of the global route header of the current datagram to the start of a
    /// receive buffer. Result: [`MemoryAnswer::Done`] or [`MemoryAnswer::Failed`] (local
    /// protection).
    WriteGrh {
        /// The receive WQE.
        receive: u32,
    },
    /// Write the payload to a receive buffer. Result: [`MemoryAnswer::Done`] or
    /// [`MemoryAnswer::Failed`] (local protection).
    WriteReceive {
        /// The receive WQE.
        receive: u32,
        /// First byte, counted from the start of the buffer.
        offset: u32,
        /// Bytes; never zero.
        length: u32,
    },
    /// Write the payload of a READ response to the buffers of the request. Result:
    /// [`MemoryAnswer::Done`] or [`MemoryAnswer::Failed`] (local protection).
    WriteReadResponse {
        /// [`crate::SendRequest::id`].
        request: u32,
        /// First byte, counted from the start of the message.
        offset: u32,
        /// Bytes; never zero.
        length: u32,
    },
    /// Write the result of an atomic to the buffers of the request: eight bytes in the byte order
    /// of the host. Result: [`MemoryAnswer::Done`] or [`MemoryAnswer::Failed`] (local protection).
    WriteAtomicResult {
        /// [`crate::SendRequest::id`].
        request: u32,
        /// The old value of the peer's memory.
        value: u64,
    },
}

impl MemoryOp {
    /// Returns the bytes of payload that it writes.
    #[must_use]
    pub const fn length(&self) -> u32 {
        match *self {
            MemoryOp::WriteRemote { length, .. }
            | MemoryOp::WriteReceive { length, .. }
            | MemoryOp::WriteReadResponse { length, .. } => length,
            _ => 0,
        }
    }

    /// Returns the operation that writes `length` bytes of this one's payload, starting at `start`.
    /// An operation without payload is returned unchanged.
    #[must_use]
    pub const fn part(&self, start: u32, length: u32) -> MemoryOp {
        match *self {
            MemoryOp::WriteRemote {
                r_key,
                virtual_address,
                srqn,
                ..
            } => MemoryOp::WriteRemote {
                r_key,
                virtual_address: virtual_address.wrapping_add(start as u64),
                length,
                srqn,
            },
            MemoryOp::WriteReceive {
                receive, offset, ..
            } => MemoryOp::WriteReceive {
                receive,
                offset: offset + start,
                length,
            },
            MemoryOp::WriteReadResponse {
                request, offset, ..
            } => MemoryOp::WriteReadResponse {
                request,
                offset: offset + start,
                length,
            },
            other => other,
        }
    }
}

/// The result of a [`MemoryOp`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryAnswer {
    /// The access is allowed.
    Valid,
    /// The access is not allowed.
    Invalid,
    /// The region or window lacks the right.
    Forbidden,
    /// A receive WQE was consumed.
    Receive {
        /// Chosen by the caller and echoed in the completion.
        id: u32,
        /// Capacity of its buffers in bytes.
        capacity: u32,
    },
    /// The receive queue is empty.
    NoReceive,
    /// The receive WQE could not be read.
    ReceiveError,
    /// It is done.
    Done,
    /// It could not be done.
    Failed,
    /// A page of the memory is not present: it is on demand. Nothing was done, or a part that is
    /// done again with the packet, which will come again.
    NotPresent,
    /// The atomic operation is done; this is the old value.
    Atomic(u64),
}
