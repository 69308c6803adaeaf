//! Ports of a module, as Verilator stores them.

/// The side that drives a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The test bench.
    Input,
    /// The module.
    Output,
}

/// A port of the top module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Port {
    /// Name in the source.
    pub name: &'static str,
    /// Direction
    pub direction: Direction,
    /// Width
    pub bits: u32,
}

/// Returns the bytes in which Verilator stores `bits` bits: the smallest integer type that holds
/// them, or an array of 32-bit words.
pub const fn storage_bytes(bits: u32) -> usize {
    match bits {
        0..=8 => 1,
        9..=16 => 2,
        17..=32 => 4,
        33..=64 => 8,
        more => 4 * more.div_ceil(32) as usize,
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A type in which Verilator stores a port. Any bytes are a value of it.
pub trait PortValue: Copy + sealed::Sealed {
    /// Returns true if no bit from `bits` on is set.
    fn fits(&self, bits: u32) -> bool;
    /// Returns a value whose word `n` of 32 bits is `word(n)`.
    fn of_words(word: impl Fn(usize) -> u32) -> Self;
    /// Returns a word of 32 bits.
    fn word(&self, n: usize) -> u32;
}

macro_rules! scalar {
    ($($kind:ty),*) => { $(
        impl sealed::Sealed for $kind {}
        impl PortValue for $kind {
            #[inline]
            fn fits(&self, bits: u32) -> bool {
                self.checked_shr(bits).unwrap_or(0) == 0
            }
            #[inline]
            fn of_words(word: impl Fn(usize) -> u32) -> Self {
                (u64::from(word(0)) | u64::from(word(1)) << 32) as $kind
            }
            #[inline]
            fn word(&self, n: usize) -> u32 {
                (u64::from(*self) >> (32 * n)) as u32
            }
        }
    )* };
}

scalar!(u8, u16, u32, u64);

impl<const WORDS: usize> sealed::Sealed for [u32; WORDS] {}

impl<const WORDS: usize> PortValue for [u32; WORDS] {
    #[inline]
    fn fits(&self, bits: u32) -> bool {
        let used = bits as usize / 32;
        let rest = self.get(used).is_none_or(|word| word.fits(bits % 32));
        rest && self.iter().skip(used + 1).all(|word| *word == 0)
    }
    #[inline]
    fn of_words(word: impl Fn(usize) -> u32) -> Self {
        core::array::from_fn(word)
    }
    #[inline]
    fn word(&self, n: usize) -> u32 {
        self[n]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storage_is_the_smallest_type_that_holds_the_bits() {
        let bytes = [1, 8, 9, 16, 17, 32, 33, 64, 65, 96, 512].map(storage_bytes);
        assert_eq!(bytes, [1, 1, 2, 2, 4, 4, 8, 8, 12, 12, 64]);
    }

    #[test]
    fn values_beyond_the_width_do_not_fit() {
        assert!(7u8.fits(3) && !8u8.fits(3));
        assert!(u64::MAX.fits(64) && !u64::MAX.fits(63));
        assert!([u32::MAX, 1].fits(33) && ![0, 2].fits(33));
        assert!([u32::MAX; 2].fits(64) && ![0, 0, 1].fits(64));
    }
}
