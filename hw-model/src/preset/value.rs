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
            _ => false,
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
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Real => "number",
            Kind::Count => "whole number",
            Kind::Flag => "flag",
        })
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Real(real) => write!(f, "{real}"),
            Value::Count(count) => write!(f, "{count}"),
            Value::Flag(flag) => write!(f, "{flag}"),
        }
    }
}

impl Kind {
    /// Parses a value from a command line.
    pub(super) fn parse(self, text: &str) -> Option<Value> {
        match self {
            Kind::Real => text.parse().ok().map(Value::Real),
            Kind::Count => text.parse().ok().map(Value::Count),
            Kind::Flag => text.parse().ok().map(Value::Flag),
        }
    }

    /// Converts a value of a TOML file; an integer is also a number.
    pub(super) fn convert(self, value: &toml::Value) -> Option<Value> {
        match (self, value) {
            (Kind::Real, toml::Value::Float(real)) => Some(Value::Real(*real)),
            // No integer of a valid preset exceeds 2^53; ranges refuse the others.
            (Kind::Real, toml::Value::Integer(integer)) => Some(Value::Real(*integer as f64)),
            (Kind::Count, toml::Value::Integer(integer)) => {
                u32::try_from(*integer).ok().map(Value::Count)
            }
            (Kind::Flag, toml::Value::Boolean(flag)) => Some(Value::Flag(*flag)),
            _ => None,
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

/// Converts a parameter in nanoseconds to a duration.
pub(crate) fn nanoseconds(ns: f64) -> Duration {
    Duration::from_ps((ns * 1000.0).round() as u64)
}
