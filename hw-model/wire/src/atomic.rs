//! Headers of atomic operations (IBTA vol 1, chapter 9.3).

use zerocopy::byteorder::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::codec;
use crate::error::Error;
use crate::identifiers::RKey;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawAtomicEth {
    virtual_address: U64,
    r_key: U32,
    swap_or_add: U64,
    compare: U64,
}

const _: () = assert!(size_of::<RawAtomicEth>() == AtomicEth::LENGTH);

/// The atomic extended transport header: the operands of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AtomicEth {
    /// The eight bytes at the responder; a multiple of 8
    pub virtual_address: u64,
    /// Key of the region or window that holds them
    pub r_key: RKey,
    /// The new value (compare and swap) or the number to add (fetch and add)
    pub swap_or_add: u64,
    /// The value to compare with; unused by fetch and add
    pub compare: u64,
}

impl AtomicEth {
    /// Bytes on the wire.
    pub const LENGTH: usize = 28;

    /// Reads the header at the start of `bytes`.
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`]
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let raw: &RawAtomicEth = codec::view(bytes, "AtomicETH")?;
        Ok(Self {
            virtual_address: raw.virtual_address.get(),
            r_key: RKey(raw.r_key.get()),
            swap_or_add: raw.swap_or_add.get(),
            compare: raw.compare.get(),
        })
    }

    /// Writes the header to the start of `buffer`.
    ///
    /// # Panics
    ///
    /// If the buffer is shorter than [`AtomicEth::LENGTH`].
    #[inline]
    pub fn emit(&self, buffer: &mut [u8]) {
        let raw = RawAtomicEth {
            virtual_address: U64::new(self.virtual_address),
            r_key: U32::new(self.r_key.0),
            swap_or_add: U64::new(self.swap_or_add),
            compare: U64::new(self.compare),
        };
        codec::write(&raw, buffer);
    }
}

/// The atomic acknowledge extended transport header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AtomicAckEth {
    /// The value of the responder's memory before the operation
    pub original: u64,
}

impl AtomicAckEth {
    /// Bytes on the wire.
    pub const LENGTH: usize = 8;

    /// Reads the header at the start of `bytes`.
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`]
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        Ok(Self {
            original: codec::view::<U64>(bytes, "AtomicAckETH")?.get(),
        })
    }

    /// Writes the header to the start of `buffer`.
    ///
    /// # Panics
    ///
    /// If the buffer is shorter than [`AtomicAckEth::LENGTH`].
    #[inline]
    pub fn emit(&self, buffer: &mut [u8]) {
        codec::write(&U64::new(self.original), buffer);
    }
}
