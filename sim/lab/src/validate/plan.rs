//! How a target is measured, as data.

use ferroce_model::pcie::bench::Direction;
use ferroce_model::preset::Preset;
use ferroce_perf::{
    Location, Operation, PageSize, PerfSpec, Service, Sharing, Test, Topology, Workload,
};

use crate::dead_peer::{self, DeadPeer};
use crate::faulty_link::{self, FaultyLink};
use crate::incast::{self, Incast};
use crate::resends::{self, Resends};

/// Plan of one target.
#[derive(Clone, Copy)]
pub struct Plan {
    /// The target.
    pub id: &'static str,
    /// Its measurements. All points must be within tolerance.
    pub points: &'static [Point],
}

/// One figure of the model, and its expected value.
#[derive(Clone, Copy)]
pub struct Point {
    /// The label that distinguishes it from other points of its target; empty for a single point.
    pub label: &'static str,
    /// Source of the figure.
    pub run: Run,
    /// The expected value.
    pub expected: Expected,
}

/// Condition on a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Expected {
    /// The number of this index in the target's reference, within this many percent.
    Near(usize, f64),
    /// Within this many powers of two of the number of this index.
    Octaves(usize, f64),
    /// This number, which the target does not have, within this many percent.
    Value(f64, f64),
    /// Not below the first, not above the second.
    Band(f64, f64),
    /// Not below the target's `low`, not above its `high`.
    TargetBand,
    /// Not above it.
    AtMost(f64),
    /// Not below it.
    AtLeast(f64),
}

/// Source of a figure.
#[derive(Clone, Copy)]
pub enum Run {
    /// A run of the harness, and its figure.
    Perf(Perf, Figure),
    /// The largest depth, of these, that still has 95 % of the best message rate, times threads.
    Knee(Perf, &'static [u32]),
    /// A PCIe link with a host at its other end.
    Pcie(Slot, Access),
    /// Additional time of a read from memory of the other socket, in ns.
    RemoteSocket(Slot),
    /// Frames between two MACs.
    Datagrams(&'static str, Datagrams),
    /// A link that loses or reorders packets.
    Faulty(FaultyLink, faulty_link::Figure),
    /// An incast.
    Incast(Incast, incast::Figure),
    /// Requests without an answer in time.
    Resends(Resends, resends::Figure),
    /// Time in ms until a request fails whose peer is dead.
    DeadPeer(DeadPeer),
}

impl Run {
    /// Returns the preset of the run.
    pub fn preset(&self) -> &'static str {
        match self {
            Self::Perf(perf, _) | Self::Knee(perf, _) => perf.preset,
            Self::Pcie(slot, _) | Self::RemoteSocket(slot) => slot.preset(),
            Self::Datagrams(preset, _) => preset,
            Self::Faulty(..) => faulty_link::CARD,
            Self::Resends(..) => resends::CARD,
            Self::DeadPeer(..) => dead_peer::CARD,
            Self::Incast(..) => incast::CARD,
        }
    }
}

/// A PCIe slot with its two ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Slot {
    /// The slot of a preset, with the card's DMA engine.
    Engine(&'static str),
    /// The slot of a preset, with reads by single commands instead of the DMA engine.
    Command(&'static str),
    /// A link alone: generation, lanes, MPS and MRRS in bytes.
    Link(u32, u32, u32, u32),
}

impl Slot {
    fn preset(self) -> &'static str {
        match self {
            Self::Engine(preset) | Self::Command(preset) => preset,
            Self::Link(..) => "a link alone",
        }
    }
}

/// The accesses of a device over PCIe.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Access {
    /// Reads, one after the other: size, window, and the statistic.
    Latency(u64, u64, Statistic),
    /// As many as possible: size and window.
    Bandwidth(Direction, u64, u64),
}

/// A statistic of a distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Statistic {
    /// The shortest.
    Minimum,
    /// The median.
    Median,
    /// The mean.
    Mean,
    /// The 99.9th percentile.
    P999,
}

/// The measurement with UDP datagrams between the user logic of two cards.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Datagrams {
    /// Time from user logic to user logic and back.
    RoundTrip,
    /// Payload in Gb/s of datagrams of this many bytes.
    Goodput(u32),
}

