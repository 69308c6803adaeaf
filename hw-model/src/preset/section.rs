//! Declares a section of parameters once, for its struct, its table and its file format.

use super::value::{Kind, Range, Value};

/// The properties of a parameter that do not depend on the preset.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Declaration {
    /// Its name within the section.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
    /// Its unit; empty for a plain number or a flag.
    pub unit: &'static str,
    /// The values that it may have.
    pub range: Range,
    /// Its meaning, in one line.
    pub doc: &'static str,
}

impl Declaration {
    /// Parses a value from a command line.
    pub(super) fn parse(&self, text: &str) -> Option<Value> {
        match self.kind {
            Kind::Real => text.parse().ok().map(Value::Real),
            Kind::Count => text.parse().ok().map(Value::Count),
            Kind::Flag => text.parse().ok().map(Value::Flag),
            Kind::Name => self.range.name(text).map(Value::Name),
        }
    }

    /// Converts a value of a TOML file; an integer is also a number.
    pub(super) fn convert(&self, value: &toml::Value) -> Option<Value> {
        match (self.kind, value) {
            (Kind::Real, toml::Value::Float(real)) => Some(Value::Real(*real)),
            // No integer of a valid preset exceeds 2^53; ranges refuse the others.
            (Kind::Real, toml::Value::Integer(integer)) => Some(Value::Real(*integer as f64)),
            (Kind::Count, toml::Value::Integer(integer)) => {
                u32::try_from(*integer).ok().map(Value::Count)
            }
            (Kind::Flag, toml::Value::Boolean(flag)) => Some(Value::Flag(*flag)),
            (Kind::Name, toml::Value::String(text)) => self.range.name(text).map(Value::Name),
            _ => None,
        }
    }
}

/// A section of a preset, seen as a list of parameters.
pub(super) trait Section {
    /// Returns the declarations of the parameters.
    fn declarations(&self) -> &'static [Declaration];
    /// Returns the value of the parameter at an index.
    fn get(&self, index: usize) -> Option<Value>;
    /// Changes the parameter at an index; a value of another type is ignored.
    fn set(&mut self, index: usize, value: Value);
}

/// Declares a section: a struct whose fields are parameters.
///
/// Each line is `name: type, unit, range;` under its doc comment of one line.
macro_rules! section {
    (
        $(#[doc = $about:literal])+
        $section:ident {
            $( #[doc = $doc:literal] $name:ident: $type:ty, $unit:literal, $range:expr; )+
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone, Copy, PartialEq, Default)]
        pub struct $section {
            $( #[doc = $doc] pub $name: $type, )+
        }

        impl $crate::preset::section::Section for $section {
            fn declarations(&self) -> &'static [$crate::preset::section::Declaration] {
                const ALL: &[$crate::preset::section::Declaration] = &[
                    $( $crate::preset::section::Declaration {
                        name: stringify!($name),
                        kind: <$type as $crate::preset::value::Scalar>::KIND,
                        unit: $unit,
                        range: $range,
                        doc: $doc.trim_ascii(),
                    } ),+
                ];
                ALL
            }

            fn get(&self, index: usize) -> Option<$crate::preset::value::Value> {
                let all = [ $( $crate::preset::value::Value::from(self.$name) ),+ ];
                all.get(index).copied()
            }

            fn set(&mut self, index: usize, value: $crate::preset::value::Value) {
                use $crate::preset::value::Scalar;
                let mut rest = index;
                $(
                    if rest == 0 {
                        if let Some(value) = <$type>::from_value(value) {
                            self.$name = value;
                        }
                        return;
                    }
                    rest -= 1;
                )+
                let _ = rest;
            }
        }
    };
}

pub(super) use section;

/// Permitted values that several parameters share.
pub(super) mod range {
    use super::Range;

    /// A time in nanoseconds: zero, or up to a second.
    pub const NS: Range = Range::Between(0.0, 1e9);
    /// A service time in cycles.
    pub const CYCLES: Range = Range::Between(0.0, 1e6);
    /// A clock.
    pub const MHZ: Range = Range::Between(1.0, 10_000.0);
    /// A number of things; at least one.
    pub const SOME: Range = Range::Between(1.0, 1e6);
    /// Bytes of a buffer; at least one.
    pub const BYTES: Range = Range::Between(1.0, 4_294_967_295.0);
    /// A packet or TLP size as PCIe knows them.
    pub const TLP_BYTES: Range = Range::PowerOfTwo(128, 4096);
    /// Yes or no.
    pub const FLAG: Range = Range::Any;
}
