//! RDMA extended transport header (IBTA vol 1, chapter 9.3): the remote memory of a WRITE or READ.

use zerocopy::byteorder::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::codec;
use crate::error::Error;
use crate::identifiers::RKey;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawReth {
    virtual_address: U64,
    r_key: U32,
    dma_length: U32,
}

const _: () = assert!(size_of::<RawReth>() == Reth::LENGTH);

/// The RDMA extended transport header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reth {
    /// First byte in the responder's memory
    pub virtual_address: u64,
    /// Key of the region or window that holds the range
    pub r_key: RKey,
    /// Bytes of the whole message
    pub dma_length: u32,
}

impl Reth {
    /// Bytes on the wire.
    pub const LENGTH: usize = 16;

    /// Reads the header at the start of `bytes`.
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`]
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let raw: &RawReth = codec::view(bytes, "RETH")?;
        Ok(Self {
            virtual_address: raw.virtual_address.get(),
            r_key: RKey(raw.r_key.get()),
            dma_length: raw.dma_length.get(),
        })
    }

    /// Writes the header to the start of `buffer`.
    ///
    /// # Panics
    ///
    /// If the buffer is shorter than [`Reth::LENGTH`].
    #[inline]
    pub fn emit(&self, buffer: &mut [u8]) {
        let raw = RawReth {
            virtual_address: U64::new(self.virtual_address),
            r_key: U32::new(self.r_key.0),
            dma_length: U32::new(self.dma_length),
        };
        codec::write(&raw, buffer);
    }
}
