//! A packet that leaves: headers, and where its payload is to be gathered.

use ferroce_wire::{Psn, RKey, TransportHeaders};

/// A packet to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transmit {
    /// Headers, pad count included.
    pub headers: TransportHeaders,
    /// Where the payload comes from.
    pub payload: Payload,
    /// [`crate::SendRequest::id`] of the request that the packet belongs to; none for responses.
    /// The caller finds the path of a datagram by it, and passes it to [`crate::Qp::packet_left`].
    pub request: Option<u32>,
}

impl Transmit {
    /// Returns true if it is the first packet of a request.
    #[inline]
    #[must_use]
    pub const fn begins_request(&self) -> bool {
        self.headers.bth.opcode.begins_request()
    }
}

/// Where the payload of a packet comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payload {
    /// There is none.
    None,
    /// The buffers of a send request. If they cannot be read: [`crate::Qp::fail_send`].
    Request {
        /// [`crate::SendRequest::id`].
        request: u32,
        /// First byte, counted from the start of the message.
        offset: u32,
        /// Bytes; never zero.
        length: u32,
    },
    /// Memory that a READ request was allowed to see. If it cannot be read any more:
    /// [`crate::Qp::fail_read_response`].
    ReadResponse {
        /// Key.
        r_key: RKey,
        /// First byte.
        virtual_address: u64,
        /// Bytes; never zero.
        length: u32,
        /// XRC: the shared receive queue whose protection domain counts.
        srqn: Option<u32>,
    },
    /// Which packets have arrived: [`crate::Qp::write_arrivals`].
    Arrivals {
        /// The missing packet that the NAK is for.
        missing: Psn,
        /// Bytes; never zero.
        length: u32,
    },
}

impl Payload {
    /// Bytes of payload, without padding.
    #[must_use]
    pub const fn length(&self) -> u32 {
        match *self {
            Payload::None => 0,
            Payload::Request { length, .. }
            | Payload::ReadResponse { length, .. }
            | Payload::Arrivals { length, .. } => length,
        }
    }

    /// Returns `length` bytes of it, from the one at `start` on.
    #[must_use]
    pub const fn part(&self, start: u32, length: u32) -> Payload {
        match *self {
            Payload::None | Payload::Arrivals { .. } => *self,
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
