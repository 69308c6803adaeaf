//! Options of `ferroce perf`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use ferroce_faults::Plan;
use ferroce_perf::options::{self, bytes, iterations};
use ferroce_perf::pattern::Pattern;
use ferroce_perf::{Operation, PageSize, PerfSpec, Service, Sharing, Test, Topology, Workload};

use super::super::fabric::Fabric;
use super::super::faults::{Faults, refuse_situations};
use super::super::json::JsonOption;
use super::super::shard::ShardOption;
use super::placement::PlacementArgs;
use super::trace::TraceArgs;

/// Run perftest on simulated hosts: the driver, two cards and the link between them, in simulated
/// time.
///
/// Prints perftest's own columns (MB are MiB). The figures are the model's: the same command gives
/// the same figures, on every machine.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  ferroce perf write_bw --preset cx5-100g -a
  ferroce perf read_lat --preset cx6-200g@epyc-hdr
  ferroce perf write_lat --preset cx5-100g -s 1K --explain
  ferroce perf write_bw --preset irdma-10g -s 64 --sweep qps=1..1024 --json qps.json
  ferroce perf write_lat --preset cx5-100g --sweep pcie.read_latency_ns=300,400,500
  ferroce perf write_bw --preset irdma-10g -s 64 --sweep qps=1..1024 --shard 1/8 > 1.json
  ferroce perf write_bw --preset fpga-100g -s 4K --sensitivity
  ferroce perf read_bw --preset cx6-200g@xeon-6240r -s 8 --loop batch --depth 8 --threads 96
  ferroce perf read_bw --preset cx3-40g@apt-fdr -s 32 --loop window --hosts 11 --threads 8
  ferroce perf write_bw --preset cx5-100g --hosts 9 --pattern incast --fabric star

`ferroce preset list` shows the presets, `ferroce preset show NAME` what is in them.")]
pub struct Perf {
    /// The test
    #[arg(value_enum)]
    pub test: TestName,

    /// Card, and with @ the hosts that it is in
    #[arg(long, value_name = "NAME[@HOST]")]
    pub preset: String,

    /// Change a parameter of the preset; can be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,

    /// All sizes from 2 B to 8 MiB
    #[arg(short, long, conflicts_with = "size")]
    pub all: bool,

    /// Bytes of a message, such as 64, 4K or 8M
    #[arg(short, long, value_name = "BYTES", value_parser = bytes)]
    pub size: Option<u32>,

    /// Messages of each QP; `auto`: until the rate is steady
    #[arg(short = 'n', long, value_name = "N|auto")]
    pub iterations: Option<String>,

    /// Transport service
    #[arg(short, long, value_enum, ignore_case = true, default_value = "RC")]
    pub connection: Connection,

    /// QPs of the client
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    pub qps: u32,

    /// Memory regions of each side, used in turn
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub mrs: u32,

    /// Pages of the memory regions [default: 4K, or as host.translation of the preset says]
    #[arg(long, value_enum)]
    pub page_size: Option<Pages>,

    /// Threads of the client, each with its part of the QPs
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub threads: u32,

    /// Work requests outstanding: of a QP, or of a thread with --loop batch and window
    #[arg(short = 't', long, value_name = "N")]
    pub depth: Option<u32>,

    /// Receive work requests of a QP
    #[arg(short, long, value_name = "N")]
    pub rx_depth: Option<u32>,

    /// Longest payload that is inlined into the work request, as far as the preset supports it
    #[arg(short = 'I', long, value_name = "BYTES")]
    pub inline: Option<u32>,

    /// Segments of each message's gather list, at most 16; the message is cut into equal parts
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub sge: u32,

    /// Offset of the buffers from the beginning of a page, so that messages cross pages
    #[arg(long, value_name = "BYTES", value_parser = bytes, default_value = "0")]
    pub align: u32,

    /// Packets that are lost, as 1e-4: short for --faults loss=RATE
    #[arg(long, value_name = "RATE", conflicts_with = "plan", value_parser = loss)]
    pub loss: Option<f64>,

    /// CQ moderation: one signaled work request in this many
    #[arg(short = 'Q', long, value_name = "N")]
    pub signal_every: Option<u32>,

    /// Sleep until there is an event of the CQ, instead of polling
    #[arg(short, long)]
    pub events: bool,

    /// Both sides send
    #[arg(short, long)]
    pub bidirectional: bool,

    /// Path MTU
    #[arg(short, long, value_name = "BYTES")]
    pub mtu: Option<u32>,

    /// READs and atomics outstanding of a QP
    #[arg(short, long, value_name = "N")]
    pub outstanding_reads: Option<u32>,

    /// Local ACK timeout: 4.096 us times two to the power of N; the card waits up to four times as
    /// long [default: 14]
    #[arg(short = 'u', long, value_name = "N")]
    pub qp_timeout: Option<u8>,

