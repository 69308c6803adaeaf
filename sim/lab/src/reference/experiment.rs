//! Runs of the model that repeat a measurement.

use ferroce_model::preset::Preset;
use ferroce_perf::{
    Iterations, Location, Operation, PerfResult, PerfRow, PerfSpec, Placement, Service, Test,
    Topology, Workload,
};

use super::{BandwidthRow, LatencyRow, Rows, Setup, Table, Verb};

/// Number of messages of a bandwidth test, and the smallest size for which it holds: at least a
/// millisecond of a link of 100 Gb/s. Small messages end as soon as their rate is steady.
const BANDWIDTH_ITERATIONS: [(u32, u64); 5] = [
    (4 << 20, 16),
    (1 << 20, 64),
    (1 << 18, 150),
    (1 << 16, 500),
    (0, 5000),
];

/// Number of messages of a latency test, and the smallest size for which it holds: long messages do
/// not vary.
const LATENCY_ITERATIONS: [(u32, u64); 3] = [(1 << 20, 10), (1 << 16, 50), (0, 1000)];

/// Small messages of all threads together. Of long messages there are fewer, as with one thread.
const THREADS_MESSAGES: u64 = 40_000;
/// Minimum number of times that each of many threads fills its queue.
const QUEUES_PER_THREAD: u64 = 12;

/// The same for each of very many QPs.
const QUEUES_PER_QP: u64 = 3;

/// Maximum number of packets of a size, in one direction: seconds of processor time.
const MAX_PACKETS: u64 = 4 << 20;
/// Size of packets if the table does not say it.
const LEAST_MTU_BYTES: u32 = 1024;

/// The default seed.
pub const SEED: u64 = 1;

/// A simulator that runs experiments: the harness, or a test's own.
pub trait Simulator: Sync {
    /// Measures `spec`.
    fn run(&self, spec: &PerfSpec) -> Result<PerfResult, String>;
}

/// [`ferroce_perf::run`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Harness;

impl Simulator for Harness {
    fn run(&self, spec: &PerfSpec) -> Result<PerfResult, String> {
        ferroce_perf::run(spec).map_err(|error| error.to_string())
    }
}

/// Returns the specification that repeats `table` on `preset`.
pub fn repeat(table: &Table, preset: &Preset) -> Result<PerfSpec, String> {
    let setup = &table.setup;
    let test = if table.is_latency() {
        Test::Latency
    } else {
        Test::Bandwidth
    };
    let mut preset = preset.clone();
    if let Some(gbps) = link_that_differs(setup, &preset) {
        let changed = preset.set("mac.rate_gbps", &gbps.to_string());
        changed.map_err(|error| error.to_string())?;
    }
    let mut spec = PerfSpec::new(preset, operation(setup.verb), test);
    spec.service = service(setup)?;
    spec.sizes = sizes(table);
    spec.all_sizes = spec.sizes.len() > 1;
    spec.qps = setup.qps.max(1);
    spec.depth = setup.tx_depth.filter(|_| test == Test::Bandwidth);
    spec.signal_every = setup.cq_moderation.filter(|_| test == Test::Bandwidth);
    spec.inline_bytes = setup.max_inline_bytes;
    spec.bidirectional = setup.bidirectional;
    spec.mtu_bytes = setup.mtu_bytes;
    spec.outstanding_reads = setup.outstanding_reads;
    spec.switched = setup.switched;
    let topology = spec.preset.topology.as_deref();
    let location = |name: &Option<String>| {
        let found = name.as_deref().map(|name| Location::new(topology, name, 1));
        // `comparison` says that the preset has no such memory.
        found.and_then(Result::ok).unwrap_or_default()
    };
    spec.placement = Placement {
        local: location(&setup.memory.local),
        remote: location(&setup.memory.remote),
        relaxed_order: setup.memory.relaxed_order,
        ..Placement::default()
    };
    Ok(spec)
}

