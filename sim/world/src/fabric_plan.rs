//! The parts of a fabric: hosts, switches and links, and the congestion control of the cards.
//!
//! A plan is written as a TOML file ([`FabricPlan::from_toml`]); [`FabricPlan::star`] and
//! [`FabricPlan::two_tier`] build common topologies.

mod error;
mod file;
mod functions;

pub use error::FabricError;
use ferroce_model::congestion::dcqcn::DcqcnParameters;
use ferroce_model::congestion::{Algorithm, CongestionConfig, NotificationConfig};
use ferroce_units::{Duration, Instant};
pub use functions::{MAX_FUNCTIONS, MultiFunctionHost};

/// Priorities of Ethernet (IEEE 802.1Q, 3 bits).
pub const PRIORITIES: usize = 8;

/// Maximum number of switches in a fabric.
pub const MAX_SWITCHES: usize = 1024;
/// Maximum number of links in a fabric.
pub const MAX_LINKS: usize = 1 << 16;

/// One end of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Node {
    /// A host, or one function of a host that has several.
    Host(usize),
    /// A switch, by its index in the list.
    Switch(usize),
}

/// The ECN marking curve of a port.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MarkCurve {
    /// Bytes in the queue up to which no packet is marked.
    pub kmin_bytes: u64,
    /// Bytes in the queue from which on all packets are marked.
    pub kmax_bytes: u64,
    /// Share of the packets that are marked just below `kmax_bytes`.
    pub pmax: f64,
}

/// A fabric: switches and links between the hosts of a world.
#[derive(Debug, Clone, PartialEq)]
pub struct FabricPlan {
    /// The switches.
    pub switches: Vec<SwitchPlan>,
    /// The links; each host has one.
    pub links: Vec<LinkPlan>,
    /// Hosts whose cards have several functions, in the order of their numbers.
    pub multi_function: Vec<MultiFunctionHost>,
    /// Choice among several shortest paths.
    pub path_choice: PathChoice,
    /// Congestion control of the cards; `None`: none, and their packets are not ECN-capable.
    pub congestion: Option<CongestionConfig>,
    /// Hosts that pause their switch because of a fault.
    pub storms: Vec<PauseStorm>,
}

/// Choice of a packet among several shortest paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PathChoice {
    /// By a hash of addresses and UDP ports: all packets of a flow take one path (ECMP).
    #[default]
    Flow,
    /// Randomly, for each packet.
    Packet,
}

/// A switch.
#[derive(Debug, Clone, PartialEq)]
pub struct SwitchPlan {
    /// Its name.
    pub name: String,
    /// Latency of a frame through an idle switch, without the wires; `None`: the preset's
    /// (`link.switch_ns`).
    pub latency: Option<Duration>,
    /// Size of the buffer shared by all ports.
    pub buffer_bytes: u64,
    /// A queue of a priority without PFC may hold this share of the free bytes.
    pub alpha: f64,
    /// ECN marking; `None`: no packet is marked.
    pub ecn: Option<MarkCurve>,
    /// PFC; `None`: no sender is paused.
    pub pfc: Option<PfcPlan>,
}

impl SwitchPlan {
    /// Returns a switch with the default settings, which the book lists with their sources.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            latency: None,
            buffer_bytes: 32 << 20,
            alpha: 1.0,
            ecn: Some(DEFAULT_ECN),
            pfc: Some(PfcPlan::default()),
        }
    }
}

/// The curve of the DCQCN simulations in HPCC (SIGCOMM 2019), at 100 Gb/s.
pub const DEFAULT_ECN: MarkCurve = MarkCurve {
    kmin_bytes: 400_000,
    kmax_bytes: 1_600_000,
    pmax: 0.2,
};

/// The curve of the DCQCN paper's public validation code (SIGCOMM 2015), at 40 Gb/s.
pub const SIGCOMM_2015_ECN: MarkCurve = MarkCurve {
    kmin_bytes: 10_000,
    kmax_bytes: 100_000,
    pmax: 0.01,
};

/// PFC of a switch.
#[derive(Debug, Clone, PartialEq)]
pub struct PfcPlan {
    /// The protected priorities.
    pub priorities: Vec<u8>,
    /// Bytes from one cable and priority at which the sender is paused; `None`: `alpha` times the
    /// free bytes.
    pub xoff_bytes: Option<u64>,
    /// See `xoff_bytes`.
    pub alpha: f64,
    /// The sender resumes when the switch holds this many bytes less.
    pub xon_offset_bytes: u64,
    /// Room of each cable and priority for bytes in flight when the sender is paused; `None`: the
    /// maximum that can arrive.
    pub headroom_bytes: Option<u64>,
}

impl Default for PfcPlan {
    fn default() -> Self {
        Self {
            priorities: vec![0, 3],
            xoff_bytes: None,
            alpha: 0.125,
            xon_offset_bytes: 2 * 4500,
            headroom_bytes: None,
        }
    }
}

/// A link.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkPlan {
    /// Its ends.
    pub ends: [Node; 2],
    /// Its rate; `None`: the card's rate, or between switches the rate of the first host's card.
    /// The link of a host always has the rate of its card.
    pub rate_gbps: Option<f64>,
    /// Latency of the cable; `None`: the preset's (`link.cable_ns`).
    pub cable: Option<Duration>,
}

