//! Specification of a measurement.

use ferroce_model::pcie::machine::Target;
use ferroce_model::preset::topology::{MemoryTarget, Topology as MachineTopology};
use ferroce_model::preset::{Preset, RegionTranslation};
use ferroce_world::FabricPlan;

use crate::pattern::Pattern;

/// The verb that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// RDMA WRITE.
    Write,
    /// RDMA READ.
    Read,
    /// SEND to posted receives.
    Send,
    /// Fetch and add of eight bytes.
    FetchAdd,
    /// Compare and swap of eight bytes.
    CompareSwap,
}

/// The kind of test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Test {
    /// Bandwidth and message rate, `ib_*_bw`.
    Bandwidth,
    /// Latency, `ib_*_lat`.
    Latency,
}

/// Transport service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagram.
    Ud,
}

impl Service {
    /// Returns the service that perftest's `Connection type` names.
    pub fn from_name(name: &str) -> Option<Self> {
        match name.to_ascii_uppercase().as_str() {
            "RC" | "XRC" => Some(Self::Rc),
            "UC" => Some(Self::Uc),
            "UD" => Some(Self::Ud),
            _ => None,
        }
    }

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rc => "RC",
            Self::Uc => "UC",
            Self::Ud => "UD",
        }
    }
}

/// Number of messages of each QP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Iterations {
    /// Exactly this many.
    Exactly(u64),
    /// At most this many; a bandwidth test ends when the rate is steady.
    UntilSteady(u64),
}

/// Pages of the memory regions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageSize {
    /// 4 KiB pages.
    Small,
    /// 2 MiB pages.
    Huge2M,
    /// 1 GiB pages.
    Huge1G,
    /// One physically contiguous piece, without translation.
    Physical,
}

impl From<RegionTranslation> for PageSize {
    /// A measurement's own memory has small pages unless it asks for others.
    fn from(translation: RegionTranslation) -> Self {
        match translation {
            RegionTranslation::Kernel | RegionTranslation::Pages4K => Self::Small,
            RegionTranslation::Pages2M => Self::Huge2M,
            RegionTranslation::Physical => Self::Physical,
        }
    }
}

/// The hosts, and which of them send to which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topology {
    /// A client and a server.
    Pair,
    /// This many clients and one server.
    Clients(u32),
    /// Each host sends to all others. A thread has `virtual_machines` QPs to each of them.
    AllToAll {
        /// Hosts.
        hosts: u32,
        /// QPs of a thread to each host.
        virtual_machines: u32,
    },
    /// Some hosts send to some others. Each sender has separate threads for each receiver.
    Flows {
        /// Hosts.
        hosts: u32,
        /// The traffic pattern.
        pattern: Pattern,
    },
    /// One host whose QPs are connected to each other.
    Loopback,
}

/// Order of a thread's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workload {
    /// As perftest: fills the send queues, polls a batch, fills again. Addresses cycle through a
    /// buffer of 4 KiB.
    Perftest,
    /// Posts `depth` signaled work requests, each with a doorbell, waits for all of them, posts
    /// again; addresses are random in a large region.
    Batch,
    /// Keeps a window of `depth` work requests: waits for the oldest, posts another to a random QP
    /// and a random address of a region of 2 MiB.
    Window,
}

impl Workload {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Perftest => "perftest",
            Self::Batch => "batch",
            Self::Window => "window",
        }
    }
}

/// Objects that threads share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sharing {
    /// Number of threads that share a QP and its CQ; 1: each has its own. (Only
    /// [`Workload::Batch`].)
    pub threads_per_qp: u32,
    /// Number of the program's doorbells, which its QPs use in round-robin order; `None`: the
    /// preset's (`host.doorbells`).
    pub doorbells: Option<u32>,
}

impl Default for Sharing {
    fn default() -> Self {
        Self {
            threads_per_qp: 1,
            doorbells: None,
        }
    }
}

/// Where memory lies in machines with a topology; otherwise there is one memory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Placement {
    /// Buffers of clients.
    pub local: Location,
    /// Buffers of servers.
    pub remote: Location,
    /// Send and receive queues.
    pub queues: Location,
    /// CQs.
    pub completions: Location,
    /// True if regions have the right that writes to them pass each other.
    pub relaxed_order: bool,
    /// Cards in use of each machine: each host of the measurement is a card. 0: one.
    pub cards: u32,
}

