//! Immediate data and the key to invalidate (IBTA vol 1, chapter 9.3).

use zerocopy::byteorder::big_endian::U32;

use crate::codec;
use crate::error::Error;
use crate::identifiers::RKey;

/// Immediate data: four bytes carried into the receiver's completion.
///
/// The bytes are in wire order, as the application passed them (`__be32 imm_data`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Immediate(pub [u8; 4]);

impl Immediate {
    /// Bytes on the wire.
    pub const LENGTH: usize = 4;

    /// Reads the header at the start of `bytes`.
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`]
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        codec::view(bytes, "ImmDt").copied().map(Self)
    }

    /// Writes the header to the start of `buffer`.
    ///
    /// # Panics
    ///
    /// If the buffer is shorter than [`Immediate::LENGTH`].
    #[inline]
    pub fn emit(&self, buffer: &mut [u8]) {
        codec::write(&self.0, buffer);
    }
}

/// The invalidate extended transport header of SEND with invalidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ieth {
    /// The key that the responder shall invalidate
    pub r_key: RKey,
}

impl Ieth {
    /// Bytes on the wire.
    pub const LENGTH: usize = 4;

    /// Reads the header at the start of `bytes`.
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`]
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        Ok(Self {
            r_key: RKey(codec::view::<U32>(bytes, "IETH")?.get()),
        })
    }

    /// Writes the header to the start of `buffer`.
    ///
    /// # Panics
    ///
    /// If the buffer is shorter than [`Ieth::LENGTH`].
    #[inline]
    pub fn emit(&self, buffer: &mut [u8]) {
        codec::write(&U32::new(self.r_key.0), buffer);
    }
}