impl LinkPlan {
    /// Returns a link with the rate and cable of the preset.
    pub fn new(ends: [Node; 2]) -> Self {
        Self {
            ends,
            rate_gbps: None,
            cable: None,
        }
    }
}

/// A host that pauses its switch because its card has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PauseStorm {
    /// The host.
    pub host: usize,
    /// The priority that it pauses.
    pub priority: u8,
    /// Start.
    pub from: Instant,
    /// End.
    pub until: Instant,
}

impl FabricPlan {
    /// Returns a fabric of one switch with `hosts` hosts.
    pub fn star(hosts: usize) -> Self {
        let links = (0..hosts).map(|host| LinkPlan::new([Node::Host(host), Node::Switch(0)]));
        Self {
            switches: vec![SwitchPlan::new("switch")],
            links: links.collect(),
            multi_function: Vec::new(),
            path_choice: PathChoice::Flow,
            congestion: None,
            storms: Vec::new(),
        }
    }

    /// Returns a fabric of `leaves` switches with `hosts_per_leaf` hosts each; each leaf is
    /// connected to each of `spines` other switches.
    pub fn two_tier(leaves: usize, hosts_per_leaf: usize, spines: usize) -> Self {
        let leaf = |number| SwitchPlan::new(format!("leaf{number}"));
        let spine = |number| SwitchPlan::new(format!("spine{number}"));
        let hosts = (0..leaves * hosts_per_leaf)
            .map(|host| [Node::Host(host), Node::Switch(host / hosts_per_leaf)]);
        let trunks = (0..leaves).flat_map(|leaf| {
            (0..spines).map(move |spine| [Node::Switch(leaf), Node::Switch(leaves + spine)])
        });
        Self {
            switches: (0..leaves)
                .map(leaf)
                .chain((0..spines).map(spine))
                .collect(),
            links: hosts.chain(trunks).map(LinkPlan::new).collect(),
            ..Self::star(0)
        }
    }

    /// Returns the same fabric with cards that have the default DCQCN of a ConnectX.
    #[must_use]
    pub fn with_dcqcn(self) -> Self {
        let congestion = CongestionConfig {
            notification: NotificationConfig::CONNECTX,
            algorithm: Algorithm::Dcqcn(DcqcnParameters::CONNECTX),
        };
        Self {
            congestion: Some(congestion),
            ..self
        }
    }

    /// Parses the text of a TOML file, for a fabric with at most `most` hosts. Each function of a
    /// multi-function card counts.
    ///
    /// # Errors
    /// [`FabricError`] with the line and the fault.
    pub fn from_toml(text: &str, most: usize) -> Result<Self, FabricError> {
        file::parse(text, most)
    }

    /// Returns the number of linked hosts; each function of a host counts.
    pub fn hosts(&self) -> usize {
        let ends = self.links.iter().flat_map(|link| link.ends);
        let numbers = ends.filter_map(|end| match end {
            Node::Host(host) => Some(host + 1),
            Node::Switch(_) => None,
        });
        numbers.max().unwrap_or(0)
    }

    /// Changes all switches.
    pub fn for_each_switch(&mut self, change: impl FnMut(&mut SwitchPlan)) {
        self.switches.iter_mut().for_each(change);
    }

    /// Checks that it can be built; routes are checked when they are computed.
    pub(crate) fn check(&self) -> Result<(), FabricError> {
        if self.switches.len() > MAX_SWITCHES || self.links.len() > MAX_LINKS {
            return Err(FabricError::TooLarge);
        }
        let mut links_of = vec![0; self.hosts()];
        for link in &self.links {
            match link.ends {
                [Node::Host(_), Node::Host(_)] => return Err(FabricError::HostToHost),
                [one, other] if one == other => return Err(FabricError::ToItself),
                ends => {
                    for end in ends {
                        match end {
                            Node::Host(host) => links_of[host] += 1,
                            Node::Switch(switch) if switch < self.switches.len() => {}
                            Node::Switch(_) => return Err(FabricError::NoSwitch),
                        }
                    }
                }
            }
        }
        match links_of.iter().position(|links| *links != 1) {
            Some(host) => Err(FabricError::LinksOfHost {
                host,
                links: links_of[host],
            }),
            None => self.switches.iter().try_for_each(SwitchPlan::check),
        }
    }
}

impl SwitchPlan {
    fn check(&self) -> Result<(), FabricError> {
        let wrong = |what| {
            let switch = self.name.clone();
            Err(FabricError::Setting { switch, what })
        };
        let is_alpha = |alpha: f64| (1.0 / 1024.0..=64.0).contains(&alpha);
        if !is_alpha(self.alpha) {
            return wrong("alpha is not from 1/1024 to 64");
        }
        if let Some(ecn) = &self.ecn {
            if ecn.kmin_bytes > ecn.kmax_bytes {
                return wrong("ecn.kmin_bytes is more than ecn.kmax_bytes");
            }
            if !(0.0..=1.0).contains(&ecn.pmax) {
                return wrong("ecn.pmax is not from 0 to 1");
            }
        }
        if let Some(pfc) = &self.pfc {
            let is_priority = |priority: &u8| usize::from(*priority) < PRIORITIES;
            if !pfc.priorities.iter().all(is_priority) {
                return wrong("pfc.priorities are not from 0 to 7");
            }
            if !is_alpha(pfc.alpha) {
                return wrong("pfc.alpha is not from 1/1024 to 64");
            }
        }
        Ok(())
    }
}