    /// Retries after a time-out before a request fails, 0 to 7 [default: 7]
    #[arg(long, value_name = "N")]
    pub retry_count: Option<u8>,

    /// Hosts: all but one are clients of the last; with --loop window all send to all; one host has
    /// QPs that are connected with each other
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub hosts: u32,

    /// Which hosts send to which
    #[arg(long, value_enum)]
    pub pattern: Option<PatternName>,

    /// Fabric.
    #[command(flatten)]
    pub fabric: Fabric,

    /// QPs of each thread to each host, with --loop window
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub vms: u32,

    /// A cable between the hosts, instead of the preset's topology
    #[arg(long, conflicts_with = "switch")]
    pub direct: bool,

    /// A switch between the hosts, instead of the preset's topology
    #[arg(long)]
    pub switch: bool,

    /// Order of a thread's work
    #[arg(long, value_enum, default_value = "perftest", name = "LOOP")]
    pub r#loop: Loop,

    /// What threads share: `qp`, `qp=THREADS` or `doorbell=DOORBELLS`; can be given several times
    #[arg(long, value_name = "WHAT")]
    pub share: Vec<String>,

    /// Bytes of the region that --loop batch and window access
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub region: Option<u32>,

    /// Memory of machines with a topology.
    #[command(flatten)]
    pub placement: PlacementArgs,

    /// Cards of each machine in use: each host of the measurement is a card of a machine
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub cards: u32,

    /// Atomics compare and swap, instead of fetching and adding
    #[arg(long)]
    pub compare_swap: bool,

    /// Atomics all go to one address
    #[arg(long)]
    pub one_address: bool,

    /// Atomics go to the card's memory
    #[arg(long)]
    pub device_memory: bool,

    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Skip the steady middle of long messages: much faster, and figures differ by less than three
    /// in a thousand. This is the default of `ferroce perftest`
    #[arg(long)]
    pub fast_forward: bool,

    /// Faults.
    #[command(flatten)]
    pub faults: Faults,

    /// Run once for each value: `qps=1,2,8`, `qps=1..1024` (doubling), or any parameter of the
    /// preset; several make all combinations
    #[arg(long, value_name = "KEY=VALUES")]
    pub sweep: Vec<String>,

    /// Move each parameter of the preset by a tenth, one after the other, and rank them by what
    /// that does to the figure: of one size, in some 250 runs. Fewer messages (-n) are faster
    #[arg(long)]
    pub sensitivity: bool,

    /// Fit the host's cost of a post to a measured table first: the output of perftest, its JSON,
    /// or CSV with its columns. Its smallest messages say what a post costs
    #[arg(long, value_name = "FILE")]
    pub calibrate_host: Option<String>,

    /// Worlds that run at once; the default is the number of processors
    #[arg(short, long, value_name = "N")]
    pub jobs: Option<u32>,

    /// Shards.
    #[command(flatten)]
    pub shard: ShardOption,

    /// JSON.
    #[command(flatten)]
    pub json: JsonOption,

    /// Write a line for each row to a file as CSV, with what limits it
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,

    /// Traces.
    #[command(flatten)]
    pub trace: TraceArgs,
}

/// perftest's programs, without `ib_`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum TestName {
    /// Bandwidth of RDMA WRITE
    WriteBw,
    /// Bandwidth of RDMA READ
    ReadBw,
    /// Bandwidth of SEND
    SendBw,
    /// Rate of atomics
    AtomicBw,
    /// Latency of RDMA WRITE, half of a round trip
    WriteLat,
    /// Latency of RDMA READ
    ReadLat,
    /// Latency of SEND, half of a round trip
    SendLat,
    /// Latency of atomics
    AtomicLat,
}

/// Which hosts send to which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PatternName {
    /// All to the last one
    Incast,
    /// Each to one other, half of the hosts further on
    Permutation,
    /// Each to all others
    AllToAll,
    /// Each other host to the next one
    Pairs,
}

impl From<PatternName> for Pattern {
    fn from(name: PatternName) -> Self {
        match name {
            PatternName::Incast => Self::Incast,
            PatternName::Permutation => Self::Permutation,
            PatternName::AllToAll => Self::AllToAll,
            PatternName::Pairs => Self::Pairs,
        }
    }
}

/// Transport services.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "UPPER")]
pub enum Connection {
    /// Reliable connection
    Rc,
    /// Unreliable connection
    Uc,
    /// Unreliable datagram
    Ud,
}

/// Pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Pages {
    /// 4 KiB
    #[value(name = "4K")]
    Small,
    /// 2 MiB
    #[value(name = "2M")]
    Huge2M,
    /// 1 GiB
    #[value(name = "1G")]
    Huge1G,
    /// None: one block that needs no translation
    Physical,
}

