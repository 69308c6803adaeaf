//! Values of parameters, and which values are permitted.

use std::fmt;

use ferroce_units::Duration;

/// The value of a parameter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// A quantity; the parameter's name ends with its unit.
    Real(f64),
    /// A count.
    Count(u32),
    /// Yes or no.
    Flag(bool),
    /// One of several names.
    Name(&'static str),
}

/// The type of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// [`Value::Real`].
    Real,
    /// [`Value::Count`].
    Count,
    /// [`Value::Flag`].
    Flag,
    /// [`Value::Name`].
    Name,
}

/// The values that a parameter may have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Range {
    /// Any number from the first to the second, both included.
    Between(f64, f64),
    /// One of these.
    OneOf(&'static [u32]),
    /// A power of two from the first to the second, both included.
    PowerOfTwo(u32, u32),
    /// `true` or `false`.
    Any,
    /// One of these names.
    Names(&'static [&'static str]),
}

impl Range {
    /// Returns true if `value` is permitted; NaN never is.
    pub fn contains(&self, value: Value) -> bool {
        match (self, value) {
            (Range::Between(low, high), Value::Real(real)) => (*low..=*high).contains(&real),
            (Range::Between(low, high), Value::Count(count)) => {
                (*low..=*high).contains(&f64::from(count))
            }
            (Range::OneOf(choices), Value::Count(count)) => choices.contains(&count),
            (Range::PowerOfTwo(low, high), Value::Count(count)) => {
                count.is_power_of_two() && (*low..=*high).contains(&count)
            }
            (Range::Any, Value::Flag(_)) => true,
            (Range::Names(names), Value::Name(name)) => names.contains(&name),
            _ => false,
        }
    }

    /// Returns the permitted name that `text` is.
    pub(super) fn name(&self, text: &str) -> Option<&'static str> {
        match self {
            Range::Names(names) => names.iter().find(|name| **name == text).copied(),
            _ => None,
        }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Range::Between(low, high) => write!(f, "{low} to {high}"),
            Range::OneOf(choices) => {
                let choices: Vec<String> = choices.iter().map(u32::to_string).collect();
                write!(f, "one of {}", choices.join(", "))
            }
            Range::PowerOfTwo(low, high) => write!(f, "a power of two from {low} to {high}"),
            Range::Any => f.write_str("true or false"),
            Range::Names(names) => write!(f, "one of {}", names.join(", ")),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Real => "number",
            Kind::Count => "whole number",
            Kind::Flag => "flag",
            Kind::Name => "name",
        })
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Real(real) => write!(f, "{real}"),
            Value::Count(count) => write!(f, "{count}"),
            Value::Flag(flag) => write!(f, "{flag}"),
            Value::Name(name) => f.write_str(name),
        }
    }
}

impl Value {
    /// Returns the bits that [`super::Preset::hash`] includes.
    pub(super) fn to_bits(self) -> u64 {
        match self {
            Value::Real(real) => (real + 0.0).to_bits(), // -0.0 and 0.0 are one value
            Value::Count(count) => u64::from(count),
            Value::Flag(flag) => u64::from(flag),
            // Names differ in their first eight bytes.
            Value::Name(name) => {
                let bytes = name.bytes().take(8);
                bytes.fold(0, |bits, byte| bits << 8 | u64::from(byte))
            }
        }
    }
}

/// A Rust type that a parameter can have.
pub(super) trait Scalar: Copy + Into<Value> {
    /// Name of the type in tables and messages.
    const KIND: Kind;
    /// Returns the value if it has this type.
    fn from_value(value: Value) -> Option<Self>;
}

macro_rules! scalar {
    ($type:ty, $variant:ident) => {
        impl From<$type> for Value {
            fn from(value: $type) -> Value {
                Value::$variant(value)
            }
        }

        impl Scalar for $type {
            const KIND: Kind = Kind::$variant;

            fn from_value(value: Value) -> Option<Self> {
                match value {
                    Value::$variant(value) => Some(value),
                    _ => None,
                }
            }
        }
    };
}

scalar!(f64, Real);
scalar!(u32, Count);
scalar!(bool, Flag);

/// How the driver lets the card translate the addresses of a program's memory regions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RegionTranslation {
    /// By pages of the size with which the kernel backs the memory.
    #[default]
    Kernel,
    /// By pages of 4 KiB.
    Pages4K,
    /// By pages of 2 MiB.
    Pages2M,
    /// By one offset, without a table, as memory that is physically contiguous allows it.
    Physical,
}

impl RegionTranslation {
    const ALL: [Self; 4] = [Self::Kernel, Self::Pages4K, Self::Pages2M, Self::Physical];
    /// The names of all.
    pub(super) const NAMES: &[&str] = &["kernel", "pages-4k", "pages-2m", "physical"];
}

impl From<RegionTranslation> for Value {
    fn from(translation: RegionTranslation) -> Self {
        Self::Name(RegionTranslation::NAMES[translation as usize])
    }
}

impl Scalar for RegionTranslation {
    const KIND: Kind = Kind::Name;

    fn from_value(value: Value) -> Option<Self> {
        Self::ALL.into_iter().find(|one| Value::from(*one) == value)
    }
}

/// Converts a parameter in nanoseconds to a duration.
pub(crate) fn nanoseconds(ns: f64) -> Duration {
    Duration::from_ps((ns * 1000.0).round() as u64)
}
