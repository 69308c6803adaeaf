//! Messages declared like the tables of the IBTA: fields in order, each with its width in bits.

use core::fmt;

use crate::address::Gid;
use crate::identifiers::{PKey, QKey, Qpn};
use crate::psn::Psn;

/// Reads fields, most significant bit first.
pub(crate) struct BitReader<'a> {
    bytes: &'a [u8],
    /// Position of the next bit.
    at: usize,
}

impl<'a> BitReader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Reads the next `width` bits, at most 64. The bytes are followed by zeros.
    pub(crate) fn take(&mut self, width: usize) -> u64 {
        let mut value = 0;
        let end = self.at + width;
        while self.at < end {
            let byte = self.bytes.get(self.at / 8).copied().unwrap_or(0);
            let count = (8 - self.at % 8).min(end - self.at);
            let below = 8 - self.at % 8 - count;
            let bits = u64::from(byte) >> below & ((1 << count) - 1);
            value = value << count | bits;
            self.at += count;
        }
        value
    }
}

/// Writes fields, most significant bit first, to bytes that are zero.
pub(crate) struct BitWriter<'a> {
    bytes: &'a mut [u8],
    at: usize,
}

impl<'a> BitWriter<'a> {
    pub(crate) const fn new(bytes: &'a mut [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Writes the low `width` bits of `value`, at most 64.
    pub(crate) fn put(&mut self, value: u64, width: usize) {
        let end = self.at + width;
        while self.at < end {
            let count = (8 - self.at % 8).min(end - self.at);
            let below = 8 - self.at % 8 - count;
            let bits = value >> (end - self.at - count) & ((1 << count) - 1);
            if let Some(byte) = self.bytes.get_mut(self.at / 8) {
                *byte |= (bits << below) as u8;
            }
            self.at += count;
        }
    }
}

/// A value of a message field. Excess bits are cut off when it is written.
pub(crate) trait Field: Sized {
    fn read(bits: &mut BitReader<'_>, width: usize) -> Self;
    fn write(&self, bits: &mut BitWriter<'_>, width: usize);
}

/// Fields of at most 64 bits.
macro_rules! numbers {
    ($($type:ty: $from:expr, $to:expr;)*) => {
        $(impl $crate::cm::layout::Field for $type {
            fn read(bits: &mut $crate::cm::layout::BitReader<'_>, width: usize) -> Self {
                let from: fn(u64) -> Self = $from;
                from(bits.take(width))
            }

            fn write(&self, bits: &mut $crate::cm::layout::BitWriter<'_>, width: usize) {
                let to: fn(&Self) -> u64 = $to;
                bits.put(to(self), width);
            }
        })*
    };
}
pub(crate) use numbers;

numbers! {
    bool: |value| value != 0, |flag| u64::from(*flag);
    u8: |value| value as u8, |number| u64::from(*number);
    u16: |value| value as u16, |number| u64::from(*number);
    u32: |value| value as u32, |number| u64::from(*number);
    u64: |value| value, |number| *number;
    Qpn: |value| Qpn::new(value as u32), |qpn| u64::from(qpn.value());
    Psn: |value| Psn::new(value as u32), |psn| u64::from(psn.value());
    PKey: |value| PKey(value as u16), |key| u64::from(key.0);
    QKey: |value| QKey(value as u32), |key| u64::from(key.0);
    CommunicationId: |value| CommunicationId(value as u32), |id| u64::from(id.0);
    CmTimeout: |value| CmTimeout::new(value as u8), |timeout| u64::from(timeout.code());
}

impl Field for Gid {
    fn read(bits: &mut BitReader<'_>, _width: usize) -> Self {
        Self(core::array::from_fn(|_| bits.take(8) as u8))
    }

    fn write(&self, bits: &mut BitWriter<'_>, _width: usize) {
        self.0.iter().for_each(|byte| bits.put(u64::from(*byte), 8));
    }
}

impl<const LENGTH: usize> Field for PrivateData<LENGTH> {
    fn read(bits: &mut BitReader<'_>, _width: usize) -> Self {
        Self(core::array::from_fn(|_| bits.take(8) as u8))
    }

    fn write(&self, bits: &mut BitWriter<'_>, _width: usize) {
        self.0.iter().for_each(|byte| bits.put(u64::from(*byte), 8));
    }
}

/// Declares a struct of fields with their widths in bits, and asserts that they fill it.
macro_rules! layout {
    ($(#[$about:meta])* pub struct $name:ident of $bits:literal bits {
        $($(#[$doc:meta])* pub $field:ident: $type:ty = $width:literal,)*
    }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct $name {
            $($(#[$doc])* pub $field: $type,)*
        }

        const _: () = assert!($bits == 0 $(+ $width)*);

        impl $name {
            /// Bytes on the wire.
            pub const LENGTH: usize = $bits / 8;

            /// The fields in their order, each with its width in bits.
            pub const FIELDS: &'static [(&'static str, usize)] =
                &[$((stringify!($field), $width),)*];

            /// Reads the fields at the start of `bytes`; every bit pattern is accepted.
            ///
            /// # Errors
            ///
            /// [`Error::Truncated`](crate::Error::Truncated)
            pub fn parse(bytes: &[u8]) -> Result<Self, $crate::error::Error> {
                if bytes.len() < Self::LENGTH {
                    return Err($crate::error::Error::Truncated {
                        header: stringify!($name),
                        needed: Self::LENGTH,
                        available: bytes.len(),
                    });
                }
                let mut bits = $crate::cm::layout::BitReader::new(bytes);
                Ok($crate::cm::layout::Field::read(&mut bits, $bits))
            }

            /// Writes the fields to the start of `buffer`. Bits beyond a field's width are cut
            /// off.
            ///
            /// # Panics
            ///
            /// If the buffer is shorter than `LENGTH`.
            pub fn emit(&self, buffer: &mut [u8]) {
                let buffer = &mut buffer[..Self::LENGTH];
                buffer.fill(0);
                let mut bits = $crate::cm::layout::BitWriter::new(buffer);
                $crate::cm::layout::Field::write(self, &mut bits, $bits);
            }
        }

        impl $crate::cm::layout::Field for $name {
            fn read(bits: &mut $crate::cm::layout::BitReader<'_>, _width: usize) -> Self {
                Self {
                    $($field: $crate::cm::layout::Field::read(bits, $width),)*
                }
            }

            fn write(&self, bits: &mut $crate::cm::layout::BitWriter<'_>, _width: usize) {
                $($crate::cm::layout::Field::write(&self.$field, bits, $width);)*
            }
        }
    };
}
pub(crate) use layout;

/// A number that names a connection at one end: local or remote communication ID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct CommunicationId(pub u32);

impl CommunicationId {
    /// Used in a REJ of a side that has no identifier yet, or does not know the other's.
    pub const NONE: Self = Self(0);
}

impl fmt::Display for CommunicationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x}", self.0)
    }
}

/// A 5-bit timeout: 4.096 us times two to the power of the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct CmTimeout(u8);

impl CmTimeout {
    /// Takes the low five bits of `code`.
    #[must_use]
    pub const fn new(code: u8) -> Self {
        Self(code & 0x1f)
    }

    /// Returns the code, below 32.
    #[must_use]
    pub const fn code(self) -> u8 {
        self.0
    }

    /// Returns the time in nanoseconds.
    #[must_use]
    pub const fn as_ns(self) -> u64 {
        4096 << self.0
    }
}

/// Bytes that the communication manager passes on unread, or additional information. Shorter data
/// is padded with zeros, because the messages carry no length.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PrivateData<const LENGTH: usize>(pub [u8; LENGTH]);

impl<const LENGTH: usize> PrivateData<LENGTH> {
    /// Returns `data` padded with zeros; `None` if it is too long.
    pub fn from_slice(data: &[u8]) -> Option<Self> {
        let mut bytes = [0; LENGTH];
        bytes.get_mut(..data.len())?.copy_from_slice(data);
        Some(Self(bytes))
    }
}

impl<const LENGTH: usize> Default for PrivateData<LENGTH> {
    fn default() -> Self {
        Self([0; LENGTH])
    }
}

impl<const LENGTH: usize> fmt::Debug for PrivateData<LENGTH> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let used = self.0.iter().rposition(|byte| *byte != 0);
        let used = used.map_or(0, |last| last + 1);
        write!(f, "{LENGTH} bytes ")?;
        self.0[..used]
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
