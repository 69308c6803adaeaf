//! What the send queue asks for: one work request, without its memory.

use ferroce_qp::Service;
use ferroce_wire::{Immediate, QKey, Qpn, RKey};

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
    /// No packet: the caller carries it out when its turn comes ([`crate::Qp::poll_local`]).
    Local(LocalKind),
}

/// What a local operation does, as far as the transport has to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LocalKind {
    /// Invalidates a key; its turn comes when all earlier requests have completed, because they
    /// may have to read their buffers again.
    Invalidate,
    /// Binds a memory window.
    Bind,
    /// Does nothing.
    Nop,
}

/// Bytes that an atomic operation works on.
pub(crate) const ATOMIC_LENGTH: u32 = 8;

impl SendOperation {
    /// The kind, for completions.
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

    /// Returns true if the request is answered with data rather than with an acknowledge.
    pub const fn fetches(self) -> bool {
        self.is_read() || self.is_atomic()
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

/// Kinds of send requests that completions tell apart (`enum ibv_wc_opcode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendKind {
    /// SEND of any kind.
    Send,
    /// RDMA WRITE, with immediate data or without.
    RdmaWrite,
    /// RDMA READ.
    RdmaRead,
    /// Atomic compare and swap.
    CompareSwap,
    /// Atomic fetch and add.
    FetchAdd,
    /// Local invalidate.
    LocalInvalidate,
    /// Bind of a memory window.
    BindWindow,
    /// No operation.
    Nop,
}

/// To whom a request goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// The peer that the queue pair is connected to (RC, UC; local operations of any service).
    Connected,
    /// UD. The caller knows the path to it ([`crate::Transmit::request`]).
    Datagram {
        /// Queue pair, or [`Qpn::MULTICAST`].
        qpn: Qpn,
        /// Its Q_Key; with the most significant bit set our own is sent (IBTA vol 1, chapter 10).
        /// GSI always sends its own.
        q_key: QKey,
    },
    /// XRC: a shared receive queue of the peer that the queue pair is connected to.
    Xrc {
        /// Number of the shared receive queue, 24 bits.
        srqn: u32,
    },
}

impl Destination {
    /// Returns true if a request of `service` may go there.
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
    /// What to do.
    pub operation: SendOperation,
    /// Bytes of the message, 0 ..= [`MAX_MESSAGE_LENGTH`]. An atomic needs room for eight bytes,
    /// whatever more there is stays untouched; for a local operation it means nothing.
    pub length: u32,
    /// Complete also when it succeeds.
    pub signaled: bool,
    /// Ask the peer for a completion event.
    pub solicited: bool,
    /// Begin only when all earlier READs and atomics have completed.
    pub fence: bool,
    /// To whom.
    pub destination: Destination,
}