/// Loops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Loop {
    /// Keeps the send queues full
    Perftest,
    /// Posts --depth work requests, each with its doorbell, waits for all, posts again (SMART)
    Batch,
    /// Keeps --depth work requests outstanding over all QPs, at random places (FaSST)
    Window,
}

/// Maximum loss: with more, retries are exhausted and most messages fail.
const MOST_LOSS: f64 = 0.5;

impl Perf {
    /// Returns the specification, without its sweeps.
    pub fn spec(&self) -> Result<PerfSpec, String> {
        let preset = options::preset(&self.preset, &self.set)?;
        let (operation, test) = self.operation();
        let mut spec = PerfSpec::new(preset, operation, test);
        spec.service = match self.connection {
            Connection::Rc => Service::Rc,
            Connection::Uc => Service::Uc,
            Connection::Ud => Service::Ud,
        };
        if self.all {
            if matches!(operation, Operation::FetchAdd | Operation::CompareSwap) {
                return Err("--all: an atomic has 8 bytes".to_owned());
            }
            spec = spec.all_sizes();
        }
        if let Some(size) = self.size {
            spec.sizes = vec![size];
        }
        if let Some(text) = &self.iterations {
            spec.iterations = iterations(text, spec.iterations)?;
        }
        spec.qps = self.qps;
        spec.memory_regions = self.mrs;
        if let Some(pages) = self.page_size {
            spec.page_size = match pages {
                Pages::Small => PageSize::Small,
                Pages::Huge2M => PageSize::Huge2M,
                Pages::Huge1G => PageSize::Huge1G,
                Pages::Physical => PageSize::Physical,
            };
        }
        spec.threads = self.threads;
        spec.depth = self.depth;
        spec.receive_depth = self.rx_depth;
        spec.inline_bytes = self.inline;
        spec.signal_every = self.signal_every;
        spec.events = self.events;
        spec.bidirectional = self.bidirectional;
        spec.mtu_bytes = self.mtu;
        spec.outstanding_reads = self.outstanding_reads;
        spec.local_ack_timeout = self.qp_timeout;
        spec.retry_count = self.retry_count;
        spec.workload = match self.r#loop {
            Loop::Perftest => Workload::Perftest,
            Loop::Batch => Workload::Batch,
            Loop::Window => Workload::Window,
        };
        spec.topology = self.topology()?;
        spec.switched = (self.direct || self.switch).then_some(self.switch);
        spec.region_bytes = self.region.map(u64::from);
        spec.sharing = self.sharing()?;
        spec.atomics.one_address = self.one_address;
        spec.atomics.device_memory = self.device_memory;
        spec.seed = self.seed;
        spec.fast_forward = self.fast_forward;
        spec.segments = self.sge;
        spec.offset_bytes = self.align;
        spec.faults = self.fault_plan()?;
        spec.fabric = self.fabric.plan_of_hosts(self.hosts as usize)?;
        spec.placement = self.placement.placement(&spec.preset, self.cards)?;
        Ok(spec)
    }

    /// Returns the faults of `--faults`, or the loss of `--loss`.
    fn fault_plan(&self) -> Result<Option<Plan>, String> {
        let Some(rate) = self.loss else {
            refuse_situations(self.faults.plan.as_ref())?;
            return Ok(self.faults.plan.clone());
        };
        if rate == 0.0 {
            return Ok(None);
        }
        let plan = format!("loss={rate}").parse::<Plan>();
        plan.map(Some)
            .map_err(|error| format!("--loss {rate}: {error}"))
    }

    fn operation(&self) -> (Operation, Test) {
        let atomic = if self.compare_swap {
            Operation::CompareSwap
        } else {
            Operation::FetchAdd
        };
        match self.test {
            TestName::WriteBw => (Operation::Write, Test::Bandwidth),
            TestName::ReadBw => (Operation::Read, Test::Bandwidth),
            TestName::SendBw => (Operation::Send, Test::Bandwidth),
            TestName::AtomicBw => (atomic, Test::Bandwidth),
            TestName::WriteLat => (Operation::Write, Test::Latency),
            TestName::ReadLat => (Operation::Read, Test::Latency),
            TestName::SendLat => (Operation::Send, Test::Latency),
            TestName::AtomicLat => (atomic, Test::Latency),
        }
    }

    fn topology(&self) -> Result<Topology, String> {
        if let Some(pattern) = self.pattern {
            let (hosts, pattern) = (self.hosts, pattern.into());
            return Ok(Topology::Flows { hosts, pattern });
        }
        match (self.hosts, self.r#loop) {
            (0, _) => Err("--hosts 0: at least 1".to_owned()),
            (1, _) => Ok(Topology::Loopback),
            (hosts, Loop::Window) => Ok(Topology::AllToAll {
                hosts,
                virtual_machines: self.vms,
            }),
            (2, _) => Ok(Topology::Pair),
            (_, _) if self.direct => Err(format!(
                "--direct: a cable joins two hosts, not {}",
                self.hosts
            )),
            (hosts, _) => Ok(Topology::Clients(hosts - 1)),
        }
    }

    fn sharing(&self) -> Result<Sharing, String> {
        let mut sharing = Sharing::default();
        for what in &self.share {
            let bad = || format!("--share {what}: write qp, qp=THREADS or doorbell=DOORBELLS");
            let number = |text: &str| text.parse().ok().filter(|n| *n > 0).ok_or_else(bad);
            match what.split_once('=') {
                None if what == "qp" => sharing.threads_per_qp = self.threads,
                Some(("qp", threads)) => sharing.threads_per_qp = number(threads)?,
                Some(("doorbell", count)) => sharing.doorbells = Some(number(count)?),
                _ => return Err(bad()),
            }
        }
        Ok(sharing)
    }
}

