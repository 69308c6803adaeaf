//! Work requests as the caller gives them.

use crate::identifier::RKey;

pub use ferroce_spec::wqe::DataSegment;

/// Memory of the peer that an RDMA or atomic operation names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemoteAddress {
    /// Address in the peer's memory region.
    pub virtual_address: u64,
    /// The region's remote key.
    pub r_key: RKey,
}

/// What a send work request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendOperation {
    /// SEND.
    Send,
    /// SEND with immediate data, four bytes as they go on the wire.
    SendImmediate([u8; 4]),
    /// SEND that invalidates a remote key of the peer.
    SendInvalidate(RKey),
    /// RDMA WRITE.
    RdmaWrite(RemoteAddress),
    /// RDMA WRITE with immediate data, four bytes as they go on the wire.
    RdmaWriteImmediate(RemoteAddress, [u8; 4]),
    /// RDMA READ.
    RdmaRead(RemoteAddress),
    /// Atomic compare and swap of eight bytes.
    CompareSwap {
        /// The eight bytes.
        remote: RemoteAddress,
        /// Value to compare with.
        compare: u64,
        /// Value to store when they are equal.
        swap: u64,
    },
    /// Atomic fetch and add of eight bytes.
    FetchAdd {
        /// The eight bytes.
        remote: RemoteAddress,
        /// Value to add.
        add: u64,
    },
}

/// Where the payload of a send work request is.
#[derive(Debug, Clone, Copy)]
pub enum SendData<'a> {
    /// In registered memory: gathered (or, for READs, scattered) by the device later.
    ScatterGather(&'a [DataSegment]),
    /// In any memory: copied into the WQE now, one piece behind the other.
    Inline(&'a [&'a [u8]]),
}

/// A send work request.
#[derive(Debug, Clone, Copy)]
pub struct SendRequest<'a> {
    /// Returned in the work completion.
    pub wr_id: u64,
    /// What to do.
    pub operation: SendOperation,
    /// Write a CQE also on success. Always true for QPs created with `signal_all`.
    pub signaled: bool,
    /// The peer's receive completion is a solicited event.
    pub solicited: bool,
    /// Wait for all earlier READs and atomics of this QP.
    pub fence: bool,
    /// The payload.
    pub data: SendData<'a>,
}
