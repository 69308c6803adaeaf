//! Configuration of a world.

use ferroce_faults::Plan;
use ferroce_model::pcie::machine::Target;
use ferroce_model::preset::Preset;

use super::Error;
use super::fabric_plan::FabricPlan;
use super::persistence::PersistentMemory;

/// Addresses of hosts contain a 16-bit number.
pub(super) const MAX_HOSTS: usize = 1 << 16;

/// Network between the hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topology {
    /// A cable between two hosts; a single host has none and reaches itself.
    Cable,
    /// A switch with a port for each host.
    Switch,
}

/// Configuration of a world.
#[derive(Debug, Clone)]
pub struct WorldConfig {
    /// Cards, machines and cables of all hosts except those in `presets`. `None`: a functional
    /// world, in which nothing takes time.
    pub preset: Option<Preset>,
    /// Presets of single hosts instead of `preset`. Ignored in a functional world.
    pub presets: Vec<(usize, Preset)>,
    /// Number of hosts; each function of a multi-function card counts.
    pub hosts: usize,
    /// Cards in use of each machine whose preset has a topology: each host of the world is a card,
    /// and the cards of a machine are consecutive.
    pub cards: usize,
    /// Hosts whose memory does not lie next to their card, with the target in their machine.
    pub memory: Vec<(usize, Target)>,
    /// Persistent memory of hosts, at most one of each. Ignored in a functional world.
    pub persistent: Vec<(usize, PersistentMemory)>,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Network between them.
    pub topology: Topology,
    /// True if frames carry an ICRC, which only costs real time.
    pub icrc: bool,
    /// True if only the last bytes of long payloads in the memory of other processes are moved.
    /// Simulated times are unchanged.
    pub elide_payload: bool,
    /// True if the steady middle of long messages is skipped: its payload is copied and its time
    /// passes in one step.
    pub fast_forward: bool,
    /// Faults of packets in flight.
    pub faults: Option<Plan>,
    /// Switches and links between the hosts, instead of `topology`; not in a functional world.
    pub fabric: Option<FabricPlan>,
}

impl WorldConfig {
    /// Returns a configuration in which nothing takes time.
    pub fn functional(hosts: usize) -> Self {
        Self {
            preset: None,
            presets: Vec::new(),
            hosts,
            cards: 1,
            memory: Vec::new(),
            persistent: Vec::new(),
            seed: 1,
            topology: match hosts {
                0..=2 => Topology::Cable,
                _ => Topology::Switch,
            },
            icrc: false,
            elide_payload: false,
            fast_forward: false,
            faults: None,
            fabric: None,
        }
    }

    /// Returns true if the steady middle of long messages is skipped. Without a preset it takes no
    /// time, so there is nothing to skip; in a network, and in a machine that other cards use,
    /// flows are not steady. A power failure may come in the middle of a message.
    pub(crate) fn skips_strides(&self) -> bool {
        let has_topology = |preset: &Preset| preset.topology.is_some();
        let all = self.preset.iter();
        let mut all = all.chain(self.presets.iter().map(|(_, preset)| preset));
        self.fast_forward
            && self.preset.is_some()
            && self.fabric.is_none()
            && self.persistent.is_empty()
            && !all.any(has_topology)
    }

    /// Returns a configuration in which all hosts have `preset`. Two hosts are connected by a cable
    /// unless the preset has a switch.
    pub fn timed(preset: Preset, hosts: usize) -> Self {
        let functional = Self::functional(hosts);
        Self {
            topology: if preset.link.switched {
                Topology::Switch
            } else {
                functional.topology
            },
            preset: Some(preset),
            ..functional
        }
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        let hosts = self.hosts;
        if !(1..=MAX_HOSTS).contains(&hosts) {
            return Err(Error::Hosts { hosts });
        }
        if self.topology == Topology::Cable && hosts > 2 {
            return Err(Error::Cable { hosts });
        }
        for host in 0..hosts {
            let (_, card) = self.card_of(host);
            let topology = self.preset_of(host).and_then(|p| p.topology.as_ref());
            let there_are = topology.map_or(1, |topology| topology.cards.len());
            if card >= there_are {
                return Err(Error::NoSuchCard { card, there_are });
            }
        }
        match self.presets.iter().find(|(host, _)| *host >= hosts) {
            Some(&(host, _)) => Err(Error::NoSuchHost { host }),
            None => Ok(()),
        }
    }

    /// Returns the printed number of a host, and the function of its card; `None`: the card has
    /// only one function.
    pub fn place_of(&self, host: usize) -> (usize, Option<usize>) {
        let fabric = self.fabric.as_ref();
        fabric.map_or((host, None), |fabric| fabric.place_of(host))
    }

    /// Returns the machine of a host, and its card there.
    pub(super) fn card_of(&self, host: usize) -> (usize, usize) {
        let cards = self.cards.max(1);
        (host / cards, host % cards)
    }

    /// Returns the persistent memory of a host.
    pub fn persistent_of(&self, host: usize) -> Option<&PersistentMemory> {
        let mut persistent = self.persistent.iter();
        let found = persistent.find(|(other, _)| *other == host && self.preset.is_some());
        found.map(|(_, memory)| memory)
    }

    /// Returns the preset of a host; `None` in a functional world.
    pub fn preset_of(&self, host: usize) -> Option<&Preset> {
        let first = self.preset.as_ref()?;
        let own = self.presets.iter().rfind(|(other, _)| *other == host);
        Some(own.map_or(first, |(_, preset)| preset))
    }
}
