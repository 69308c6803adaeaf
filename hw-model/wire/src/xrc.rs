//! XRC extended transport header (IBTA annex A14): the shared receive queue of a request.

use zerocopy::byteorder::big_endian::U32;

use crate::codec;
use crate::error::Error;

/// The XRC extended transport header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct XrcEth {
    /// Number of the shared receive queue at the responder, 24 bits
    pub srq_number: u32,
    /// Sent as zero, kept when received
    pub reserved: u8,
}

impl XrcEth {
    /// Bytes on the wire.
    pub const LENGTH: usize = 4;

    /// Takes the low 24 bits of `srq_number`; the reserved byte is clear.
    #[inline]
    pub const fn new(srq_number: u32) -> Self {
        Self {
            srq_number: srq_number & 0x00ff_ffff,
            reserved: 0,
        }
    }

    /// Reads the header at the start of `bytes`.
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`]
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let raw = codec::view::<U32>(bytes, "XRCETH")?.get();
        Ok(Self {
            srq_number: raw & 0x00ff_ffff,
            reserved: (raw >> 24) as u8,
        })
    }

    /// Writes the header to the start of `buffer`.
    ///
    /// # Panics
    ///
    /// If the buffer is shorter than [`XrcEth::LENGTH`].
    #[inline]
    pub fn emit(&self, buffer: &mut [u8]) {
        let raw = u32::from(self.reserved) << 24 | self.srq_number & 0x00ff_ffff;
        codec::write(&U32::new(raw), buffer);
    }
}
