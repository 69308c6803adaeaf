//! Work requests of the send queue, without their memory.

use ferroce_qp::Service;
use ferroce_wire::{Feth, Immediate, QKey, Qpn, RKey, Reth};

/// The longest message: 2^31 bytes (IBTA vol 1, 9.4).
pub const MAX_MESSAGE_LENGTH: u32 = 1 << 31;

/// Maximum number of send requests in a queue pair; others stay in their ring.
pub const MAX_OUTSTANDING_SEND_REQUESTS: usize = 256;

/// A place in the peer's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remote {
    /// First byte.
    pub virtual_address: u64,
    /// Key of the region.
    pub r_key: RKey,
}

impl Remote {
    /// Returns the header for `dma_length` bytes from here on.
    pub(crate) const fn reth(self, dma_length: u32) -> Reth {
        Reth {
            virtual_address: self.virtual_address,
            r_key: self.r_key,
            dma_length,
        }
    }
}

/// Operation of a send request.
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
    /// SEND that invalidates a key of the peer.
    SendInvalidate(RKey),
    /// Atomic compare and swap of eight bytes.
    CompareSwap {
        /// The eight bytes.
        remote: Remote,
        /// The value to compare with.
        compare: u64,
        /// The new value if they are equal.
        swap: u64,
    },
    /// Atomic fetch and add of eight bytes.
    FetchAdd {
        /// The eight bytes.
        remote: Remote,
        /// The number to add.
        add: u64,
    },
    /// Makes earlier writes of the queue pair visible or persistent. It has no payload.
    Flush {
        /// First byte of the range.
        remote: Remote,
        /// Bytes of the range.
        length: u32,
        /// Placement, and range or whole region.
        feth: Feth,
    },
    /// Writes eight bytes at once, after all earlier requests have been executed. Its payload has
    /// eight bytes.
    AtomicWrite {
        /// The eight bytes.
        remote: Remote,
    },
    /// No packet: the caller executes it when it is next in order ([`crate::Qp::poll_local`]).
    Local(LocalKind),
}

/// The kind of a local operation, where it matters to the transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LocalKind {
    /// Invalidates a key. It is executed when all earlier requests have completed, because a
    /// retransmission may have to read their buffers.
    Invalidate,
    /// Binds a memory window.
    Bind,
    /// Does nothing.
    Nop,
}

/// Bytes of the operand of an atomic operation.
pub(crate) const ATOMIC_LENGTH: u32 = 8;

impl SendOperation {
    /// Returns the kind for completions.
    #[must_use]
    pub const fn kind(self) -> SendKind {
        match self {
            SendOperation::Send
            | SendOperation::SendImmediate(_)
            | SendOperation::SendInvalidate(_) => SendKind::Send,
            SendOperation::RdmaWrite { .. } | SendOperation::RdmaWriteImmediate { .. } => {
                SendKind::RdmaWrite
            }
            SendOperation::RdmaRead { .. } => SendKind::RdmaRead,
            SendOperation::CompareSwap { .. } => SendKind::CompareSwap,
            SendOperation::FetchAdd { .. } => SendKind::FetchAdd,
            SendOperation::Flush { .. } => SendKind::Flush,
            SendOperation::AtomicWrite { .. } => SendKind::AtomicWrite,
            SendOperation::Local(LocalKind::Invalidate) => SendKind::LocalInvalidate,
            SendOperation::Local(LocalKind::Bind) => SendKind::BindWindow,
            SendOperation::Local(LocalKind::Nop) => SendKind::Nop,
        }
    }

    pub(crate) const fn is_read(self) -> bool {
        matches!(self, SendOperation::RdmaRead { .. })
    }

    pub(crate) const fn is_atomic(self) -> bool {
        matches!(
            self,
            SendOperation::CompareSwap { .. } | SendOperation::FetchAdd { .. }
        )
    }

    /// Returns true if the request is answered with a response rather than with an acknowledge.
    pub const fn fetches(self) -> bool {
        self.is_read() || self.is_atomic() || self.expects_empty_response()
    }

    /// Returns true if the answer is a READ response without payload (IBTA annex A19).
    pub(crate) const fn expects_empty_response(self) -> bool {
        matches!(
            self,
            SendOperation::Flush { .. } | SendOperation::AtomicWrite { .. }
        )
    }

    pub(crate) const fn is_local(self) -> bool {
        matches!(self, SendOperation::Local(_))
    }

    /// Returns true if it uses a receive WQE of the peer.
    pub(crate) const fn takes_receive(self) -> bool {
        matches!(
            self,
            SendOperation::Send
                | SendOperation::SendImmediate(_)
                | SendOperation::SendInvalidate(_)
                | SendOperation::RdmaWriteImmediate { .. }
        )
    }
}

/// Kinds of send requests that completions distinguish (`enum ibv_wc_opcode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendKind {
    /// SEND, with or without immediate data or invalidate.
    Send,
    /// RDMA WRITE, with immediate data or without.
    RdmaWrite,
    /// RDMA READ.
    RdmaRead,
    /// Atomic compare and swap.
    CompareSwap,
    /// Atomic fetch and add.
    FetchAdd,
    /// FLUSH.
    Flush,
    /// Atomic write.
    AtomicWrite,
    /// Local invalidate.
    LocalInvalidate,
    /// Bind of a memory window.
    BindWindow,
    /// No operation.
    Nop,
}

/// Destination of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// The connected peer (RC, UC; local operations of any service).
    Connected,
    /// UD. The caller knows the path ([`crate::Transmit::request`]).
    Datagram {
        /// Queue pair, or [`Qpn::MULTICAST`].
        qpn: Qpn,
        /// The Q_Key; if its most significant bit is set, the queue pair's own Q_Key is sent (IBTA
        /// vol 1, chapter 10). A GSI always sends its own.
        q_key: QKey,
    },
    /// XRC: a shared receive queue of the connected peer.
    Xrc {
        /// Number of the shared receive queue, 24 bits.
        srqn: u32,
    },
}

impl Destination {
    /// Returns true if a request of `service` can have this destination.
    pub(crate) const fn suits(self, service: Service) -> bool {
        match self {
            Destination::Connected => matches!(
                service,
                Service::ReliableConnected | Service::UnreliableConnected
            ),
            Destination::Datagram { .. } => service.is_datagram(),
            Destination::Xrc { .. } => matches!(service, Service::XrcInitiator),
        }
    }
}

/// One work request of the send queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendRequest {
    /// Chosen by the caller and echoed, e.g. the index of the WQE.
    pub id: u32,
    /// Operation.
    pub operation: SendOperation,
    /// Length of the message, 0 ..= [`MAX_MESSAGE_LENGTH`]. An atomic needs room for eight bytes
    /// and leaves further bytes untouched; local operations ignore it.
    pub length: u32,
    /// Also complete on success.
    pub signaled: bool,
    /// Request a completion event at the peer.
    pub solicited: bool,
    /// Start only when all earlier READs and atomics have completed.
    pub fence: bool,
    /// Destination.
    pub destination: Destination,
}