/// A memory of the machines, by its name in their topology.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Location {
    /// Its name; empty: the memory near the card.
    name: String,
    /// Its number for each card in use.
    targets: Vec<Target>,
    /// Bytes that cards can reach through its BAR; `None`: all.
    reachable_bytes: Option<u64>,
}

impl Location {
    /// Finds the memory `name` of a machine with `cards` cards in use: `dram1`, `gpu0`, or `gpu`
    /// for the GPU with the number of each card.
    ///
    /// # Errors
    /// The memories that there are.
    pub fn new(topology: Option<&MachineTopology>, name: &str, cards: u32) -> Result<Self, String> {
        let Some(topology) = topology else {
            return Err(format!(
                "{name}: the preset has no topology, so there is only one memory; give a host \
                 profile with one: `ferroce topology list`"
            ));
        };
        let find = |card: u32| {
            let own = (name == "gpu").then(|| MemoryTarget::Gpu(card as usize).to_string());
            let found = topology.target(own.as_deref().unwrap_or(name));
            found.ok_or_else(|| {
                let all = topology.targets().map(|target| target.to_string());
                let all = all.collect::<Vec<_>>().join(", ");
                format!("{name}: the machine has {all}")
            })
        };
        let found = (0..cards.max(1)).map(find).collect::<Result<Vec<_>, _>>()?;
        let reachable = found.iter();
        Ok(Self {
            name: name.to_owned(),
            targets: found.iter().map(|(_, number)| Target(*number)).collect(),
            reachable_bytes: reachable
                .filter_map(|(target, _)| topology.reachable_bytes(*target))
                .min(),
        })
    }

    /// Returns the bytes that cards can reach, if `bytes` are more.
    pub fn exceeded_by(&self, bytes: u64) -> Option<u64> {
        self.reachable_bytes.filter(|reachable| bytes > *reachable)
    }

    /// Returns its name; `None`: the memory near the card.
    pub fn name(&self) -> Option<&str> {
        (!self.name.is_empty()).then_some(&self.name)
    }
}

impl Placement {
    /// Returns the target of a host's card at `location`.
    pub fn of_host(&self, location: &Location, host: usize) -> Target {
        let card = host % self.cards.max(1) as usize;
        location.targets.get(card).copied().unwrap_or_default()
    }

    /// Returns the memories that were chosen, with what lies in them.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let all = [
            ("buffers", &self.local),
            ("remote buffers", &self.remote),
            ("queues", &self.queues),
            ("CQs", &self.completions),
        ];
        all.into_iter()
            .filter_map(|(what, location)| Some((what, location.name()?)))
    }
}

/// Target of atomics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Atomics {
    /// True if all go to one address, instead of to consecutive ones.
    pub one_address: bool,
    /// True if they go to the memory of the card, instead of the host's.
    pub device_memory: bool,
}

