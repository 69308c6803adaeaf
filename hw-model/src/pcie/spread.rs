//! The distribution of host read latency: seeded, and the same on every machine.

use ferroce_units::Duration;
use ferroce_units::random::SplitMix64;

/// Latency of host memory: a body around the mean, and occasionally a long one.
///
/// The body is `mean` plus `jitter` times the sum of two uniform numbers in -1/2 ..= 1/2: bounded,
/// symmetric, 0.68 jitter at the 95th percentile. A long one takes up to `tail` more.
#[derive(Debug, Clone)]
pub struct Spread {
    random: SplitMix64,
    floor_ps: u64,
    jitter_ps: u64,
    /// In units of 2^-24.
    tail_chance: u64,
    tail_ps: u64,
}

impl Spread {
    const CHANCE_BITS: u32 = 24;
    const UNIFORM_BITS: u32 = 20;

    /// Returns a distribution with the given mean of its body.
    pub fn new(
        seed: u64,
        mean: Duration,
        jitter: Duration,
        tail_probability: f64,
        tail: Duration,
    ) -> Self {
        let jitter = jitter.min(mean);
        let chance = tail_probability.clamp(0.0, 1.0) * f64::from(1 << Self::CHANCE_BITS);
        Self {
            random: SplitMix64::new(seed),
            floor_ps: mean.as_ps() - jitter.as_ps(),
            jitter_ps: jitter.as_ps(),
            tail_chance: chance.round() as u64,
            tail_ps: tail.as_ps(),
        }
    }

    /// Returns the next latency.
    #[inline]
    pub fn next(&mut self) -> Duration {
        const MASK: u64 = (1 << Spread::UNIFORM_BITS) - 1;
        let bits = self.random.number();
        let sum = (bits & MASK) + ((bits >> Self::UNIFORM_BITS) & MASK);
        let mut latency = self.floor_ps + ((self.jitter_ps * sum) >> Self::UNIFORM_BITS);
        if (bits >> (64 - Self::CHANCE_BITS)) < self.tail_chance {
            let extra = self.random.number() >> 32;
            latency += (self.tail_ps.min(1 << 32) * extra) >> 32;
        }
        Duration::from_ps(latency)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_is_symmetric_and_bounded_and_the_tail_is_rare() {
        let ns = Duration::from_ns;
        let mut spread = Spread::new(1, ns(400), ns(30), 0.01, ns(1000));
        let mut latencies: Vec<u64> = (0..100_000).map(|_| spread.next().as_ps()).collect();
        latencies.sort_unstable();
        assert!(latencies[0] >= 370_000);
        let median = latencies[50_000];
        assert!((399_500..400_800).contains(&median), "{median}");
        let long = latencies.iter().filter(|ps| **ps > 430_000).count();
        assert!((850..1100).contains(&long), "{long}");
        assert!(*latencies.last().expect("not empty") < 1_430_000);
    }

    #[test]
    fn without_spread_every_latency_is_the_mean() {
        let mean = Duration::from_ns(123);
        let mut spread = Spread::new(9, mean, Duration::ZERO, 0.0, Duration::ZERO);
        assert!((0..100).all(|_| spread.next() == mean));
    }
}