/// A figure of the rows of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Figure {
    /// Mean bandwidth of the sizes, in Gb/s.
    Goodput,
    /// Smallest size that has 95 % of the best bandwidth.
    KneeBytes,
    /// Message rate of a host at the last size, in M/s.
    Rate,
    /// Message rate of the size that is farthest from the value expected, in M/s.
    RateFarthestFrom(f64),
    /// Median latency of the last size, in us.
    Typical,
    /// Mean latency of the last size, in us.
    Mean,
    /// 99th percentile by median of the last size.
    Tail,
    /// Median latency of the last size minus the median latency of the first, in us.
    Step,
    /// Time of a work request in us when each thread has one outstanding: threads by rate.
    LoopTime,
}

/// A run of the harness: perftest's defaults, and the differences.
#[derive(Clone, Copy, Debug)]
pub struct Perf {
    /// Preset with host profile.
    pub preset: &'static str,
    /// Parameters of the preset that differ.
    pub changes: &'static [(&'static str, &'static str)],
    operation: Operation,
    test: Test,
    service: Service,
    sizes: &'static [u32],
    mtu: Option<u32>,
    inline: Option<u32>,
    threads: u32,
    qps: u32,
    depth: Option<u32>,
    topology: Topology,
    workload: Workload,
    sharing: Sharing,
    switched: Option<bool>,
    regions: u32,
    region_bytes: Option<u64>,
    pages: PageSize,
    one_address: bool,
    device_memory: bool,
    on_gpu: bool,
    relaxed_order: bool,
}

impl Perf {
    /// Returns a bandwidth test.
    pub const fn bandwidth(
        preset: &'static str,
        operation: Operation,
        sizes: &'static [u32],
    ) -> Self {
        Self::new(preset, operation, Test::Bandwidth, sizes)
    }

    /// Returns a latency test.
    pub const fn latency(
        preset: &'static str,
        operation: Operation,
        sizes: &'static [u32],
    ) -> Self {
        Self::new(preset, operation, Test::Latency, sizes)
    }

    const fn new(
        preset: &'static str,
        operation: Operation,
        test: Test,
        sizes: &'static [u32],
    ) -> Self {
        Self {
            preset,
            changes: &[],
            operation,
            test,
            service: Service::Rc,
            sizes,
            mtu: None,
            inline: None,
            threads: 1,
            qps: 1,
            depth: None,
            topology: Topology::Pair,
            workload: Workload::Perftest,
            sharing: Sharing {
                threads_per_qp: 1,
                doorbells: None,
            },
            switched: None,
            regions: 1,
            region_bytes: None,
            pages: PageSize::Small,
            one_address: false,
            device_memory: false,
            on_gpu: false,
            relaxed_order: false,
        }
    }

    /// Places the buffers of both sides in the memory of a GPU.
    pub const fn on_gpu(mut self) -> Self {
        self.on_gpu = true;
        self
    }

    /// Lets writes to the regions pass each other.
    pub const fn relaxed_order(mut self) -> Self {
        self.relaxed_order = true;
        self
    }

    /// Sets the path MTU.
    pub const fn mtu(mut self, bytes: u32) -> Self {
        self.mtu = Some(bytes);
        self
    }

    /// Uses unreliable connections.
    pub const fn uc(mut self) -> Self {
        self.service = Service::Uc;
        self
    }

    /// Sets the limit of inline payload.
    pub const fn inline(mut self, bytes: u32) -> Self {
        self.inline = Some(bytes);
        self
    }

    /// Changes parameters of the preset.
    pub const fn changed(mut self, changes: &'static [(&'static str, &'static str)]) -> Self {
        self.changes = changes;
        self
    }

    /// Uses a direct cable.
    pub const fn direct(mut self) -> Self {
        self.switched = Some(false);
        self
    }

    /// Uses a switch.
    pub const fn switched(mut self) -> Self {
        self.switched = Some(true);
        self
    }

    /// Connects QPs of one card.
    pub const fn loopback(mut self) -> Self {
        self.topology = Topology::Loopback;
        self
    }

