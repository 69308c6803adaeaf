//! Parses and prints numbers, times and addresses.

use core::net::IpAddr;
use std::fmt;
use std::ops::RangeInclusive;

use ferroce_units::Duration;
use ferroce_wire::Gid;

use super::Span;
use crate::chance::Probability;

/// Units of time, the longest first, in picoseconds.
const UNITS: [(&str, u64); 4] = [
    ("ms", 1_000_000_000),
    ("us", 1_000_000),
    ("ns", 1_000),
    ("s", 1_000_000_000_000),
];

pub(super) fn probability(text: &str) -> Option<Probability> {
    Probability::new(text.parse().ok()?)
}

/// Parses a positive time with its unit: `10us`.
pub(super) fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = UNITS
        .iter()
        .find_map(|(name, unit)| Some((text.strip_suffix(name)?, *unit)))?;
    let picoseconds = number.parse::<f64>().ok()? * unit as f64;
    let is_time = picoseconds >= 0.0 && picoseconds < u64::MAX as f64;
    is_time.then(|| Duration::from_ps(picoseconds.round() as u64))
}

/// Parses `5ms..7ms`, or `5ms..`.
pub(super) fn span(text: &str) -> Option<Span> {
    let (from, until) = text.split_once("..")?;
    let from = duration(from)?;
    let until = match until {
        "" => None,
        until => Some(duration(until).filter(|until| *until > from)?),
    };
    Some(Span { from, until })
}

/// Parses `3` or `3-5`.
pub(super) fn range(text: &str) -> Option<RangeInclusive<u64>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (number(first)?, number(last)?);
    (first <= last).then_some(first..=last)
}

/// Parses a number in decimal digits.
pub(super) fn number(text: &str) -> Option<u64> {
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain)
}

pub(super) fn address(text: &str) -> Option<Gid> {
    text.parse::<IpAddr>().ok().map(Gid::from_ip)
}

/// Prints a duration in the form that [`duration`] parses.
pub(super) struct Time(pub Duration);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let picoseconds = self.0.as_ps();
        let whole = UNITS[..3].iter().find(|(_, unit)| picoseconds % unit == 0);
        match whole {
            Some((name, unit)) => write!(f, "{}{name}", picoseconds / unit),
            None => write!(f, "{}ns", picoseconds as f64 / 1000.0),
        }
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..", Time(self.from))?;
        self.until.map_or(Ok(()), |until| Time(until).fmt(f))
    }
}

/// Prints an address in the form that [`address`] parses.
pub(super) struct Address(pub Gid);

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.to_ipv4() {
            Some(address) => address.fmt(f),
            None => self.0.to_ipv6().fmt(f),
        }
    }
}

/// Prints a range in the form that [`range`] parses.
pub(super) struct Range<'a>(pub &'a RangeInclusive<u64>);

impl fmt::Display for Range<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.start(), self.0.end()) {
            (first, last) if first == last => first.fmt(f),
            (first, last) => write!(f, "{first}-{last}"),
        }
    }
}
