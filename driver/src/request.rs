//! Work requests as callers pass them.

use ferroce_spec::context::AccessRights;
pub use ferroce_spec::wqe::DataSegment;

use crate::attributes::AddressVector;
use crate::identifier::{LKey, Qpn, RKey, Srqn};

/// Memory of the peer that an RDMA or atomic operation names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemoteAddress {
    /// Address in the peer's memory region.
    pub virtual_address: u64,
    /// The region's remote key.
    pub r_key: RKey,
}

/// Accesses that peers may make through a memory window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WindowAccess {
    /// True if peers may write by RDMA WRITE.
    pub remote_write: bool,
    /// True if peers may read by RDMA READ.
    pub remote_read: bool,
    /// True if peers may execute atomics.
    pub remote_atomic: bool,
    /// True if peers address the first byte as 0 (type 2).
    pub zero_based: bool,
}

impl From<WindowAccess> for AccessRights {
    fn from(access: WindowAccess) -> Self {
        let mut rights = Self::default();
        rights.set_remote_write(access.remote_write);
        rights.set_remote_read(access.remote_read);
        rights.set_remote_atomic(access.remote_atomic);
        rights.set_zero_based(access.zero_based);
        rights
    }
}

/// Target of a bind of a memory window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowBinding {
    /// New key of the window: its index with another variant (bits 7:0).
    pub r_key: RKey,
    /// Local key of the memory region.
    pub l_key: LKey,
    /// First byte, as a virtual address of the region.
    pub address: u64,
    /// Bytes; zero: the window is unbound.
    pub length: u64,
    /// Accesses that peers may make.
    pub access: WindowAccess,
}

/// What a FLUSH is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlushKind {
    /// True if writes become visible to all readers.
    pub global: bool,
    /// True if writes become persistent.
    pub persistent: bool,
    /// True if it is about the whole region instead of a range.
    pub whole_region: bool,
}

impl FlushKind {
    /// Returns the FETH as it goes on the wire.
    pub(crate) fn bits(self) -> u32 {
        u32::from(self.global) | u32::from(self.persistent) << 1 | u32::from(self.whole_region) << 4
    }
}

/// Operation of a send work request.
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
    /// Makes earlier writes of this QP visible or persistent at the peer. It has no payload.
    Flush {
        /// First byte.
        remote: RemoteAddress,
        /// Bytes; ignored for a whole region.
        length: u32,
        /// Which writes, and what becomes of them.
        kind: FlushKind,
    },
    /// Writes the payload, eight bytes, at once and after all earlier requests.
    AtomicWrite(RemoteAddress),
    /// Invalidates the key of a local type 2 memory window.
    LocalInvalidate(RKey),
    /// Binds a memory window.
    BindWindow(WindowBinding),
}

/// Destination of a send work request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Destination<'a> {
    /// The peer of the connection (RC, UC), or none (local operations).
    #[default]
    Connected,
    /// Any QP (UD).
    Datagram {
        /// Path: an address handle.
        path: &'a AddressVector,
        /// The QP; 0xffffff: all QPs of a multicast group.
        qpn: Qpn,
        /// Its Q_Key; if bit 31 is set, the Q_Key of the sending QP is used.
        q_key: u32,
    },
    /// A shared receive queue of the peer (XRC).
    Xrc {
        /// Its number.
        srqn: Srqn,
    },
}

/// Location of the payload of a send work request.
#[derive(Debug, Clone, Copy)]
pub enum SendData<'a> {
    /// In registered memory: gathered (or, for READs, scattered) by the device later.
    ScatterGather(&'a [DataSegment]),
    /// In any memory: the pieces are copied into the WQE now, without gaps.
    Inline(&'a [&'a [u8]]),
}

/// A send work request.
#[derive(Debug, Clone, Copy)]
pub struct SendRequest<'a> {
    /// Returned in the work completion.
    pub wr_id: u64,
    /// Operation.
    pub operation: SendOperation,
    /// Destination.
    pub destination: Destination<'a>,
    /// True if a CQE is written also on success. Always true for QPs created with `signal_all`.
    pub signaled: bool,
    /// True if the peer's receive completion is a solicited event.
    pub solicited: bool,
    /// True if the work request waits for all earlier READs and atomics of this QP.
    pub fence: bool,
    /// The payload.
    pub data: SendData<'a>,
}
