//! Different costs of READs, WRITEs and atomics: one test for each mechanism, on a card whose times
//! do not spread.

use ferroce_model::preset::Preset;
use ferroce_perf::{Iterations, Operation, PerfRow, PerfSpec, Test, Topology, Workload, run};

const STEADY: [(&str, &str); 3] = [
    ("host.jitter_ns", "0"),
    ("pcie.read_jitter_ns", "0"),
    ("pcie.read_tail_probability", "0"),
];
/// A host that never limits a rate.
const FAST_HOST: [(&str, &str); 4] = [
    ("host.post_ns", "1"),
    ("host.doorbell_ns", "1"),
    ("host.push_ns", "1"),
    ("host.poll_hit_ns", "1"),
];

fn bandwidth(operation: Operation, size: u32, changes: &[(&str, &str)]) -> PerfSpec {
    let mut preset = Preset::load("cx5-100g").expect("built in");
    for (key, value) in STEADY.iter().chain(&FAST_HOST).chain(changes) {
        preset.set(key, value).expect(key);
    }
    let mut spec = PerfSpec::new(preset, operation, Test::Bandwidth);
    spec.sizes = vec![size];
    spec.iterations = Iterations::Exactly(400);
    spec
}

fn row(spec: &PerfSpec) -> PerfRow {
    run(spec).expect("it runs").rows.remove(0)
}

fn rate(row: &PerfRow) -> f64 {
    let bandwidth = row.bandwidth.as_ref().expect("a bandwidth test");
    bandwidth.message_rate_mpps
}

/// Returns a counter of both hosts together.
fn counter(row: &PerfRow, name: &str) -> u64 {
    let of_host = |counters: &Vec<(&'static str, u64)>| {
        let found = counters.iter().find(|(other, _)| *other == name);
        found.expect(name).1
    };
    row.counters.iter().map(of_host).sum()
}

/// Goal: an atomic occupies its queue pair for a read, its execution and its write, but its
/// response leaves right after the read. Method: make the execution longer; the rate of one queue
/// pair falls accordingly, and the latency of a single atomic does not change.
#[test]
fn the_execution_of_an_atomic_costs_rate_and_no_latency() {
    let cycles = |count| [("datapath.atomic_cycles", count)];
    let period_ns = |count| {
        let spec = bandwidth(Operation::FetchAdd, 8, &cycles(count));
        1000.0 / rate(&row(&spec))
    };
    let longer = period_ns("86") - period_ns("43");
    assert!(
        (longer - 100.0).abs() < 3.0,
        "43 cycles of 430 MHz: {longer}"
    );

    let latency = |count| {
        let mut spec = bandwidth(Operation::FetchAdd, 8, &cycles(count));
        spec.test = Test::Latency;
        row(&spec).latency.expect("a latency test").typical_us
    };
    assert_eq!(latency("0"), latency("43"));
}

/// Goal: a queue pair accepts packets of long READ responses no faster than its unit advances the
/// request; packets of WRITEs and of short READs do not have this cost.
#[test]
fn packets_of_a_long_read_response_cost_the_requester() {
    let none = [("units.response_cycles", "0")];
    let long = |operation, changes: &[_]| {
        let packets = 64.0;
        rate(&row(&bandwidth(operation, 64 << 10, changes))) * packets
    };
    let read = long(Operation::Read, &[]);
    // 40 cycles of 430 MHz.
    assert!((read - 10.75).abs() < 0.1, "{read} M packets/s");
    assert!(long(Operation::Read, &none) > 11.2);
    assert!(long(Operation::Write, &[]) > 11.2);
    let short = |changes: &[_]| rate(&row(&bandwidth(Operation::Read, 64, changes)));
    assert_eq!(short(&[]), short(&none));
}

/// Goal: a READ whose WQE found no room in the WQE cache reads it again; a WRITE never
/// does.
#[test]
fn only_reads_beyond_the_room_for_wqes_read_them_again() {
    let refetches = |operation, entries| {
        let spec = bandwidth(operation, 64, &[("cache.wqe.entries", entries)]);
        let row = row(&spec);
        (counter(&row, "wqe_refetches"), rate(&row))
    };
    let (roomy, fast) = refetches(Operation::Read, "256");
    assert_eq!(roomy, 0, "128 are outstanding");
    let (again, slow) = refetches(Operation::Read, "8");
    assert!(again > 100, "{again}");
    assert!(slow < fast, "{slow} {fast}");
    assert_eq!(refetches(Operation::Write, "8").0, 0);
}

