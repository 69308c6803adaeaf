//! 24-bit circular numbers of the transport: packet and message sequence numbers.

use core::fmt;

const MASK_24: u32 = 0x00ff_ffff;
const HALF_24: u32 = 0x0080_0000;

/// A packet sequence number: 24 bits, circular.
///
/// Circular numbers have no total order, hence no `Ord`: of two numbers, the one that is at most
/// 2^23 - 1 steps ahead of the other is the later one (IBTA vol 1, chapter 9.7).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Psn(u32);

impl Psn {
    /// Takes the low 24 bits of `value`.
    #[inline]
    pub const fn new(value: u32) -> Self {
        Self(value & MASK_24)
    }

    /// Returns the number, below 2^24.
    #[inline]
    pub const fn value(self) -> u32 {
        self.0
    }

    /// Returns the following number.
    #[inline]
    #[must_use]
    pub const fn next(self) -> Self {
        self.add(1)
    }

    /// Returns the number `count` packets later.
    #[inline]
    #[must_use]
    pub const fn add(self, count: u32) -> Self {
        Self::new(self.0.wrapping_add(count))
    }

    /// Returns the number `count` packets earlier.
    #[inline]
    #[must_use]
    pub const fn sub(self, count: u32) -> Self {
        Self::new(self.0.wrapping_sub(count))
    }

    /// Returns the number of packets from `earlier` to `self`, in -2^23 .. 2^23; negative if it is
    /// before.
    #[inline]
    pub const fn distance_from(self, earlier: Self) -> i32 {
        // The difference of 24 bits, shifted up so that its sign bit is the sign bit of an i32.
        ((self.0.wrapping_sub(earlier.0) << 8) as i32) >> 8
    }

    /// Returns true if `self` is earlier than `other`.
    #[inline]
    pub const fn is_before(self, other: Self) -> bool {
        self.distance_from(other) < 0
    }

    /// Returns true if `self` is later than `other`.
    #[inline]
    pub const fn is_after(self, other: Self) -> bool {
        self.distance_from(other) > 0
    }

    /// Half of the circle: the largest distance is one less.
    pub const HALF: u32 = HALF_24;
}

impl fmt::Debug for Psn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Psn({:#08x})", self.0)
    }
}

impl fmt::Display for Psn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#08x}", self.0)
    }
}

/// A message sequence number: 24 bits, counts the messages that the responder has completed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Msn(u32);

impl Msn {
    /// Takes the low 24 bits of `value`.
    #[inline]
    pub const fn new(value: u32) -> Self {
        Self(value & MASK_24)
    }

    /// Returns the number, below 2^24.
    #[inline]
    pub const fn value(self) -> u32 {
        self.0
    }

    /// Returns the following number.
    #[inline]
    #[must_use]
    pub const fn next(self) -> Self {
        Self::new(self.0.wrapping_add(1))
    }

    /// Returns the number of messages from `earlier` to `self`, in -2^23 .. 2^23.
    #[inline]
    pub const fn distance_from(self, earlier: Self) -> i32 {
        Psn(self.0).distance_from(Psn(earlier.0))
    }
}

impl fmt::Debug for Msn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Msn({:#08x})", self.0)
    }
}

impl fmt::Display for Msn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn steps_wrap_at_24_bits() {
        let last = Psn::new(0xff_ffff);
        assert_eq!(last.next(), Psn::new(0));
        assert_eq!(Psn::new(0).sub(1), last);
        assert_eq!(Psn::new(0xff_fffa).add(10), Psn::new(4));
        assert_eq!(
            Psn::new(0x0100_0005),
            Psn::new(5),
            "the upper byte is cut off"
        );
        assert_eq!(last.add(u32::MAX), Psn::new(0xff_fffe));
        assert_eq!(Msn::new(0xff_ffff).next(), Msn::new(0));
        assert_eq!(Msn::new(1).distance_from(Msn::new(0xff_ffff)), 2);
    }

    #[test]
    fn distance_is_signed_and_circular() {
        let near_wrap = Psn::new(0xff_ffff);
        assert_eq!(Psn::new(1).distance_from(near_wrap), 2);
        assert_eq!(near_wrap.distance_from(Psn::new(1)), -2);
        assert_eq!(Psn::new(0x7f_ffff).distance_from(Psn::new(0)), 0x7f_ffff);
        assert_eq!(Psn::new(Psn::HALF).distance_from(Psn::new(0)), -0x80_0000);
        assert!(near_wrap.is_before(Psn::new(0)) && Psn::new(0).is_after(near_wrap));
        assert!(!near_wrap.is_before(near_wrap) && !near_wrap.is_after(near_wrap));
    }

    proptest! {
        #[test]
        fn distance_inverts_add(start in 0u32..1 << 24, step in 0u32..Psn::HALF) {
            let start = Psn::new(start);
            prop_assert_eq!(start.add(step).distance_from(start), step as i32);
            prop_assert_eq!(start.sub(step).distance_from(start), -(step as i32));
            prop_assert_eq!(start.add(step).sub(step), start);
            prop_assert_eq!(start.add(step).is_after(start), step != 0);
        }
    }
}