/// Returns the link rate of the table, if known and different from the preset's: QDR has 32 Gb/s of
/// data.
pub fn link_that_differs(setup: &Setup, preset: &Preset) -> Option<f64> {
    setup.link_gbps.filter(|gbps| *gbps != preset.mac.rate_gbps)
}

fn operation(verb: Verb) -> Operation {
    match verb {
        Verb::Write => Operation::Write,
        Verb::Read => Operation::Read,
        Verb::Send => Operation::Send,
        Verb::Atomic => Operation::FetchAdd,
    }
}

fn service(setup: &Setup) -> Result<Service, String> {
    let service = setup.service.ok_or(
        "the model has RC, UC and UD only. RC comes nearest to other reliable services, such as \
         SRD, XRC and DC: with `-c RC` in the command of the table, the model's figures show what \
         RC would reach on this card, not what was measured",
    )?;
    match (service, setup.verb) {
        (Service::Uc, Verb::Read | Verb::Atomic) => {
            Err("UC has neither READ nor atomics".to_owned())
        }
        (Service::Ud, verb) if verb != Verb::Send => Err("UD has SEND only".to_owned()),
        _ => Ok(service),
    }
}

/// Returns the sizes that the harness can send; perftest's all fit in 32 bits.
fn sizes(table: &Table) -> Vec<u32> {
    let sizes = table.sizes().into_iter();
    sizes.filter_map(|bytes| bytes.try_into().ok()).collect()
}

/// Runs `spec`, each size until its figure is stable.
pub fn run(simulator: &dyn Simulator, spec: &PerfSpec) -> Result<Rows, String> {
    Ok(figures(spec.test, &run_classes(simulator, spec)?))
}

/// Returns the figures of rows, in the units of tables.
pub fn figures(test: Test, rows: &[PerfRow]) -> Rows {
    match test {
        Test::Bandwidth => Rows::Bandwidth(rows.iter().filter_map(bandwidth).collect()),
        Test::Latency => Rows::Latency(rows.iter().filter_map(latency).collect()),
    }
}

fn run_classes(simulator: &dyn Simulator, spec: &PerfSpec) -> Result<Vec<PerfRow>, String> {
    let iterations: &[(u32, u64)] = match spec.test {
        Test::Bandwidth => &BANDWIDTH_ITERATIONS,
        Test::Latency => &LATENCY_ITERATIONS,
    };
    let mut rows = Vec::new();
    let of_small = iterations.last().map_or(1, |(_, count)| *count);
    for (from, to, count) in classes(iterations).into_iter().rev() {
        let mut spec = spec.clone();
        spec.sizes.retain(|size| (from..to).contains(size));
        let count = for_each_thread(&spec, count, of_small);
        spec.iterations = match spec.test {
            // A receiver counts messages: none may be missing.
            Test::Bandwidth if from == 0 && spec.operation != Operation::Send => {
                Iterations::UntilSteady(count)
            }
            Test::Bandwidth | Test::Latency => Iterations::Exactly(count),
        };
        if !spec.sizes.is_empty() {
            rows.extend(simulator.run(&spec)?.rows);
        }
    }
    Ok(rows)
}

/// Returns the number of messages of each of several threads, or of QPs that are filled in
/// round-robin order: they share the work, but each fills and empties its queues several times. One
/// thread would send `count` messages, or `of_small` small ones.
fn for_each_thread(spec: &PerfSpec, count: u64, of_small: u64) -> u64 {
    let hosts = match spec.topology {
        Topology::AllToAll { hosts, .. }
        | Topology::Flows { hosts, .. }
        | Topology::Clients(hosts) => hosts,
        Topology::Pair | Topology::Loopback => 1,
    };
    let qps = match spec.workload {
        Workload::Perftest => spec.qps,
        Workload::Batch | Workload::Window => 1,
    };
    let threads = u64::from((spec.threads * hosts).max(qps));
    if threads == 1 {
        return count;
    }
    let depth = u64::from(spec.depth.unwrap_or(1));
    let rounds = if qps > spec.threads {
        QUEUES_PER_QP
    } else {
        QUEUES_PER_THREAD
    };
    let count = (THREADS_MESSAGES * count / of_small / threads).max(depth * rounds);
    let longest = spec.sizes.iter().max().copied().unwrap_or_default();
    let mtu_bytes = spec.mtu_bytes.unwrap_or(LEAST_MTU_BYTES);
    let packets = threads * u64::from(longest.div_ceil(mtu_bytes)).max(1);
    count.min((MAX_PACKETS / packets).max(1))
}

