//! A message that arrives in several packets.

use ferroce_wire::RKey;

/// The message of which more packets are to come.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Message {
    /// There is none, or it was dropped.
    None,
    /// SEND: bytes received so far.
    Send { received: u32 },
    /// WRITE: where the next packet goes, bytes still to come and in all.
    Write {
        r_key: RKey,
        virtual_address: u64,
        remaining: u32,
        total: u32,
    },
}

impl Message {
    /// A packet of it with `payload` bytes was executed. Bytes of the message so far (SEND) or in
    /// all (WRITE).
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
