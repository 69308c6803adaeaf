//! What processing a packet needs of the NIC's memory blocks, and their answers.

use ferroce_wire::RKey;

/// What the caller has to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a memory operation has to be carried out and answered"]
pub enum Step {
    /// The packet is processed.
    Done,
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

/// One memory operation. Payload is that of the packet being processed, all of it.
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
    },
    /// Consume a receive WQE. Answer: [`MemoryAnswer::Receive`], [`MemoryAnswer::NoReceive`] or
    /// [`MemoryAnswer::ReceiveError`].
    TakeReceive,
    /// Write the payload to validated memory. Answer: [`MemoryAnswer::Done`] or
    /// [`MemoryAnswer::Failed`].
    WriteRemote {
        /// Key.
        r_key: RKey,
        /// First byte.
        virtual_address: u64,
        /// Bytes; never zero.
        length: u32,
    },
    /// Write the payload to a receive buffer. Answer: [`MemoryAnswer::Done`] or
    /// [`MemoryAnswer::Failed`] (local protection).
    WriteReceive {
        /// The receive WQE.
        receive: u32,
        /// First byte, counted from the start of the message.
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
    /// The payload is written.
    Done,
    /// The payload could not be written.
    Failed,
}
