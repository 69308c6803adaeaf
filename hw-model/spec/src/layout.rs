//! Macros that declare a layout once, as a Rust type and as rows of the programmer's reference.

/// A field of a structure in memory, for the generated reference.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// Offset from the start of the structure, in bytes.
    pub offset: usize,
    /// Size in bytes.
    pub size: usize,
    /// Name, as in the code.
    pub name: &'static str,
    /// Type: an integer, or the name of a word or structure with its own table.
    pub kind: &'static str,
    /// What it means.
    pub meaning: &'static str,
}

/// A structure in memory, for the generated reference.
#[derive(Debug, Clone, Copy)]
pub struct LayoutTable {
    /// Name of the type.
    pub name: &'static str,
    /// What the structure is for.
    pub meaning: &'static str,
    /// Size in bytes.
    pub size: usize,
    /// Fields in order of their offset.
    pub fields: &'static [Field],
}

/// A number of the contract: a size, a limit, an identity.
#[derive(Debug, Clone, Copy)]
pub struct Constant {
    /// Name, as in the code.
    pub name: &'static str,
    /// Width of its type, in bits.
    pub width: u32,
    /// The number.
    pub value: u64,
    /// What it means.
    pub meaning: &'static str,
}

/// A run of bits inside a word, for the generated reference.
#[derive(Debug, Clone, Copy)]
pub struct Bits {
    /// Highest bit.
    pub high: u32,
    /// Lowest bit.
    pub low: u32,
    /// Name, as in the code.
    pub name: &'static str,
    /// What it means.
    pub meaning: &'static str,
}

/// A word made of bit fields, for the generated reference.
#[derive(Debug, Clone, Copy)]
pub struct WordTable {
    /// Name of the type.
    pub name: &'static str,
    /// What the word is for.
    pub meaning: &'static str,
    /// Width in bits.
    pub width: u32,
    /// Bit fields, in order of declaration; bits not named are reserved and zero.
    pub bits: &'static [Bits],
}

/// Declares the constants of a module, and their table.
macro_rules! constants {
    ( $( $( #[doc = $meaning:literal] )+ pub const $name:ident: $kind:ident = $value:expr; )+ ) => {
        $( $( #[doc = $meaning] )+ pub const $name: $kind = $value; )+

        /// The constants of this module.
        pub const CONSTANTS: &[$crate::layout::Constant] = &[ $( $crate::layout::Constant {
            name: stringify!($name),
            width: $crate::layout::constant_width(stringify!($kind)),
            value: $name as u64,
            meaning: concat!($( $meaning ),+),
        }, )+ ];
    };
}

/// Returns the bits of a constant of type `kind`: as many as a register of that size has; `usize`
/// counts as 32.
pub(crate) const fn constant_width(kind: &str) -> u32 {
    match kind.as_bytes() {
        b"u8" => 8,
        b"u16" => 16,
        b"u64" => 64,
        _ => 32,
    }
}

/// Declares a structure as it lies in memory (little-endian, no padding).
macro_rules! layout {
    (
        #[doc = $meaning:literal]
        pub struct $name:ident: $size:literal {
            $( $offset:literal $field:ident: $kind:ty, $field_meaning:literal; )*
        }
    ) => {
        #[doc = $meaning]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        #[derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable)]
        #[derive(zerocopy::KnownLayout)]
        #[repr(C)]
        pub struct $name {
            $( #[doc = $field_meaning] pub $field: $kind, )*
        }

        const _: () = {
            assert!(core::mem::size_of::<$name>() == $size);
            $( assert!(core::mem::offset_of!($name, $field) == $offset); )*
        };

        impl $name {
            /// Size in bytes.
            pub const SIZE: usize = $size;

            /// Rows of the programmer's reference.
            pub const TABLE: $crate::layout::LayoutTable = $crate::layout::LayoutTable {
                name: stringify!($name),
                meaning: $meaning,
                size: $size,
                fields: &[ $( $crate::layout::Field {
                    offset: $offset,
                    size: core::mem::size_of::<$kind>(),
                    name: stringify!($field),
                    kind: stringify!($kind),
                    meaning: $field_meaning,
                }, )* ],
            };
        }
    };
}

/// Declares a word made of bit fields: numbers as `[high:low]`, then single-bit flags as `[bit]`.
macro_rules! word {
    (
        #[doc = $meaning:literal]
        pub struct $name:ident: $repr:ident {
            $( [$high:literal : $low:literal] $field:ident, $set:ident: $kind:ty,
               $field_meaning:literal; )*
            $( flag [$bit:literal] $flag:ident, $set_flag:ident, $flag_meaning:literal; )*
        }
    ) => {
        bitfield::bitfield! {
            #[doc = $meaning]
            #[derive(Clone, Copy, PartialEq, Eq, Default)]
            #[derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable)]
            #[derive(zerocopy::KnownLayout)]
            #[repr(transparent)]
            pub struct $name($repr);
            impl Debug;
            $repr;
            $( #[doc = $field_meaning] #[inline] pub $kind, $field, $set: $high, $low; )*
            $( #[doc = $flag_meaning] #[inline] pub $flag, $set_flag: $bit; )*
        }

        impl $name {
            /// The word with these bits.
            pub const fn from_bits(bits: $repr) -> Self {
                Self(bits)
            }

            /// All bits.
            pub const fn bits(self) -> $repr {
                self.0
            }

            /// Rows of the programmer's reference.
            pub const TABLE: $crate::layout::WordTable = $crate::layout::WordTable {
                name: stringify!($name),
                meaning: $meaning,
                width: $repr::BITS,
                bits: &[
                    $( $crate::layout::Bits {
                        high: $high, low: $low, name: stringify!($field),
                        meaning: $field_meaning,
                    }, )*
                    $( $crate::layout::Bits {
                        high: $bit, low: $bit, name: stringify!($flag), meaning: $flag_meaning,
                    }, )*
                ],
            };
        }
    };
}

pub(crate) use {constants, layout, word};
