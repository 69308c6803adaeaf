//! Where memory lies in machines with a topology.

use clap::Args;
use ferroce_model::preset::Preset;
use ferroce_perf::{Location, Placement};

/// Options about the memory of a machine with a topology.
#[derive(Debug, Clone, Default, Args)]
pub struct PlacementArgs {
    /// Memory in which the client's buffers lie, of the host profile's topology: `dram1`, `gpu0`,
    /// `nvm0`; or `gpu`, that of the card's own number
    #[arg(long, value_name = "MEMORY")]
    pub memory: Option<String>,

    /// Memory in which the server's buffers lie
    #[arg(long, value_name = "MEMORY")]
    pub remote_memory: Option<String>,

    /// Memory in which send and receive queues lie
    #[arg(long, value_name = "MEMORY")]
    pub queue_memory: Option<String>,

    /// Memory in which completion queues lie
    #[arg(long, value_name = "MEMORY")]
    pub cq_memory: Option<String>,

    /// Register regions with the right that writes to them pass each other; it counts in machines
    /// with a topology
    #[arg(long)]
    pub relaxed_order: bool,
}

impl PlacementArgs {
    /// Returns the placement in machines of `preset` of which `cards` cards are in use.
    pub fn placement(&self, preset: &Preset, cards: u32) -> Result<Placement, String> {
        let topology = preset.topology.as_deref();
        let there_are = topology.map_or(1, |topology| topology.cards.len());
        if !(1..=there_are).contains(&(cards as usize)) {
            return Err(format!(
                "--cards {cards}: must be 1 to {there_are}, as the machine of {} has",
                preset.name()
            ));
        }
        let location = |option: &str, name: &Option<String>| match name {
            None => Ok(Location::default()),
            Some(name) => {
                Location::new(topology, name, cards).map_err(|error| format!("{option} {error}"))
            }
        };
        Ok(Placement {
            local: location("--memory", &self.memory)?,
            remote: location("--remote-memory", &self.remote_memory)?,
            queues: location("--queue-memory", &self.queue_memory)?,
            completions: location("--cq-memory", &self.cq_memory)?,
            relaxed_order: self.relaxed_order,
            cards: if cards > 1 { cards } else { 0 },
        })
    }
}
