//! Frames as the model holds them: in a ring of this machine, or in a buffer.

use crate::fabric::ring;
use crate::uplink::Buffer;

/// An owned frame.
#[derive(Debug)]
pub enum Frame {
    /// In a slot of a ring.
    Ring(ring::Frame),
    /// In a buffer: received on an uplink, or delayed by a fault. Its ICRC is checked.
    Buffer(Box<Buffer>),
}

impl AsRef<[u8]> for Frame {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Ring(frame) => frame.as_ref(),
            Self::Buffer(buffer) => buffer.bytes(),
        }
    }
}

impl AsMut<[u8]> for Frame {
    #[inline]
    fn as_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Ring(frame) => frame.as_mut(),
            Self::Buffer(buffer) => buffer.bytes_mut(),
        }
    }
}