/// Goal: READs look up responder resources, and miss when there are more queue pairs than lines;
/// WRITEs do not use them.
#[test]
fn only_reads_miss_responder_resources() {
    const QPS: u32 = 16;
    let misses = |operation, lines| {
        let lines = [
            ("cache.responder.log_sets", "0"),
            ("cache.responder.ways", lines),
            ("cache.responder.mshrs", "1"),
        ];
        let mut spec = bandwidth(operation, 64, &lines);
        spec.qps = QPS;
        spec.iterations = Iterations::Exactly(100);
        let row = row(&spec);
        (counter(&row, "responder_misses"), rate(&row))
    };
    let (few, fast) = misses(Operation::Read, "32");
    assert!(few <= u64::from(QPS), "{few}: each is read once");
    let (many, slow) = misses(Operation::Read, "4");
    assert!(many > 400, "{many}");
    assert!(slow < fast, "{slow} {fast}");
    assert_eq!(misses(Operation::Write, "4").0, 0);
}

/// Goal: threads that share a core take longer, and the card idles meanwhile.
#[test]
fn threads_that_share_cores_post_more_slowly() {
    let of_threads = |threads| {
        let mut preset = Preset::load("cx6-200g@xeon-6240r@uar-per-thread").expect("built in");
        for (key, value) in STEADY {
            preset.set(key, value).expect(key);
        }
        let mut spec = PerfSpec::new(preset, Operation::Write, Test::Bandwidth);
        (spec.sizes, spec.threads, spec.qps) = (vec![8], threads, threads);
        spec.iterations = Iterations::Exactly(100);
        rate(&row(&spec)) / f64::from(threads)
    };
    let (alone, shared) = (of_threads(2), of_threads(96));
    assert!(shared < 0.6 * alone, "{shared} {alone} M/s of a thread");
}

/// Goal: more load does not reduce the rate when misses of the MTT limit it. Method: READs at
/// random places of a region far larger than the cache, from one host and from four, with an
/// increasing number of outstanding READs: the rate never falls below the best rate of a smaller
/// number. Packets that waited for a miss register once reserved the link's time at once, which
/// delayed the misses before them: 24 of 34 M/s were left.
#[test]
fn more_load_on_a_full_mtt_costs_no_rate() {
    let of_load = |clients, depth| {
        let mut preset = Preset::load("cx6-200g@xeon-6240r@uar-per-thread").expect("built in");
        for (key, value) in STEADY {
            preset.set(key, value).expect(key);
        }
        let mut spec = PerfSpec::new(preset, Operation::Read, Test::Bandwidth);
        (spec.sizes, spec.threads, spec.qps) = (vec![8], 24, 24);
        (spec.workload, spec.depth) = (Workload::Batch, Some(depth));
        spec.topology = match clients {
            1 => Topology::Pair,
            _ => Topology::Clients(clients),
        };
        spec.iterations = Iterations::Exactly(300);
        rate(&row(&spec))
    };
    let mut best: f64 = 0.0;
    for (clients, depth) in [(1, 4), (1, 8), (1, 16), (1, 32), (4, 8), (4, 16)] {
        let rate = of_load(clients, depth);
        let what = format!("{clients} clients, depth {depth}: {rate} M/s, before {best}");
        assert!(rate > 0.95 * best, "{what}");
        best = best.max(rate);
    }
    assert!(best > 30.0, "{best} M/s");
}

/// Goal: a card continues to take frames when its host has been slow, although no other frame
/// arrives. Method: with selective repeat a closed gap makes the responder write much at once, so
/// its host falls behind while the requester, whose window is full, waits for an ACK. A card that
/// stopped there waited for the timer: 4 % of the rate were left.
#[test]
fn a_card_takes_what_waits_without_another_frame() {
    let changes = [
        ("transport.selective_repeat", "true"),
        ("link.cable_ns", "4790"),
    ];
    let mut spec = bandwidth(Operation::Write, 1 << 20, &changes);
    spec.iterations = Iterations::Exactly(16);
    spec.mtu_bytes = Some(1024);
    let gbps = |spec: &PerfSpec| rate(&row(spec)) * f64::from(8 << 20) / 1000.0;
    let without_loss = gbps(&spec);
    spec.faults = "loss=1e-2,seed=1".parse().ok();
    let with_loss = gbps(&spec);
    assert!(
        with_loss > without_loss / 2.0,
        "{with_loss} of {without_loss} Gb/s"
    );
}
