//! Streams: the middle of long messages, whose packets can be skipped.
//!
//! Middle packets of a long message differ only in PSN and payload. A simulator of time that has
//! seen some of them need not process each one: the sender of a [`Stream`] skips packets
//! ([`Qp::skip`](crate::Qp::skip)), its receiver accepts their PSNs as received
//! ([`Qp::skip_receive`](crate::Qp::skip_receive)), and the caller copies their payload. All other
//! packets stay the same: PSNs, opcodes, which of them request an acknowledge.

use ferroce_wire::Psn;

use crate::requester::span;
use crate::step::MemoryOp;
use crate::transmit::Payload;

/// Packets that may be on their way in front of a gap.
pub(crate) const MAX_PACKETS_BEFORE_GAP: u32 = 1 << 16;

/// What a stream carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StreamKind {
    /// A SEND or WRITE: from the requester to the responder.
    Request,
    /// The response to a READ: from the responder to the requester.
    ReadResponse,
}

/// A message of which some packets have left and others have not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stream {
    /// What it carries.
    pub kind: StreamKind,
    /// PSN of its first packet.
    pub first: Psn,
    /// PSN of the packet that leaves next.
    pub next: Psn,
    /// Packets that have not left.
    pub left: u32,
}

impl Stream {
    /// Packets that have left and are not at a receiver that expects `next`. `None`: what it
    /// expects
    /// is no packet of the stream, or the first one.
    #[must_use]
    pub const fn under_way(&self, next: Psn) -> Option<u32> {
        let under_way = span(next, self.next);
        match under_way < span(self.first, self.next) {
            true => Some(under_way),
            false => None,
        }
    }
}

/// Packets of a stream that are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// What the stream carries.
    pub kind: StreamKind,
    /// PSN of the first packet of the message.
    pub message: Psn,
    /// PSN of the first packet that is left out.
    pub first: Psn,
    /// How many are.
    pub packets: u32,
}

impl Gap {
    /// The gap that leaves out the next `packets` packets of a stream.
    #[must_use]
    pub const fn of(stream: &Stream, packets: u32) -> Gap {
        Gap {
            kind: stream.kind,
            message: stream.first,
            first: stream.next,
            packets,
        }
    }

    /// Packets from `expected` to the gap, if `expected` is behind the first packet of the message
    /// and not behind the gap's.
    pub(crate) fn packets_from(&self, expected: Psn) -> Option<u32> {
        let before = span(expected, self.first);
        let all = span(self.message, self.first);
        (before < all && before <= MAX_PACKETS_BEFORE_GAP).then_some(before)
    }
}

/// What a queue pair is busy with, apart from acknowledges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QpActivity {
    /// Requests with data are to be sent, or not all acknowledged.
    pub sends: bool,
    /// READs or atomics are not all answered.
    pub fetches: bool,
    /// Responses are to be sent.
    pub responds: bool,
}

/// PSNs that were left out: the first one, and how many.
type LeftOut = (Psn, u32);

/// The gaps that a queue pair has not passed. Most queue pairs have none, and there are many.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gaps(Option<Box<BothGaps>>);

#[derive(Debug, Clone, Default)]
struct BothGaps {
    requester: Option<LeftOut>,
    responder: Option<LeftOut>,
}

impl Gaps {
    /// Of the requests that are sent, or of the READ response that comes in.
    #[inline]
    pub(crate) fn requester(&self) -> Option<LeftOut> {
        self.0.as_ref()?.requester
    }

    /// Of the requests that come in.
    #[inline]
    pub(crate) fn responder(&self) -> Option<LeftOut> {
        self.0.as_ref()?.responder
    }

    pub(crate) fn set_requester(&mut self, gap: Option<LeftOut>) {
        if gap.is_some() || self.0.is_some() {
            self.0.get_or_insert_default().requester = gap;
        }
    }

    pub(crate) fn set_responder(&mut self, gap: Option<LeftOut>) {
        if gap.is_some() || self.0.is_some() {
            self.0.get_or_insert_default().responder = gap;
        }
    }
}

/// Where the receiver writes the bytes that are on their way, and those of a gap behind them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GapTarget {
    /// What writes the next byte that it receives.
    pub(crate) next: MemoryOp,
    /// Bytes in front of the gap.
    pub(crate) under_way: u32,
}

impl GapTarget {
    /// Bytes in front of the gap.
    #[must_use]
    pub const fn under_way(&self) -> u32 {
        self.under_way
    }

    /// Returns the memory operation that writes `length` bytes from `start` on, counted from the
    /// next byte that is received.
    #[must_use]
    pub const fn piece(&self, start: u32, length: u32) -> MemoryOp {
        match self.next {
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

/// Where the bytes of a gap come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GapSource(pub(crate) Payload);

impl GapSource {
    /// `length` of them, from the one at `start` on.
    #[must_use]
    pub const fn piece(&self, start: u32, length: u32) -> Payload {
        match self.0 {
            Payload::None => Payload::None,
            Payload::Request {
                request, offset, ..
            } => Payload::Request {
                request,
                offset: offset + start,
                length,
            },
            Payload::ReadResponse {
                r_key,
                virtual_address,
                srqn,
                ..
            } => Payload::ReadResponse {
                r_key,
                virtual_address: virtual_address.wrapping_add(start as u64),
                length,
                srqn,
            },
        }
    }
}
