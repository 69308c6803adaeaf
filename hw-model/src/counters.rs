//! The counters behind the counter registers.

use ferroce_spec::counter::{COUNTER_COUNT, Counter};

/// Values of all counters; 64 bits do not wrap in the life of a card.
#[derive(Debug, Clone)]
pub struct Counters([u64; COUNTER_COUNT]);

impl Counters {
    /// All zero.
    pub const fn new() -> Self {
        Self([0; COUNTER_COUNT])
    }

    /// Counts `amount` more.
    #[inline]
    pub fn add(&mut self, counter: Counter, amount: u64) {
        self.0[counter as usize] = self.0[counter as usize].wrapping_add(amount);
    }

    /// Counts what has been counted since `since` so many times more.
    pub fn repeat(&mut self, since: &Self, times: u64) {
        for (value, before) in self.0.iter_mut().zip(since.0) {
            let amount = value.wrapping_sub(before).wrapping_mul(times);
            *value = value.wrapping_add(amount);
        }
    }

    /// The value of one counter.
    pub fn value(&self, counter: Counter) -> u64 {
        self.0[counter as usize]
    }

    /// All values, in the order of the counter registers.
    pub fn values(&self) -> &[u64; COUNTER_COUNT] {
        &self.0
    }
}

impl Default for Counters {
    fn default() -> Self {
        Self::new()
    }
}
