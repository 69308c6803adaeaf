//! Datagram extended transport header (IBTA vol 1, chapter 9.3): the sender of a datagram.

use zerocopy::byteorder::big_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::codec;
use crate::error::Error;
use crate::identifiers::{QKey, Qpn};

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawDeth {
    q_key: U32,
    /// Reserved (8), source QP (24)
    source_qp: U32,
}

const _: () = assert!(size_of::<RawDeth>() == Deth::LENGTH);

/// The datagram extended transport header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deth {
    /// Must equal the queue key of the destination queue pair
    pub q_key: QKey,
    /// The sending queue pair, to which an answer may go
    pub source_qp: Qpn,
    /// Sent as zero, kept when received
    pub reserved: u8,
}

impl Deth {
    /// Bytes on the wire.
    pub const LENGTH: usize = 8;

    /// Returns a header with its reserved byte clear.
    #[inline]
    pub const fn new(q_key: QKey, source_qp: Qpn) -> Self {
        Self {
            q_key,
            source_qp,
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
        let raw: &RawDeth = codec::view(bytes, "DETH")?;
        let source_qp = raw.source_qp.get();
        Ok(Self {
            q_key: QKey(raw.q_key.get()),
            source_qp: Qpn::new(source_qp),
            reserved: (source_qp >> 24) as u8,
        })
    }

    /// Writes the header to the start of `buffer`.
    ///
    /// # Panics
    ///
    /// If the buffer is shorter than [`Deth::LENGTH`].
    #[inline]
    pub fn emit(&self, buffer: &mut [u8]) {
        let raw = RawDeth {
            q_key: U32::new(self.q_key.0),
            source_qp: U32::new(u32::from(self.reserved) << 24 | self.source_qp.value()),
        };
        codec::write(&raw, buffer);
    }
}