/// Parses a probability of loss.
pub fn loss(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok();
    let rate = rate.filter(|rate| (0.0..MOST_LOSS).contains(rate));
    rate.ok_or_else(|| {
        format!(
            "write a probability from 0 to below {MOST_LOSS}, such as 1e-4: with more loss no \
                 message arrives"
        )
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use ferroce_perf::Iterations;

    use super::*;

    fn parsed(arguments: &str) -> Perf {
        let all = ["ferroce", "perf"].into_iter().chain(arguments.split(' '));
        match crate::cli::Cli::try_parse_from(all).expect("legal").command {
            crate::cli::Command::Perf(perf) => *perf,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn options_become_a_specification() {
        let line = "read_bw --preset functional -s 4K -n 500 -q 4 --threads 2 --depth 32 -c rc \
                    --page-size 2M --mtu 1024 --switch --share doorbell=16 --seed 7";
        let spec = parsed(line).spec().expect("legal");
        assert_eq!(
            (spec.operation, spec.test),
            (Operation::Read, Test::Bandwidth)
        );
        assert_eq!(
            (&spec.sizes[..], spec.qps, spec.threads),
            (&[4096][..], 4, 2)
        );
        assert_eq!(spec.iterations, Iterations::Exactly(500));
        assert_eq!((spec.depth, spec.mtu_bytes), (Some(32), Some(1024)));
        assert_eq!(
            (spec.page_size, spec.switched),
            (PageSize::Huge2M, Some(true))
        );
        assert_eq!((spec.sharing.doorbells, spec.seed), (Some(16), 7));
    }

    #[test]
    fn loss_is_a_fault() {
        let faults = |rest: &str| {
            let line = format!("write_bw --preset functional {rest}");
            let spec = parsed(&line).spec().expect("legal");
            spec.faults.map(|plan| plan.to_string())
        };
        assert_eq!(faults("--loss 1e-4"), faults("--faults loss=1e-4"));
        assert_eq!(faults("--loss 0"), None);
        for bad in ["0.5", "-1", "x", "nan", "1e-4%"] {
            assert!(loss(bad).is_err(), "{bad}");
        }
        let both = "ferroce perf write_bw --preset functional --loss 0.1 --faults loss=0.1";
        assert!(crate::cli::Cli::try_parse_from(both.split(' ')).is_err());
    }

    #[test]
    fn gather_lists_and_offsets_are_specified() {
        let spec = parsed("write_bw --preset functional --sge 4 --align 2K").spec();
        let spec = spec.expect("legal");
        assert_eq!((spec.segments, spec.offset_bytes), (4, 2048));
    }

    #[test]
    fn hosts_become_a_topology() {
        let topology = |rest: &str| {
            parsed(&format!("write_bw --preset functional {rest}"))
                .spec()
                .map(|spec| spec.topology)
        };
        assert_eq!(topology("--hosts 1"), Ok(Topology::Loopback));
        assert_eq!(topology("--hosts 2"), Ok(Topology::Pair));
        assert_eq!(topology("--hosts 4"), Ok(Topology::Clients(3)));
        let all = Topology::AllToAll {
            hosts: 11,
            virtual_machines: 2,
        };
        assert_eq!(topology("--hosts 11 --loop window --vms 2"), Ok(all));
        assert!(topology("--hosts 3 --direct").is_err());
    }

    #[test]
    fn bad_options_are_named() {
        for (bad, what) in [
            ("--share pd", "--share pd: write qp"),
            ("--share doorbell=0", "--share doorbell=0"),
            ("-n many", "--iterations many"),
            ("--set pcie.lanes=3", "pcie.lanes"),
            ("--set pcie=3", "pcie"),
            ("--hosts 0", "--hosts 0"),
        ] {
            let perf = parsed(&format!("write_bw --preset cx5-100g {bad}"));
            let error = perf.spec().expect_err(bad);
            assert!(error.contains(what), "{bad}: {error}");
        }
    }
}
