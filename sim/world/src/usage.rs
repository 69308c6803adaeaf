//! Utilisation of each part of a host.

use ferroce_model::usage::{Kind, Usage};
use ferroce_units::{Duration, Instant};

/// The parts of a host's card, slot and cable, and how long each was in use since power-on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostUsage {
    /// Device time, which stops while packets are skipped.
    pub now: Instant,
    /// The parts; none in a world without time.
    pub parts: Vec<Usage>,
}

impl HostUsage {
    pub(super) fn new(
        now: Instant,
        mut parts: Vec<Usage>,
        slot: Option<Vec<Usage>>,
        received: Duration,
    ) -> Self {
        let Some(slot) = slot else {
            return Self::default();
        };
        parts.push(Usage {
            name: "mac_receive",
            unit: None,
            kind: Kind::Server,
            count: 1,
            busy: received,
        });
        parts.extend(slot);
        Self { now, parts }
    }

    /// Returns the use since `before`.
    pub fn since(mut self, before: &Self) -> Self {
        for (part, before) in self.parts.iter_mut().zip(&before.parts) {
            part.busy = part.busy - before.busy;
        }
        self
    }
}