/// Classes of sizes, the large ones first: from, up to, iterations.
fn classes(iterations: &[(u32, u64)]) -> Vec<(u32, u32, u64)> {
    let ends = std::iter::once(u32::MAX).chain(iterations.iter().map(|(from, _)| *from));
    let classes = iterations.iter().zip(ends);
    classes
        .map(|((from, count), to)| (*from, to, *count))
        .collect()
}

fn bandwidth(row: &PerfRow) -> Option<BandwidthRow> {
    let bandwidth = row.bandwidth.as_ref()?;
    Some(BandwidthRow {
        bytes: u64::from(row.size),
        peak_gbps: Some(bandwidth.peak_mib_per_s * super::table::GBPS_PER_MIBPS),
        average_gbps: bandwidth.average_gbps(),
        message_rate_mpps: bandwidth.message_rate_mpps,
    })
}

fn latency(row: &PerfRow) -> Option<LatencyRow> {
    let latency = row.latency.as_ref()?;
    Some(LatencyRow {
        bytes: u64::from(row.size),
        min_us: Some(latency.min_us),
        max_us: Some(latency.max_us),
        typical_us: Some(latency.typical_us),
        average_us: Some(latency.average_us),
        stdev_us: Some(latency.stdev_us),
        p99_us: Some(latency.p99_us),
        p999_us: Some(latency.p999_us),
    })
}

