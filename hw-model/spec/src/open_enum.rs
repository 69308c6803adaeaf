//! Open enums: newtypes with named constants.
//!
//! A value that the other side wrote may be any bit pattern. A closed Rust enum inside a layout
//! would make an unknown value undefined behaviour; an open enum makes it a value to refuse.

/// One named value of an open enum, for the generated reference.
#[derive(Debug, Clone, Copy)]
pub struct EnumValue {
    /// The number.
    pub value: u64,
    /// The name, as in the code.
    pub name: &'static str,
    /// What it means.
    pub meaning: &'static str,
}

/// An open enum, for the generated reference.
#[derive(Debug, Clone, Copy)]
pub struct EnumTable {
    /// Name of the type.
    pub name: &'static str,
    /// What the type is for.
    pub meaning: &'static str,
    /// Width in bits.
    pub width: u32,
    /// All named values, in order.
    pub values: &'static [EnumValue],
}

/// Declares an open enum: a newtype over an integer with named constants.
macro_rules! open_enum {
    (
        #[doc = $meaning:literal]
        pub enum $name:ident: $repr:ident {
            $( #[doc = $value_meaning:literal] $value_name:ident = $value:literal, )*
        }
    ) => {
        #[doc = $meaning]
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        #[derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable)]
        #[derive(zerocopy::KnownLayout)]
        #[repr(transparent)]
        pub struct $name(pub $repr);

        impl $name {
            $( #[doc = $value_meaning] pub const $value_name: Self = Self($value); )*

            /// Every named value.
            pub const TABLE: $crate::open_enum::EnumTable = $crate::open_enum::EnumTable {
                name: stringify!($name),
                meaning: $meaning,
                width: $repr::BITS,
                values: &[ $( $crate::open_enum::EnumValue {
                    value: $value,
                    name: stringify!($value_name),
                    meaning: $value_meaning,
                }, )* ],
            };

            /// The name of this value, if it has one.
            pub fn name(self) -> Option<&'static str> {
                Self::TABLE.values.iter().find(|v| v.value == u64::from(self.0)).map(|v| v.name)
            }
        }

        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match self.name() {
                    Some(name) => f.write_str(name),
                    None => write!(f, concat!(stringify!($name), "({:#x})"), self.0),
                }
            }
        }
    };
}

pub(crate) use open_enum;
