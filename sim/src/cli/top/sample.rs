//! Counters and queue pairs of the functions at one time.

use std::time::Instant;

use ferroce_embed::fabric::registry::{Registry, ShownQp};

use crate::cli::counters::function::Function;

/// A function and its queue pairs.
pub struct Shown {
    /// Identifies the function: its slot in the registry is reused after the end of its owner.
    pub claim: u64,
    pub function: Function,
    /// Number of its queue pairs.
    pub qp_count: u64,
    /// The queue pairs that it publishes.
    pub qps: Vec<ShownQp>,
}

/// All functions at one time.
pub struct Sample {
    pub taken: Instant,
    pub functions: Vec<Shown>,
}

impl Sample {
    /// Reads the functions of a process, or of all.
    pub fn take(registry: &Registry, pid: Option<u32>, taken: Instant) -> Self {
        let mut occupants = registry.occupants();
        occupants.retain(|occupant| pid.is_none_or(|pid| pid == occupant.pid));
        let shown = occupants.iter().map(|occupant| {
            let (qp_count, qps) = registry.qps(occupant.place);
            Shown {
                claim: occupant.generation,
                function: Function::read(registry, occupant),
                qp_count,
                qps,
            }
        });
        let functions = shown.collect();
        Self { taken, functions }
    }
}

impl Shown {
    /// Returns the sum of counters.
    pub fn sum(&self, names: &[&str]) -> u64 {
        let counters = self.function.counters.iter();
        let chosen = counters.filter(|(name, _)| names.contains(name));
        chosen.map(|(_, value)| value).sum()
    }
}
