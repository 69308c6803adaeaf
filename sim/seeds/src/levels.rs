//! Items left in the queues and pools of idle cards.

use ferroce_model::levels::levels;
use ferroce_world::{Observation, Recorder, Span};

use crate::error::Wrong;

/// Stores the first observation of each host.
#[derive(Debug, Default)]
pub(crate) struct Levels {
    left: Vec<String>,
}

impl Levels {
    /// Checks that everything is empty.
    pub fn check(&self) -> Result<(), Wrong> {
        if self.left.is_empty() {
            Ok(())
        } else {
            Err(Wrong::new(format!("at rest: {}", self.left.join(", "))))
        }
    }
}

impl Recorder for Levels {
    fn record(&mut self, _: &Span) {}

    fn observes(&self) -> bool {
        true
    }

    fn observe(&mut self, observation: &Observation<'_>) {
        let host = observation.host;
        let left = observation.levels.iter().zip(levels(u8::MAX));
        for (value, level) in left.filter(|(value, _)| **value > 0) {
            let name = level.name;
            self.left.push(format!("{value} {name} of host {host}"));
        }
        let Some(pcie) = &observation.pcie else {
            return;
        };
        for (what, units) in [("reads", pcie.reads), ("posted writes", pcie.posted)] {
            if units != Default::default() {
                self.left
                    .push(format!("{units:?} of PCIe {what} of host {host}"));
            }
        }
    }
}
