//! Rows name the bottleneck, for cases where it is known.

use super::*;
use crate::utilisation::{Bottleneck, LOCK, LOCKS, THREAD, Utilisation};

/// A card and a host that do not limit a few million messages per second.
const CHEAP_HOST: [(&str, &str); 5] = [
    ("host.post_ns", "5"),
    ("host.doorbell_ns", "5"),
    ("host.push_ns", "5"),
    ("host.poll_hit_ns", "1"),
    ("host.write_combining", "false"),
];

fn changed(mut spec: PerfSpec, changes: &[(&str, &str)]) -> PerfSpec {
    for (key, value) in changes {
        spec.preset.set(key, value).expect("a parameter");
    }
    spec.iterations = Iterations::Exactly(600);
    spec
}

fn cheap(operation: Operation, size: u32, changes: &[(&str, &str)]) -> PerfSpec {
    let spec = spec("cx5-100g", operation, Test::Bandwidth, size);
    changed(spec, &[&CHEAP_HOST[..], changes].concat())
}

fn utilisation(spec: &PerfSpec) -> Utilisation {
    row(spec).utilisation.expect("it takes time")
}

#[track_caller]
fn assert_limit(spec: &PerfSpec, host: usize, name: &str) {
    let utilisation = utilisation(spec);
    let limit = utilisation.limit().map(|part| (part.host, part.name));
    let busy: Vec<_> = utilisation
        .parts
        .iter()
        .filter(|part| part.share > 0.5)
        .collect();
    assert_eq!(
        limit,
        Some((host, name)),
        "{}; {busy:#?}",
        utilisation.bottleneck
    );
}

#[test]
fn wires() {
    let write = spec("cx5-100g", Operation::Write, Test::Bandwidth, 65_536);
    assert_limit(&changed(write.clone(), &[]), 0, "mac_transmit");
    let mut read = spec("cx5-100g", Operation::Read, Test::Bandwidth, 65_536);
    assert_limit(&changed(read.clone(), &[]), 0, "receive"); // one queue pair, one unit
    read.qps = 4;
    assert_limit(&changed(read, &[]), 1, "mac_transmit");
    let narrow = changed(write, &[("pcie.generation", "3"), ("pcie.lanes", "8")]);
    let utilisation = utilisation(&narrow);
    let limit = utilisation.limit().expect("a part").name;
    assert!(limit.starts_with("pcie_"), "{}", utilisation.bottleneck);
}

#[test]
fn the_programs_thread() {
    let write = spec("cx5-100g", Operation::Write, Test::Bandwidth, 64);
    assert_limit(&changed(write, &[]), 0, THREAD);
    let send = spec("cx5-100g", Operation::Send, Test::Bandwidth, 64);
    assert_limit(&changed(send, &[]), 0, THREAD);
}

/// Goal: each block of the card is named when it is the slowest. Method: slow it down to a
/// microsecond for each item, far slower than all others.
#[test]
fn blocks() {
    let cycles = "400";
    for (operation, key, host, name) in [
        (Operation::Write, "units.message_cycles", 0, "transmit"),
        (Operation::Write, "units.transmit_cycles", 0, "transmit"),
        (Operation::Write, "units.request_cycles", 1, "receive"),
        (Operation::Read, "units.transmit_cycles", 0, "transmit"),
        (
            Operation::Write,
            "datapath.doorbell_interval_cycles",
            0,
            "doorbell",
        ),
        (
            Operation::Write,
            "datapath.fetch_interval_cycles",
            0,
            "fetch",
        ),
        (
            Operation::Write,
            "datapath.packetizer_interval_cycles",
            0,
            "packetizer",
        ),
        (
            Operation::Write,
            "datapath.depacketizer_interval_cycles",
            1,
            "depacketizer",
        ),
    ] {
        let slowed = cheap(operation, 64, &[(key, cycles)]);
        let utilisation = utilisation(&slowed);
        let limit = utilisation.limit().map(|part| (part.host, part.name));
        assert_eq!(
            limit,
            Some((host, name)),
            "{key}: {}",
            utilisation.bottleneck
        );
    }
    let mut signaled = cheap(
        Operation::Write,
        64,
        &[("datapath.completion_interval_cycles", cycles)],
    );
    signaled.signal_every = Some(1);
    assert_limit(&signaled, 0, "completion");
}

