//! An outgoing packet: headers, and the location of its payload.

use ferroce_wire::{Psn, RKey, TransportHeaders};

/// A packet to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transmit {
    /// Headers, including the pad count.
    pub headers: TransportHeaders,
    /// Source of the payload.
    pub payload: Payload,
    /// [`crate::SendRequest::id`] of the packet's request; `None` for responses. The caller uses it
    /// to find the path of a datagram, and passes it to [`crate::Qp::packet_left`].
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

/// Source of the payload of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payload {
    /// No payload.
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
    /// Memory that a READ request was permitted to read. If it can no longer be read:
    /// [`crate::Qp::fail_read_response`].
    ReadResponse {
        /// Key.
        r_key: RKey,
        /// First byte.
        virtual_address: u64,
        /// Bytes; never zero.
        length: u32,
        /// XRC: the shared receive queue whose protection domain applies.
        srqn: Option<u32>,
    },
    /// Bitmap of arrived packets: [`crate::Qp::write_arrivals`].
    Arrivals {
        /// The missing packet that the NAK names.
        missing: Psn,
        /// Bytes; never zero.
        length: u32,
    },
}

impl Payload {
    /// Returns the bytes of payload, without padding.
    #[must_use]
    pub const fn length(&self) -> u32 {
        match *self {
            Payload::None => 0,
            Payload::Request { length, .. }
            | Payload::ReadResponse { length, .. }
            | Payload::Arrivals { length, .. } => length,
        }
    }

    /// Returns `length` bytes of it, starting at `start`.
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