    /// Uses this many threads, each with its own QP, which post `depth` work requests and wait for
    /// them. The preset gives the number of doorbells.
    pub const fn batches(mut self, threads: u32, depth: u32) -> Self {
        self.threads = threads;
        self.qps = threads;
        self.depth = Some(depth);
        self.workload = Workload::Batch;
        self
    }

    /// Uses one QP for all threads.
    pub const fn shared_qp(mut self) -> Self {
        self.sharing.threads_per_qp = self.threads;
        self.qps = 1;
        self
    }

    /// Uses `hosts` hosts, all to all; each of `threads` threads has `machines` QPs to each and
    /// keeps `window` work requests outstanding.
    pub const fn all_to_all(
        mut self,
        hosts: u32,
        threads: u32,
        machines: u32,
        window: u32,
    ) -> Self {
        self.topology = Topology::AllToAll {
            hosts,
            virtual_machines: machines,
        };
        self.threads = threads;
        self.depth = Some(window);
        self.workload = Workload::Window;
        self
    }

    /// Uses `count` QPs in all, over which each of `threads` threads keeps `window` work requests.
    pub const fn window(mut self, count: u32, threads: u32, window: u32) -> Self {
        self.qps = count;
        self.threads = threads;
        self.depth = Some(window);
        self.workload = Workload::Window;
        self
    }

    /// Uses `count` QPs of `depth` in all, which `threads` threads fill in round-robin order.
    pub const fn queue_pairs(mut self, count: u32, threads: u32, depth: u32) -> Self {
        self.qps = count;
        self.threads = threads;
        self.depth = Some(depth);
        self
    }

    /// Uses `count` regions of `bytes` bytes.
    pub const fn regions(mut self, count: u32, bytes: u64) -> Self {
        self.regions = count;
        self.region_bytes = Some(bytes);
        self
    }

    /// Uses regions of these pages.
    pub const fn pages(mut self, pages: PageSize) -> Self {
        self.pages = pages;
        self
    }

    /// Aims atomics at one address.
    pub const fn one_address(mut self) -> Self {
        self.one_address = true;
        self
    }

    /// Aims atomics at the card's memory.
    pub const fn device_memory(mut self) -> Self {
        self.device_memory = true;
        self
    }

    const fn with_depth(mut self, depth: u32) -> Self {
        self.depth = Some(depth);
        self
    }

    /// Returns the same with another depth.
    pub fn at_depth(self, depth: u32) -> Self {
        self.with_depth(depth)
    }

    /// Returns the threads of a client.
    pub fn threads(&self) -> u32 {
        self.threads
    }

    /// Returns the number of requesting hosts, whose rates the harness adds up.
    pub fn requesting_hosts(&self) -> u32 {
        match self.topology {
            Topology::AllToAll { hosts, .. }
            | Topology::Flows { hosts, .. }
            | Topology::Clients(hosts) => hosts,
            Topology::Pair | Topology::Loopback => 1,
        }
    }

    /// Returns the specification for the harness.
    pub fn spec(&self) -> Result<PerfSpec, String> {
        let mut preset = Preset::load(self.preset).map_err(|error| error.to_string())?;
        for (key, value) in self.changes {
            preset.set(key, value).map_err(|error| error.to_string())?;
        }
        let mut spec = PerfSpec::new(preset, self.operation, self.test);
        spec.service = self.service;
        spec.sizes = self.sizes.to_vec();
        spec.all_sizes = self.workload == Workload::Perftest && self.test == Test::Bandwidth;
        spec.mtu_bytes = self.mtu;
        spec.inline_bytes = self.inline;
        spec.threads = self.threads;
        spec.qps = self.qps;
        spec.depth = self.depth;
        spec.topology = self.topology;
        spec.workload = self.workload;
        spec.sharing = self.sharing;
        spec.switched = self.switched;
        spec.memory_regions = self.regions;
        spec.region_bytes = self.region_bytes;
        spec.page_size = self.pages;
        spec.atomics.one_address = self.one_address;
        spec.atomics.device_memory = self.device_memory;
        spec.placement.relaxed_order = self.relaxed_order;
        if self.on_gpu {
            let topology = spec.preset.topology.as_deref();
            let gpu = Location::new(topology, "gpu0", 1)?;
            spec.placement.local = gpu.clone();
            spec.placement.remote = gpu;
        }
        Ok(spec)
    }
}
