//! The values of the counter registers.

use ferroce_spec::counter::{COUNTER_COUNT, Counter};

/// Values of all counters; 64 bits do not wrap in the lifetime of a card.
#[derive(Debug, Clone)]
pub struct Counters([u64; COUNTER_COUNT]);

impl Counters {
    /// Returns counters that are all zero.
    pub const fn new() -> Self {
        Self([0; COUNTER_COUNT])
    }

    /// Returns counters with these values, in the order of the counter registers.
    pub const fn from_values(values: [u64; COUNTER_COUNT]) -> Self {
        Self(values)
    }

    /// Adds `amount` to a counter.
    #[inline]
    pub fn add(&mut self, counter: Counter, amount: u64) {
        self.0[counter as usize] = self.0[counter as usize].wrapping_add(amount);
    }

    /// Adds the difference between `before` and `after`.
    pub fn add_difference(&mut self, before: &Self, after: &Self) {
        for (value, (before, after)) in self.0.iter_mut().zip(before.0.iter().zip(&after.0)) {
            *value = value.wrapping_add(after.wrapping_sub(*before));
        }
    }

    /// Adds a part of the values of `other`: for each counter number, `part_of` returns numerator
    /// and denominator.
    pub fn add_part(&mut self, other: &Self, part_of: impl Fn(usize) -> (u64, u64)) {
        for (number, (value, other)) in self.0.iter_mut().zip(other.0).enumerate() {
            let (numerator, denominator) = part_of(number);
            let part = u128::from(other) * u128::from(numerator) / u128::from(denominator.max(1));
            *value = value.wrapping_add(part as u64);
        }
    }

    /// Returns the value of one counter.
    pub fn value(&self, counter: Counter) -> u64 {
        self.0[counter as usize]
    }

    /// Returns all values, in the order of the counter registers.
    pub fn values(&self) -> &[u64; COUNTER_COUNT] {
        &self.0
    }
}

impl Default for Counters {
    fn default() -> Self {
        Self::new()
    }
}