/// Returns the conditions of a run, in one line: preset, hash, version, seed.
pub fn stamp(preset: &Preset, seed: u64) -> String {
    let (card, host) = match preset.name().split_once('@') {
        Some((card, host)) => (card, host.replace('@', ", ")),
        None => (preset.name(), "of the preset".to_owned()),
    };
    let (hash, version) = (preset.hash(), env!("CARGO_PKG_VERSION"));
    format!("preset {card} · hash {hash:016x} · host {host} · ferroce {version} · seed {seed}")
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::reference::builtin;

    /// A model that returns `rate` for every rate and `latency_us` for every latency.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Constant {
        pub(crate) rate_mpps: f64,
        pub(crate) latency_us: f64,
    }

    impl Simulator for Constant {
        fn run(&self, spec: &PerfSpec) -> Result<PerfResult, String> {
            let rows = spec.sizes.iter().map(|size| PerfRow {
                traffic: matches!(spec.topology, Topology::Flows { .. }).then(traffic),
                ..self.row(spec.test, *size)
            });
            Ok(PerfResult {
                rows: rows.collect(),
            })
        }
    }

    /// A model that records the number of messages of a queue pair.
    #[derive(Debug, Default)]
    struct Messages(AtomicU64);

    impl Simulator for Messages {
        fn run(&self, spec: &PerfSpec) -> Result<PerfResult, String> {
            let (Iterations::Exactly(count) | Iterations::UntilSteady(count)) = spec.iterations;
            self.0.store(count, Ordering::Relaxed);
            Ok(PerfResult { rows: Vec::new() })
        }
    }

    impl Constant {
        fn row(&self, test: Test, size: u32) -> PerfRow {
            let mib = self.rate_mpps * f64::from(size) * 1e6 / 1_048_576.0;
            let bandwidth = ferroce_perf::BandwidthRow {
                peak_mib_per_s: mib,
                average_mib_per_s: mib,
                message_rate_mpps: self.rate_mpps,
                elapsed_ps: 1,
                messages: 1,
            };
            let us = self.latency_us;
            let latency = ferroce_perf::LatencyRow {
                min_us: us,
                max_us: us,
                typical_us: us,
                average_us: us,
                stdev_us: 0.0,
                p99_us: us,
                p999_us: us,
                samples_ps: Vec::new(),
            };
            PerfRow {
                size,
                iterations: 1,
                bandwidth: (test == Test::Bandwidth).then_some(bandwidth),
                latency: (test == Test::Latency).then_some(latency),
                ..PerfRow::default()
            }
        }
    }

    /// Returns the traffic of two flows that shared a cable and completed after 10 and 20 ms.
    fn traffic() -> ferroce_perf::traffic::Traffic {
        let rates = vec![50.0; 100];
        ferroce_perf::traffic::Traffic {
            flows: Vec::new(),
            window_ps: (0, 1),
            utilisation: 1.0,
            jain: 1.0,
            least_of_most: 1.0,
            completion_ps: (10_000_000_000, 20_000_000_000),
            queue: None,
            fabric: None,
            course: ferroce_perf::course::Course {
                start_ps: 0,
                interval_ps: 100_000_000,
                flows_gbps: vec![rates.clone(), rates.clone()],
                queue_bytes: rates,
            },
        }
    }

    fn spec(name: &str, preset: &str) -> Result<PerfSpec, String> {
        let preset = Preset::load(preset).expect("a built-in preset");
        repeat(&builtin::find(name)[0], &preset)
    }

    #[test]
    fn a_table_says_how_it_is_repeated() {
        let spec = spec("cx5_edr100_ib_vf_send_lat", "cx5-100g").expect("RC SEND");
        assert_eq!(
            (spec.operation, spec.test),
            (Operation::Send, Test::Latency)
        );
        assert_eq!((spec.inline_bytes, spec.switched), (Some(0), Some(true)));
        assert!(spec.all_sizes && spec.sizes.len() == 23);
        let spec = self::spec("cx3_qdr40_ib_read_bw", "cx3-40g").expect("RC READ");
        assert_eq!(
            (spec.preset.mac.rate_gbps, spec.outstanding_reads),
            (32.0, Some(16))
        );
        assert_eq!((spec.depth, spec.mtu_bytes), (Some(128), Some(2048)));
    }

    #[test]
    fn what_the_model_has_not_is_refused_with_the_reason() {
        let error = spec("aws_efa_srd_send_bw_partial", "cx5-100g").expect_err("SRD");
        assert!(error.contains("RC, UC and UD"), "{error}");
    }

    #[test]
    fn each_size_is_run_once_and_in_order() {
        let spec = spec("cx3_qdr40_ib_write_lat", "cx3-40g").expect("RC WRITE");
        let model = Constant {
            rate_mpps: 1.0,
            latency_us: 2.0,
        };
        let Ok(Rows::Latency(rows)) = run(&model, &spec) else {
            panic!("latency");
        };
        let sizes: Vec<_> = rows.iter().map(|row| row.bytes as u32).collect();
        assert_eq!(sizes, spec.sizes);
    }

    /// Goal: no size takes minutes, however many queue pairs there are and however long the
    /// messages.
    #[test]
    fn the_packets_of_each_size_are_bounded() {
        let mut spec = spec("cx3_qdr40_ib_write_bw", "cx7-400g").expect("RC WRITE");
        spec.bidirectional = true;
        for qps in [1, 4, 64, 512] {
            spec.qps = qps;
            for size in (1..24).map(|log| 1_u32 << log) {
                spec.sizes = vec![size];
                let messages = Messages::default();
                run(&messages, &spec).expect("it runs");
                let packets = u64::from(qps)
                    * messages.0.load(Ordering::Relaxed)
                    * u64::from(size.div_ceil(2048));
                assert!(
                    packets <= MAX_PACKETS,
                    "{qps} QPs, {size} B: {packets} packets"
                );
            }
        }
    }
}
