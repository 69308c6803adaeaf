//! A link with seeded faults and a virtual clock.

use std::collections::BTreeMap;

use ferroce_cm::Transmit;
use ferroce_units::random::Random;
use ferroce_units::{Duration, Instant};

/// Faults of datagrams in flight, per thousand.
#[derive(Debug, Clone, Copy)]
pub struct Faults {
    pub loss: u64,
    pub duplication: u64,
    pub reordering: u64,
    /// Maximum additional delay of overtaken datagrams and copies.
    pub jitter: Duration,
    /// Nothing arrives from this time on.
    pub blackout: Instant,
}

#[derive(Debug)]
pub struct Link {
    pub faults: Faults,
    random: Random,
    /// By time of arrival, then order of sending.
    in_flight: BTreeMap<(Instant, u64), (usize, Transmit)>,
    sequence: u64,
}

const DELAY: Duration = Duration::from_us(10);

impl Link {
    pub fn new(faults: Faults, seed: u64) -> Self {
        Self {
            faults,
            random: Random::new(seed, 1),
            in_flight: BTreeMap::new(),
            sequence: 0,
        }
    }

    fn happens(&self, per_thousand: u64) -> bool {
        self.random.below(1000) < per_thousand
    }

    pub fn send(&mut self, now: Instant, to: usize, transmit: Transmit) {
        if now >= self.faults.blackout || self.happens(self.faults.loss) {
            return;
        }
        let copies = 1 + u64::from(self.happens(self.faults.duplication));
        for _ in 0..copies {
            let mut arrival = now + DELAY;
            if self.happens(self.faults.reordering) {
                arrival += Duration(self.random.below(self.faults.jitter.0 + 1));
            }
            self.sequence += 1;
            let key = (arrival, self.sequence);
            self.in_flight.insert(key, (to, transmit.clone()));
        }
    }

    pub fn next_arrival(&self) -> Option<Instant> {
        self.in_flight.keys().next().map(|(time, _)| *time)
    }

    pub fn receive(&mut self, now: Instant) -> Option<(usize, Transmit)> {
        let entry = self.in_flight.first_entry()?;
        (entry.key().0 <= now).then(|| entry.remove())
    }
}
