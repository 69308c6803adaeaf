//! Numbers that name queue pairs, partitions and keys on the wire.

use core::fmt;

/// A queue pair number: 24 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Qpn(u32);

impl Qpn {
    /// The general service interface, which the connection manager uses.
    pub const GSI: Self = Self(1);

    /// The destination of a multicast datagram: all ones.
    pub const MULTICAST: Self = Self(0x00ff_ffff);

    /// Takes the low 24 bits of `value`.
    #[inline]
    pub const fn new(value: u32) -> Self {
        Self(value & 0x00ff_ffff)
    }

    /// Returns the number, below 2^24.
    #[inline]
    pub const fn value(self) -> u32 {
        self.0
    }
}

impl fmt::Debug for Qpn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Qpn({:#08x})", self.0)
    }
}

impl fmt::Display for Qpn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#08x}", self.0)
    }
}

/// A partition key. The most significant bit distinguishes full members from limited ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PKey(pub u16);

impl PKey {
    /// The default partition, full member: the only key of an ordinary RoCE port.
    pub const DEFAULT: Self = Self(0xffff);

    /// Returns true if a member with `other` accepts packets of a member with `self`: same
    /// partition, and not both limited members (IBTA vol 1, 10.9.3).
    #[inline]
    pub const fn matches(self, other: Self) -> bool {
        const FULL: u16 = 0x8000;
        self.0 | FULL == other.0 | FULL && (self.0 | other.0) & FULL != 0
    }
}

impl Default for PKey {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// A queue key: packets to a datagram queue pair must carry its queue key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct QKey(pub u32);

impl QKey {
    /// The queue key of QP 1.
    pub const GSI: Self = Self(0x8001_0000);
}

/// A remote key: names a memory region or window at the responder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RKey(pub u32);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qpn_has_24_bits() {
        assert_eq!(Qpn::new(0xaa00_0011).value(), 0x11);
        assert_eq!(
            format!("{} {:?}", Qpn::GSI, Qpn::GSI),
            "0x000001 Qpn(0x000001)"
        );
    }

    #[test]
    fn pkey_matches_unless_both_are_limited() {
        assert!(PKey(0xffff).matches(PKey(0x7fff)));
        assert!(PKey(0x7fff).matches(PKey(0xffff)));
        assert!(!PKey(0x7fff).matches(PKey(0x7fff)));
        assert!(!PKey(0xffff).matches(PKey(0xfffe)));
    }
}
