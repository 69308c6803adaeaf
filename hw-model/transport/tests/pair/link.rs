//! A link with seeded faults and a virtual clock.

use std::collections::BTreeMap;

use ferroce_units::{Duration, Instant};
use ferroce_wire::TransportHeaders;

use super::rng::Rng;

/// Faults of packets in flight.
#[derive(Debug, Clone, Copy)]
pub struct Faults {
    /// Lost packets per thousand.
    pub loss: u64,
    /// Packets per thousand that arrive twice.
    pub duplication: u64,
    /// Packets per thousand that are overtaken.
    pub reordering: u64,
    /// Every packet takes this long.
    pub delay: Duration,
    /// Overtaken packets take up to this much longer.
    pub jitter: Duration,
    /// Nothing arrives from this time on.
    pub blackout: Instant,
}

impl Faults {
    pub const NONE: Faults = Faults {
        loss: 0,
        duplication: 0,
        reordering: 0,
        delay: Duration::from_us(1),
        jitter: Duration::ZERO,
        blackout: Instant::MAX,
    };
}

/// A packet with its payload.
#[derive(Debug, Clone)]
pub struct Packet {
    pub to: usize,
    pub headers: TransportHeaders,
    pub payload: Vec<u8>,
}

/// Maximum number of consecutive losses, so that the retry limit is never reached by chance.
const MAX_LOSSES_IN_A_ROW: u32 = 2;

#[derive(Debug)]
pub struct Link {
    faults: Faults,
    rng: Rng,
    /// By time of arrival, then order of sending.
    in_flight: BTreeMap<(Instant, u64), Packet>,
    sequence: u64,
    losses_in_a_row: [u32; 2],
}

impl Link {
    pub fn new(faults: Faults, seed: u64) -> Link {
        Link {
            faults,
            rng: Rng::new(seed),
            in_flight: BTreeMap::new(),
            sequence: 0,
            losses_in_a_row: [0; 2],
        }
    }

    pub fn set_faults(&mut self, faults: Faults) {
        self.faults = faults;
    }

    pub fn send(&mut self, now: Instant, packet: Packet) {
        if now >= self.faults.blackout {
            return;
        }
        let losses = &mut self.losses_in_a_row[packet.to];
        if *losses < MAX_LOSSES_IN_A_ROW && self.rng.chance(self.faults.loss, 1000) {
            *losses += 1;
            return;
        }
        *losses = 0;
        if self.rng.chance(self.faults.duplication, 1000) {
            self.deliver(now, packet.clone());
        }
        self.deliver(now, packet);
    }

    fn deliver(&mut self, now: Instant, packet: Packet) {
        let mut arrival = now + self.faults.delay;
        if self.rng.chance(self.faults.reordering, 1000) {
            arrival += Duration(self.rng.below(self.faults.jitter.0 + 1));
        }
        self.sequence += 1;
        self.in_flight.insert((arrival, self.sequence), packet);
    }

    pub fn next_arrival(&self) -> Option<Instant> {
        self.in_flight.keys().next().map(|(time, _)| *time)
    }

    pub fn receive(&mut self, now: Instant) -> Option<Packet> {
        let entry = self.in_flight.first_entry()?;
        (entry.key().0 <= now).then(|| entry.remove())
    }

    /// Drops all packets in flight.
    pub fn clear(&mut self) {
        self.in_flight.clear();
    }
}
