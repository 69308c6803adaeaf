//! Seeded random numbers, the same on every machine.

use std::cell::Cell;

const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns the finalizer of SplitMix64: a pseudorandom number for each number.
#[inline]
pub const fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_add(GOLDEN_RATIO);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014).
#[derive(Debug, Clone)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    /// Returns a generator that begins with `seed`.
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Returns the next number.
    #[inline]
    pub fn number(&mut self) -> u64 {
        let number = mixed(self.state);
        self.state = self.state.wrapping_add(GOLDEN_RATIO);
        number
    }

    /// Returns a number below `end`, which is not zero.
    #[inline]
    pub fn below(&mut self, end: u64) -> u64 {
        self.number() % end
    }
}

/// Random numbers of one of many streams of a seed.
#[derive(Debug, Clone)]
pub struct Random(Cell<u64>);

impl Random {
    /// Returns the numbers of stream `stream` of a seed; streams are independent of each other.
    pub fn new(seed: u64, stream: u64) -> Self {
        Self(Cell::new(finished(
            seed.wrapping_add(finished(stream.wrapping_add(GOLDEN_RATIO))),
        )))
    }

    /// Returns the next number.
    #[inline]
    pub fn next(&self) -> u64 {
        let state = self.0.get();
        self.0.set(state.wrapping_add(GOLDEN_RATIO));
        mixed(state)
    }

    /// Returns a number below `end`, or zero if `end` is zero.
    #[inline]
    pub fn below(&self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    /// Returns true once in `times`.
    pub fn one_in(&self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// Returns one of several values.
    pub fn one_of<T: Copy>(&self, values: &[T]) -> T {
        values[self.below(values.len() as u64) as usize]
    }
}

/// Computes [`mixed`] without its first step.
const fn finished(number: u64) -> u64 {
    mixed(number.wrapping_sub(GOLDEN_RATIO))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_numbers() {
        let mut random = SplitMix64::new(1_234_567);
        let expected = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973];
        assert_eq!([random.number(), random.number()], expected);
    }

    #[test]
    fn streams_differ_and_repeat() {
        let first = |seed, stream| Random::new(seed, stream).next();
        assert_eq!(first(1, 2), first(1, 2));
        assert_ne!(first(1, 2), first(1, 3));
        assert_ne!(first(1, 2), first(2, 2));
        assert_ne!(first(1, 2), first(2, 1));
    }

    #[test]
    fn numbers_below_a_limit_are_even() {
        let random = Random::new(3, 0);
        let mut counts = [0u32; 10];
        (0..10_000).for_each(|_| counts[random.below(10) as usize] += 1);
        assert!(
            counts.iter().all(|count| (850..1150).contains(count)),
            "{counts:?}"
        );
    }
}
