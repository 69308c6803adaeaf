//! ECN: decides by queue length which packets a port marks.
//!
//! The curve is the one of RED: no packet below `kmin`, every packet above `kmax`, and between them
//! a share that rises from zero to `pmax`. The decision is made when the packet leaves the queue,
//! from the queue length at that time, so that the mark reflects the queue of the next packets.

use ferroce_units::random::Random;

use crate::fabric_plan::MarkCurve;

/// Probabilities are fixed-point numbers with this many bits.
const PROBABILITY_BITS: u32 = 32;

impl MarkCurve {
    /// Returns the probability of a mark with `queued` bytes in the queue.
    pub fn probability(&self, queued: u64) -> f64 {
        if queued <= self.kmin_bytes {
            return 0.0;
        }
        if queued >= self.kmax_bytes {
            return 1.0;
        }
        let span = (self.kmax_bytes - self.kmin_bytes) as f64;
        self.pmax * (queued - self.kmin_bytes) as f64 / span
    }

    /// Returns true if a packet that leaves a queue of `queued` bytes is marked. It draws a random
    /// number only if the result depends on it.
    pub fn marks(&self, queued: u64, random: &Random) -> bool {
        let probability = self.probability(queued);
        if probability <= 0.0 || probability >= 1.0 {
            return probability >= 1.0;
        }
        let range = 1u64 << PROBABILITY_BITS;
        random.below(range) < (probability * range as f64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CURVE: MarkCurve = MarkCurve {
        kmin_bytes: 100,
        kmax_bytes: 300,
        pmax: 0.2,
    };

    #[test]
    fn the_curve_rises_from_kmin_to_kmax() {
        let points = [(0, 0.0), (100, 0.0), (200, 0.1), (299, 0.199), (300, 1.0)];
        for (queued, probability) in points {
            let found = CURVE.probability(queued);
            assert!((found - probability).abs() < 1e-9, "{queued}: {found}");
        }
    }

    #[test]
    fn as_many_are_marked_as_the_curve_says() {
        let random = Random::new(1, 1);
        let marked = (0..100_000).filter(|_| CURVE.marks(200, &random)).count();
        assert!((9_500..10_500).contains(&marked), "{marked}");
    }

    #[test]
    fn a_step_draws_no_random_numbers() {
        let step = MarkCurve {
            kmin_bytes: 100,
            kmax_bytes: 100,
            pmax: 0.0,
        };
        let random = Random::new(1, 1);
        assert!(!step.marks(100, &random));
        assert!(step.marks(101, &random));
        assert_eq!(random.next(), Random::new(1, 1).next());
    }
}
