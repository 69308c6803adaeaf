//! A message of several packets that is being received.

use ferroce_wire::RKey;

/// The unfinished message.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Message {
    /// There is none, or it was dropped.
    None,
    /// SEND: bytes received so far.
    Send { received: u32 },
    /// WRITE: address of the next packet, bytes left, and total length.
    Write {
        r_key: RKey,
        virtual_address: u64,
        remaining: u32,
        total: u32,
    },
}

impl Message {
    /// Returns the bytes of a SEND that were received so far.
    pub(crate) const fn received(self) -> u32 {
        match self {
            Message::Send { received } => received,
            Message::None | Message::Write { .. } => 0,
        }
    }

    /// Records an executed packet with `payload` bytes. Returns the bytes of the message so far
    /// (SEND) or in total (WRITE).
    #[inline]
    pub(crate) fn advance(&mut self, payload: u32) -> u32 {
        match self {
            Message::Send { received } => {
                *received += payload;
                *received
            }
            Message::Write {
                virtual_address,
                remaining,
                total,
                ..
            } => {
                *virtual_address = virtual_address.wrapping_add(u64::from(payload));
                *remaining -= payload;
                *total
            }
            Message::None => 0,
        }
    }
}
