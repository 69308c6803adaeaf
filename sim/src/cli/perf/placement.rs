//! Where memory lies in machines with a topology.

use clap::Args;
use ferroce_model::pcie::machine::Target;
use ferroce_model::preset::topology::{MemoryTarget, Topology};
use ferroce_perf::{PerfSpec, Placement};

/// Options about memory and cards of a machine with a topology.
#[derive(Debug, Clone, Args)]
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

    /// Cards of each machine in use: each host of the measurement is a card of one
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub cards: u32,
}

impl PlacementArgs {
    /// Returns the placement in the machines of `spec`.
    pub fn placement(&self, spec: &PerfSpec) -> Result<Placement, String> {
        let topology = spec.preset.topology.as_deref();
        let cards = topology.map_or(1, |topology| topology.cards.len());
        if !(1..=cards).contains(&(self.cards as usize)) {
            return Err(format!(
                "--cards {}: the machine of {} has {cards}; must be 1 to {cards}",
                self.cards,
                spec.preset.name()
            ));
        }
        let targets = |option: &str, name: &Option<String>| match name {
            None => Ok(Vec::new()),
            Some(name) => self.targets(topology, option, name),
        };
        Ok(Placement {
            local: targets("--memory", &self.memory)?,
            remote: targets("--remote-memory", &self.remote_memory)?,
            queues: targets("--queue-memory", &self.queue_memory)?,
            completions: targets("--cq-memory", &self.cq_memory)?,
            relaxed_order: self.relaxed_order,
            cards: self.cards,
        })
    }

    /// Returns the memory of this name for each card in use.
    fn targets(
        &self,
        topology: Option<&Topology>,
        option: &str,
        name: &str,
    ) -> Result<Vec<Target>, String> {
        let Some(topology) = topology else {
            return Err(format!(
                "{option} {name}: the preset has no topology, so there is only one memory; give a \
                 host profile with one: `ferroce topology list`"
            ));
        };
        let target = |card: usize| {
            let own = (name == "gpu").then(|| MemoryTarget::Gpu(card).to_string());
            let found = topology.target(own.as_deref().unwrap_or(name));
            found.map(|(_, number)| Target(number)).ok_or_else(|| {
                let all = topology.targets().map(|target| target.to_string());
                let all = all.collect::<Vec<_>>().join(", ");
                format!("{option} {name}: the machine has {all}")
            })
        };
        (0..self.cards as usize).map(target).collect()
    }
}
