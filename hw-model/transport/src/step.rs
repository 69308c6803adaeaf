//! What processing a packet needs of the NIC's memory blocks, and their answers.

use ferroce_wire::RKey;

/// What the caller has to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a memory operation has to be executed and answered"]
pub enum Step {
    /// The packet is processed.
    Done,
    /// Keep the packet: it came too early. [`crate::Qp::take_held`] says when it is to be handled
    /// again; if there is no room for it: [`crate::Qp::drop_held`].
    Hold,
    /// Pass the payload to [`crate::Qp::handle_arrivals`].
    Arrivals,
    /// Carry this out and answer with [`crate::Qp::handle_memory`].
    Memory(MemoryOp),
}

/// What a remote peer wants to do with memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// RDMA WRITE.
    Write,
    /// RDMA READ.
    Read,
    /// Atomic.
    Atomic,
}

/// What an atomic operation does to its eight bytes.
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

/// One memory operation. `srqn` is that of an XRC request and `None` otherwise: an XRC target has
/// no protection domain, that of this shared receive queue applies. Payload is that of the packet
/// being processed, all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryOp {
    /// Check key, bounds, protection domain and rights. Answer: [`MemoryAnswer::Valid`] or
    /// [`MemoryAnswer::Invalid`].
    Validate {
        /// Key.
        r_key: RKey,
        /// First byte.
        virtual_address: u64,
        /// Bytes of the whole message; never zero.
        length: u32,
        /// What is to be done.
        access: Access,
        /// XRC: whose protection domain counts.
        srqn: Option<u32>,
    },
    /// Consume a receive WQE. Answer: [`MemoryAnswer::Receive`], [`MemoryAnswer::NoReceive`] or
    /// [`MemoryAnswer::ReceiveError`].
    TakeReceive,
    /// The same from a shared receive queue that the peer names (XRC). Answer also
    /// [`MemoryAnswer::Invalid`]: there is none with this number in our XRC domain.
    TakeShared {
        /// Number of the shared receive queue.
        srqn: u32,
    },
    /// Write the payload to validated memory. Answer: [`MemoryAnswer::Done`] or
    /// [`MemoryAnswer::Failed`].
    WriteRemote {
        /// Key.
        r_key: RKey,
        /// First byte.
        virtual_address: u64,
        /// Bytes; never zero.
        length: u32,
        /// XRC: whose protection domain counts.
        srqn: Option<u32>,
    },
    /// Execute an atomic operation on validated memory: eight bytes, aligned. Answer:
    /// [`MemoryAnswer::Atomic`] or [`MemoryAnswer::Failed`].
    Atomic {
        /// Key.
        r_key: RKey,
        /// First byte, a multiple of eight.
        virtual_address: u64,
        /// What to do.
        operation: AtomicOperation,
        /// XRC: whose protection domain counts.
        srqn: Option<u32>,
    },
    /// Invalidate a key, as the peer asks with a SEND whose payload is written. Answer:
    /// [`MemoryAnswer::Done`] or [`MemoryAnswer::Failed`] (it cannot be invalidated so).
    Invalidate {
        /// Key.
        r_key: RKey,
        /// XRC: whose protection domain counts.
        srqn: Option<u32>,
    },
    /// Write the 40 bytes of the global route header of the datagram being processed to the start
    /// of a receive buffer. Answer: [`MemoryAnswer::Done`] or [`MemoryAnswer::Failed`] (local
    /// protection).
    WriteGrh {
        /// The receive WQE.
        receive: u32,
    },
    /// Write the payload to a receive buffer. Answer: [`MemoryAnswer::Done`] or
    /// [`MemoryAnswer::Failed`] (local protection).
    WriteReceive {
        /// The receive WQE.
        receive: u32,
        /// First byte, counted from the start of the buffer.
        offset: u32,
        /// Bytes; never zero.
        length: u32,
    },
    /// Write the payload of a READ response to the buffers of the request. Answer:
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
    /// of the host. Answer: [`MemoryAnswer::Done`] or [`MemoryAnswer::Failed`] (local protection).
    WriteAtomicResult {
        /// [`crate::SendRequest::id`].
        request: u32,
        /// What the peer's memory held before.
        value: u64,
    },
}

impl MemoryOp {
    /// Bytes of payload that it writes.
    #[must_use]
    pub const fn length(&self) -> u32 {
        match *self {
            MemoryOp::WriteRemote { length, .. }
            | MemoryOp::WriteReceive { length, .. }
            | MemoryOp::WriteReadResponse { length, .. } => length,
            _ => 0,
        }
    }

    /// Returns the operation that writes `length` bytes of the payload of this one, from the one
    /// at `start` on. One that writes no payload stays as it is.
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

/// The answer to a [`MemoryOp`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryAnswer {
    /// The access is allowed.
    Valid,
    /// The access is not allowed.
    Invalid,
    /// A receive WQE was consumed.
    Receive {
        /// Chosen by the caller and echoed in the completion.
        id: u32,
        /// Bytes that its buffers hold.
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
    /// The atomic operation is done; this is what the memory held before.
    Atomic(u64),
}
