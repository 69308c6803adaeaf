//! What to run on the model to repeat a measurement.

use super::{Rows, Service, Setup, Table, Verb};

/// How threads of a host share what belongs to the card.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// Each thread has QPs and a doorbell of its own.
    #[default]
    Nothing,
    /// Each thread has QPs of its own; doorbells are as many as the preset's host has.
    Doorbells,
    /// All threads post to the same QPs.
    Qps,
}

/// One run of the harness, in perftest's terms.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// Preset with host profile, `cx5-100g@k8s-1ghz`.
    pub preset: String,
    /// Parameters of the preset that differ, `mac.rate_gbps` and `1`.
    pub changes: Vec<(String, String)>,
    /// Verb, service, MTU, QPs, depth: as the measurement had them; what is not said is
    /// perftest's default.
    pub setup: Setup,
    /// A `_lat` program rather than a `_bw` program.
    pub latency: bool,
    /// Message sizes.
    pub sizes: Vec<u64>,
    /// Threads of the requester.
    pub threads: u32,
    /// What they share.
    pub sharing: Sharing,
    /// Memory regions that messages go round.
    pub mrs: u32,
    /// Page size of the regions, if not the host's.
    pub page_bytes: Option<u64>,
    /// Both QPs are on the same card.
    pub loopback: bool,
    /// Seed of all randomness.
    pub seed: u64,
}

/// The seed of every run that does not say another.
pub const SEED: u64 = 1;

impl Experiment {
    /// One thread, one QP, one region: what perftest does.
    pub fn new(preset: &str, setup: Setup, latency: bool, sizes: &[u64]) -> Self {
        Self {
            preset: preset.to_owned(),
            changes: Vec::new(),
            setup,
            latency,
            sizes: sizes.to_vec(),
            threads: 1,
            sharing: Sharing::Nothing,
            mrs: 1,
            page_bytes: None,
            loopback: false,
            seed: SEED,
        }
    }

    /// What repeats `table` on `preset`.
    pub fn repeat(table: &Table, preset: &str) -> Self {
        let sizes = table.sizes();
        Self::new(preset, table.setup.clone(), table.is_latency(), &sizes)
    }
}

/// What a run was made with, for the small print of a plot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Identity {
    /// Preset with host profile.
    pub preset: String,
    /// Hash of all its values.
    pub hash: String,
    /// Data rate of its link, for the line of the wire.
    pub link_gbps: f64,
    /// Path MTU if a measurement does not say.
    pub mtu_bytes: u32,
}

/// Who runs experiments.
pub trait Simulator: Sync {
    /// Runs one; the rows are in the order of the sizes.
    fn run(&self, experiment: &Experiment) -> Result<Rows, String>;

    /// Describes a preset.
    fn identify(&self, preset: &str) -> Result<Identity, String>;
}

/// What cannot be run on the model at all, and why.
pub fn not_covered(setup: &Setup) -> Option<&'static str> {
    match (setup.service, setup.verb) {
        (Service::Other, _) => Some("the model has RC, UC and UD only"),
        (Service::Uc, Verb::Read | Verb::Atomic) => Some("UC has neither READ nor atomics"),
        (Service::Ud, verb) if verb != Verb::Send => Some("UD has SEND only"),
        _ => None,
    }
}
