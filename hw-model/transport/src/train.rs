//! Trains: packets of one message that are sent and received in one step:
//! [`Qp::next_train`](crate::Qp::next_train).

use ferroce_qp::PathMtu;
use ferroce_wire::Psn;

use crate::span::span;
use crate::transmit::Payload;

/// Maximum number of packets in flight before a train.
const MAX_PACKETS_BEFORE: u32 = 1 << 16;

/// Consecutive packets of one message, without its first and its last packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Train {
    /// PSN of the first packet of the message.
    pub message: Psn,
    /// PSN of the first packet of the train.
    pub first: Psn,
    /// Number of packets.
    pub packets: u32,
    /// Payload of each packet.
    pub mtu: PathMtu,
    /// Source of the payload of all of them: a SEND or WRITE, or the response to a READ.
    pub payload: Payload,
}

impl Train {
    /// Returns the first `packets` packets of it.
    #[must_use]
    pub fn head(&self, packets: u32) -> Train {
        let packets = packets.min(self.packets);
        Train {
            packets,
            payload: self.payload.part(0, packets << self.mtu.shift()),
            ..*self
        }
    }

    /// Returns the number of packets of the message before it.
    #[must_use]
    pub fn packets_before(&self) -> u32 {
        span(self.message, self.first)
    }

    /// Returns the bytes of payload.
    #[must_use]
    pub const fn bytes(&self) -> u32 {
        self.packets << self.mtu.shift()
    }

    /// Returns true if it is a part of a READ response.
    #[must_use]
    pub const fn is_response(&self) -> bool {
        matches!(self.payload, Payload::ReadResponse { .. })
    }

    /// Returns the number of packets from `expected` to the train, if `expected` is after the first
    /// packet of the message and not after the first packet of the train.
    pub(crate) fn packets_from(&self, expected: Psn) -> Option<u32> {
        let before = span(expected, self.first);
        (before < self.packets_before() && before <= MAX_PACKETS_BEFORE).then_some(before)
    }
}

/// PSNs of a train: the first one, and their number.
type Range = (Psn, u32);

/// The trains that a queue pair has not passed. Most queue pairs have none, and there are many
/// queue pairs, so it is small.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trains(Option<Box<Both>>);

#[derive(Debug, Clone, Default)]
struct Both {
    requester: Option<Range>,
    responder: Option<Range>,
}

impl Trains {
    /// Returns the train of outgoing requests or of the incoming READ response.
    #[inline]
    pub(crate) fn requester(&self) -> Option<Range> {
        self.0.as_ref()?.requester
    }

    /// Returns the train of incoming requests.
    #[inline]
    pub(crate) fn responder(&self) -> Option<Range> {
        self.0.as_ref()?.responder
    }

    pub(crate) fn set_requester(&mut self, train: Option<Range>) {
        if train.is_some() || self.0.is_some() {
            self.0.get_or_insert_default().requester = train;
        }
    }

    pub(crate) fn set_responder(&mut self, train: Option<Range>) {
        if train.is_some() || self.0.is_some() {
            self.0.get_or_insert_default().responder = train;
        }
    }
}
