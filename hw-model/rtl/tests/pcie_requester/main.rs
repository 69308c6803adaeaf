//! The PCIe requester against a host that interprets its TLPs like the hard block: the written
//! data, the results of reads, the order of both, errors, and the rates.

mod bench;
mod host;
mod rates;

use bench::{Bench, Program};
use ferroce_rtl::seeds::for_each_seed;
use ferroce_units::random::SplitMix64;
use host::Link;

const SEEDS: u64 = 40;
const CYCLES_PER_SEED: u64 = 6000;
/// Two periods of the requester's own time-out (build.rs), and the rest.
const DRAIN_CYCLES_MAX: u64 = 400_000;

fn link(seed: u64, random: &mut SplitMix64) -> Link {
    Link {
        max_payload: 128 << random.below(3),
        max_read: 128 << random.below(6),
        tags: [32, 256][random.below(2) as usize],
        makes_errors: seed % 4 != 0,
        completion: [None, Some(64), Some(128), Some(256)][random.below(4) as usize],
        latency: random.below(100),
    }
}

/// Goal: writes change exactly the bytes of their strobes; each line that is read has the content
/// after all earlier writes, and comes once; TLPs are within MPS, MRRS and 4 KiB; no tag is used
/// twice; errors, lost and unexpected completions end the affected lines and no other. Method: a
/// host that answers in any order, in parts, with faults.
#[test]
fn requests_are_executed_in_order() {
    let mut faults = std::collections::BTreeSet::new();
    let (mut errors, mut largest) = (0, 0);
    for_each_seed(SEEDS, |seed| {
        let mut random = SplitMix64::new(seed);
        let program = Program {
            runs: [4, 12, 15][random.below(3) as usize],
            reads: [1, 8, 16][random.below(3) as usize],
            writes: [1, 8, 16][random.below(3) as usize],
            is_whole: false,
        };
        let mut bench = Bench::new(seed, link(seed, &mut random), program, seed % 3 != 0);
        for _ in 0..CYCLES_PER_SEED {
            bench.plan();
            bench.cycle();
        }
        bench.drain(DRAIN_CYCLES_MAX);
        faults.extend(bench.host.faults.iter().copied());
        errors += bench.errors;
        let requests: usize = bench.host.requests.iter().sum();
        largest = largest.max(100 * (bench.host.write_lines + bench.lines) / requests);
        assert!(bench.lines > 0, "no line");
    });
    assert!(errors > 0, "no line had an error");
    assert!(largest > 200, "{largest} lines for 100 requests");
    assert!(faults.len() == 15, "faults {faults:?}");
}

/// Goal: without bus mastering nothing leaves, every read is an error, and completions wait for
/// nothing; afterwards all is as before.
#[test]
fn without_bus_mastering_reads_are_errors() {
    for_each_seed(8, |seed| {
        let link = Link {
            max_payload: 256,
            max_read: 256,
            tags: 32,
            makes_errors: false,
            completion: None,
            latency: 20,
        };
        let program = Program {
            runs: 12,
            reads: 8,
            writes: 8,
            is_whole: false,
        };
        let mut bench = Bench::new(seed, link, program, true);
        for is_on in [false, true, false, true] {
            bench.bus_master = is_on;
            let before = bench.host.requests;
            let errors = bench.errors;
            for _ in 0..1500 {
                bench.plan();
                bench.cycle();
            }
            bench.drain(DRAIN_CYCLES_MAX);
            assert_eq!(bench.host.requests == before, !is_on);
            assert_eq!(bench.errors == errors, is_on);
        }
    });
}
