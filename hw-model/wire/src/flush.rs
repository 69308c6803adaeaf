//! Flush extended transport header (IBTA annex A19): what a FLUSH makes visible or persistent.

use zerocopy::byteorder::big_endian::U32;

use crate::codec;
use crate::error::Error;

/// The writes that a FLUSH is about: its selectivity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FlushRange {
    /// Those to the range of the RETH.
    Range,
    /// Those to the whole region; address and length are ignored.
    Region,
}

/// The flush extended transport header. Reserved bits are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Feth(u32);

impl Feth {
    /// Bytes on the wire.
    pub const LENGTH: usize = 4;
    /// Placement: writes are visible to all readers, such as other devices and processors.
    pub const GLOBAL: Self = Self(1 << 0);
    /// Placement: writes survive the loss of power.
    pub const PERSISTENT: Self = Self(1 << 1);
    const PLACEMENT_MASK: u32 = 0xf;
    const SELECTIVITY_SHIFT: u32 = 4;
    const SELECTIVITY_MASK: u32 = 3;

    /// Returns the header with these placements, about the writes of `range`.
    #[must_use]
    pub const fn new(placements: &[Self], range: FlushRange) -> Self {
        let mut bits = match range {
            FlushRange::Range => 0,
            FlushRange::Region => 1 << Self::SELECTIVITY_SHIFT,
        };
        let mut index = 0;
        while index < placements.len() {
            bits |= placements[index].0;
            index += 1;
        }
        Self(bits)
    }

    /// Returns the header with these bits.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// Returns its bits.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Returns true if it has this placement.
    #[must_use]
    pub const fn has(self, placement: Self) -> bool {
        self.0 & placement.0 != 0
    }

    /// Returns the writes that it is about; `None` for reserved values, and for a header without
    /// a placement or with an unknown one.
    #[must_use]
    pub const fn range(self) -> Option<FlushRange> {
        let known = Self::GLOBAL.0 | Self::PERSISTENT.0;
        let placement = self.0 & Self::PLACEMENT_MASK;
        if placement == 0 || placement & !known != 0 {
            return None;
        }
        match self.0 >> Self::SELECTIVITY_SHIFT & Self::SELECTIVITY_MASK {
            0 => Some(FlushRange::Range),
            1 => Some(FlushRange::Region),
            _ => None,
        }
    }

    /// Reads the header at the start of `bytes`.
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`]
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        Ok(Self(codec::view::<U32>(bytes, "FETH")?.get()))
    }

    /// Writes the header to the start of `buffer`.
    ///
    /// # Panics
    ///
    /// If the buffer is shorter than [`Feth::LENGTH`].
    #[inline]
    pub fn emit(&self, buffer: &mut [u8]) {
        codec::write(&U32::new(self.0), buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bits_are_those_of_the_annex() {
        let both = [Feth::GLOBAL, Feth::PERSISTENT];
        for (placements, range, bits) in [
            (&both[..1], FlushRange::Range, 0x01),
            (&both[1..], FlushRange::Range, 0x02),
            (&both[..], FlushRange::Region, 0x13),
        ] {
            let feth = Feth::new(placements, range);
            let mut buffer = [0xff; 4];
            feth.emit(&mut buffer);
            assert_eq!(buffer, [0, 0, 0, bits]);
            assert_eq!(Feth::parse(&buffer), Ok(feth));
            assert_eq!(feth.range(), Some(range));
            assert_eq!(feth.has(Feth::PERSISTENT), bits & 2 != 0);
        }
        assert!(Feth::parse(&[0; 3]).is_err());
    }

    #[test]
    fn reserved_values_are_kept_and_mean_nothing() {
        for bytes in [[0x80, 0, 0, 0x21], [0; 4], [0, 0, 0, 4]] {
            let feth = Feth::parse(&bytes).expect("four bytes");
            assert_eq!(feth.range(), None, "{bytes:?}");
            let mut buffer = [0; 4];
            feth.emit(&mut buffer);
            assert_eq!(buffer, bytes);
        }
    }
}
