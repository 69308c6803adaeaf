//! Random numbers.

use ferroce_units::random::SplitMix64;

/// Choices by a seed.
pub struct Rng(SplitMix64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    pub fn next(&mut self) -> u64 {
        self.0.number()
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound)
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        n != 0 && self.below(n) == 0
    }

    /// Returns small numbers, special numbers and any number.
    pub fn number(&mut self) -> u64 {
        match self.below(4) {
            0 => self.below(16),
            1 => 0x100 + self.below(8),
            2 => u64::MAX >> self.below(64),
            _ => self.next(),
        }
    }
}
