//! What a queue pair has noticed about a packet, for explanations. Nothing else depends on it.

use ferroce_wire::{Psn, QKey};

/// The newest observation of a queue pair, which [`crate::Qp::take_note`] returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Note {
    /// A datagram was dropped: it has not the queue pair's Q_Key.
    WrongQKey {
        /// The datagram's.
        came: QKey,
        /// The queue pair's.
        own: QKey,
    },
    /// A datagram or message was dropped: no receive WQE is there.
    NoReceive,
    /// A datagram was dropped: the receive WQE has no room for GRH and payload.
    ShortReceive {
        /// Bytes of the datagram.
        payload: u32,
        /// Bytes of the receive WQE.
        capacity: u32,
    },
    /// An RNR NAK was sent: no receive WQE is there.
    NotReady,
    /// An RNR NAK of the peer took effect.
    PeerNotReady,
    /// The first request of the peer does not have the PSN that the queue pair expects.
    FirstPsn {
        /// The request's.
        came: Psn,
        /// The queue pair's.
        expected: Psn,
    },
    /// The peer answers with a PSN that was not sent, and has acknowledged nothing yet.
    PeerPsn {
        /// The PSN that the peer expects.
        expected: Psn,
        /// The first PSN of this queue pair.
        first: Psn,
    },
    /// A request was refused: the message is longer than the receive WQE.
    LongMessage {
        /// Bytes of the message so far.
        length: u32,
        /// Bytes of the receive WQE.
        capacity: u32,
    },
    /// A request was refused: the responder's resources for READs and atomics are in use.
    TooManyFetches {
        /// The number of them: max_dest_rd_atomic.
        limit: u8,
    },
}