/// Complete specification of a measurement. [`PerfSpec::new`] has perftest's defaults.
#[derive(Debug, Clone)]
pub struct PerfSpec {
    /// Cards, hosts and links.
    pub preset: Preset,
    /// The verb.
    pub operation: Operation,
    /// Bandwidth or latency.
    pub test: Test,
    /// Bytes of a message, one row each.
    pub sizes: Vec<u32>,
    /// True for the sizes of perftest's `-a`: CQ moderation is then the same for all sizes.
    pub all_sizes: bool,
    /// Messages of each QP.
    pub iterations: Iterations,
    /// Transport service.
    pub service: Service,
    /// QPs of each client host, over all threads.
    pub qps: u32,
    /// Number of memory regions of each side, which the messages use in round-robin order.
    pub memory_regions: u32,
    /// Their pages.
    pub page_size: PageSize,
    /// Threads of each client host.
    pub threads: u32,
    /// Send work requests outstanding per QP (`Perftest`) or thread (`Batch`, `Window`); `None`:
    /// 128 for bandwidth, 1 for latency.
    pub depth: Option<u32>,
    /// Receive work requests per QP; `None`: 512.
    pub receive_depth: Option<u32>,
    /// Maximum inline payload; `None`: 0 for bandwidth; 220 (WRITE), 236 (SEND) or 188 (SEND over
    /// UD) for latency, and never more than the preset has.
    pub inline_bytes: Option<u32>,
    /// Segments of the gather list of a message; WRITE, READ and SEND. More than one is not inline.
    pub segments: u32,
    /// Offset of the memory regions from the beginning of their first page.
    pub offset_bytes: u32,
    /// CQ moderation: one signaled work request in this many; `None`: as perftest.
    pub signal_every: Option<u32>,
    /// True if threads sleep until there is an event of their CQ, instead of polling.
    pub events: bool,
    /// True if both sides send.
    pub bidirectional: bool,
    /// Path MTU; `None`: the preset's.
    pub mtu_bytes: Option<u32>,
    /// Outstanding READs and atomics of a QP; `None`: the preset's.
    pub outstanding_reads: Option<u32>,
    /// Local ACK timeout of an RC QP (`-u` of perftest): 4.096 us times two to the power of it, 0
    /// for never; `None`: 14.
    pub local_ack_timeout: Option<u8>,
    /// Retries of an RC QP, `retry_cnt`; `None`: 7.
    pub retry_count: Option<u8>,
    /// Registers of each card that are written before it has a QP: offset and value.
    pub registers: Vec<(u32, u32)>,
    /// Hosts.
    pub topology: Topology,
    /// A switch between the hosts; `None`: as the preset says.
    pub switched: Option<bool>,
    /// Order of a thread's work.
    pub workload: Workload,
    /// Bytes of the target region of `Batch` and `Window`; `None`: 1 GiB for each host, 2 MiB for
    /// each thread.
    pub region_bytes: Option<u64>,
    /// Objects that threads share.
    pub sharing: Sharing,
    /// Where memory lies.
    pub placement: Placement,
    /// Target of atomics.
    pub atomics: Atomics,
    /// Seed of all random numbers.
    pub seed: u64,
    /// True if the steady middle of long messages is skipped.
    pub fast_forward: bool,
    /// Packet faults to inject.
    pub faults: Option<ferroce_faults::Plan>,
    /// Switches and links between the hosts; `None`: a cable, or a switch without a queue limit.
    pub fabric: Option<FabricPlan>,
}

impl PerfSpec {
    /// Returns perftest's defaults: one size, one QP, one thread.
    pub fn new(preset: Preset, operation: Operation, test: Test) -> Self {
        let size = match (operation, test) {
            (Operation::FetchAdd | Operation::CompareSwap, _) => 8,
            (_, Test::Bandwidth) => 65_536,
            (_, Test::Latency) => 2,
        };
        let iterations = match (operation, test) {
            (Operation::Write, Test::Bandwidth) => 5000,
            _ => 1000,
        };
        let page_size = preset.host.translation.into();
        Self {
            preset,
            operation,
            test,
            sizes: vec![size],
            all_sizes: false,
            iterations: Iterations::Exactly(iterations),
            service: Service::Rc,
            qps: 1,
            memory_regions: 1,
            page_size,
            threads: 1,
            depth: None,
            receive_depth: None,
            inline_bytes: None,
            segments: 1,
            offset_bytes: 0,
            signal_every: None,
            events: false,
            bidirectional: false,
            mtu_bytes: None,
            outstanding_reads: None,
            local_ack_timeout: None,
            retry_count: None,
            registers: Vec::new(),
            topology: Topology::Pair,
            switched: None,
            workload: Workload::Perftest,
            region_bytes: None,
            sharing: Sharing::default(),
            placement: Placement::default(),
            atomics: Atomics::default(),
            seed: 1,
            fast_forward: false,
            faults: None,
            fabric: None,
        }
    }

    /// Sets all powers of two from 2 B to 8 MiB as sizes, perftest's `-a`.
    pub fn all_sizes(mut self) -> Self {
        let log_last = match self.service {
            Service::Ud => 12,
            _ => 23,
        };
        self.sizes = (1..=log_last).map(|log| 1 << log).collect();
        self.all_sizes = true;
        self
    }
}