#[test]
fn what_there_is_only_so_much_of() {
    let tags = [("pcie.read_tags", "1"), ("pcie.read_latency_ns", "2000")];
    assert_limit(&cheap(Operation::Write, 64, &tags), 0, "pcie_tags");
    let mut atomics = cheap(Operation::FetchAdd, 8, &[]);
    (atomics.qps, atomics.atomics.one_address) = (8, true);
    assert_limit(&atomics, 1, "atomic_address");
    let mut pages = cheap(
        Operation::Read,
        64,
        &[
            ("cache.mtt.log_sets", "0"),
            ("cache.mtt.ways", "1"),
            ("cache.mtt.mshrs", "1"),
        ],
    );
    (pages.workload, pages.depth, pages.qps) = (Workload::Batch, Some(64), 8);
    assert_limit(&pages, 1, "mtt_mshrs");
}

#[test]
fn a_lock_that_threads_share() {
    let mut shared = spec("cx6-200g@xeon-6240r", Operation::Read, Test::Bandwidth, 8);
    (shared.workload, shared.depth, shared.threads) = (Workload::Batch, Some(8), 16);
    shared.sharing.threads_per_qp = 16;
    assert_limit(&changed(shared, &[]), 0, LOCK);
    let mut doorbells = cheap(Operation::Write, 64, &[("host.doorbells", "4")]);
    (doorbells.threads, doorbells.qps) = (8, 64);
    let utilisation = utilisation(&doorbells);
    let limit = utilisation.limit().expect("a part").name;
    assert!([LOCK, LOCKS].contains(&limit), "{}", utilisation.bottleneck);
}

/// Goal: where no part is always busy, the row names the time of a request and the limit on
/// outstanding requests.
#[test]
fn latency() {
    let limit = |spec: &PerfSpec| match utilisation(spec).bottleneck {
        Bottleneck::Latency { window, busiest } => {
            assert!(busiest.share < 0.85, "{busiest:?}");
            (window.count, window.by)
        }
        Bottleneck::Part(part) => panic!("{part:?}"),
    };
    let one = spec("cx5-100g", Operation::Write, Test::Latency, 8);
    assert_eq!(limit(&one), (1, "--depth"));
    let mut few = cheap(Operation::Read, 64, &[]);
    (few.outstanding_reads, few.qps) = (Some(1), 2);
    let (count, what) = limit(&few);
    assert_eq!(count, 2);
    assert!(what.contains("max_outstanding_reads"), "{what}");
    let far = [
        ("transport.max_unacknowledged_packets", "4"),
        ("link.cable_ns", "100000"),
    ];
    let (count, what) = limit(&cheap(Operation::Write, 4096, &far));
    assert_eq!(count, 4);
    assert!(what.contains("max_unacknowledged_packets"), "{what}");
}

#[test]
fn nothing_limits_what_takes_no_time() {
    let row = row(&spec("functional", Operation::Write, Test::Bandwidth, 64));
    assert_eq!(row.utilisation, None);
    assert_eq!(table::Limit::of(String::new(), &row), None);
}

/// Goal: no part is in use for longer than the measurement.
#[test]
fn shares_are_shares() {
    for operation in ALL {
        for size in [8, 65_536] {
            let size = if operation == Operation::FetchAdd {
                8
            } else {
                size
            };
            let mut spec = spec("cx5-100g", operation, Test::Bandwidth, size);
            spec.qps = 16;
            for part in utilisation(&spec).parts {
                assert!(
                    (0.0..=1.001).contains(&part.share),
                    "{operation:?} {size} {part:?}"
                );
            }
        }
    }
}

/// Goal: skipped packets do not change shares. Method: long messages, with and without.
#[test]
fn skipped_packets_do_not_count() {
    let mut long = spec("cx5-100g", Operation::Write, Test::Bandwidth, 4 << 20);
    long.iterations = Iterations::Exactly(10);
    let every = utilisation(&long);
    long.fast_forward = true;
    let skipped = utilisation(&long);
    assert_eq!(every.bottleneck.text(), skipped.bottleneck.text());
    let (every, skipped) = (every.bottleneck.busiest(), skipped.bottleneck.busiest());
    assert!(
        (every.share - skipped.share).abs() < 0.1,
        "{every:?} {skipped:?}"
    );
}
