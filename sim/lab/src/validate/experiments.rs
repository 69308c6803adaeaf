//! The plans of all targets of `validation_targets.csv`.
//!
//! Values and tolerances repeat the file; a test compares them. An expectation that the file states
//! in words ("inside band", "must vanish") is an [`Expected`] here. `recovery` has the plans for
//! loss, `congestion` the plans for full links; `marks` says which targets are predicted.

mod congestion;
mod marks;
mod recovery;

use Expected::{AtLeast, AtMost, Band, Near, Octaves, TargetBand, Value};
use Figure::{Goodput, KneeBytes, LoopTime, Rate, RateFarthestFrom, Step, Tail, Typical};
use ferroce_model::pcie::bench::Direction;
use ferroce_perf::Operation::{FetchAdd, Read, Send, Write};
use ferroce_perf::PageSize;

use super::basis::{Basis, Excuse};
use super::plan::{Access, Datagrams, Expected, Figure, Perf, Plan, Point, Run, Slot, Statistic};

/// Returns the plan of a target.
pub fn plan(id: &str) -> Option<&'static Plan> {
    all().find(|plan| plan.id == id)
}

fn all() -> impl Iterator<Item = &'static Plan> {
    PLANS.iter().chain(recovery::PLANS).chain(congestion::PLANS)
}

/// Returns the basis of a target's point: the mark of the point, or of its target.
pub fn basis(id: &str, point: &str) -> Option<Basis> {
    let own = || marks::MARKS.iter().filter(|mark| mark.id == id);
    let mark = own().find(|mark| mark.point == point);
    let mark = mark.or_else(|| own().find(|mark| mark.point.is_empty()))?;
    Some(Basis {
        kind: mark.kind,
        reason: mark.reason.into(),
        chosen: mark.chosen,
    })
}

/// Returns the excuse of a target, if it is missed and the cause is known.
pub fn excuse(id: &str) -> Option<&'static Excuse> {
    EXCUSES.iter().find(|excuse| excuse.id == id)
}

const KIB: u32 = 1 << 10;
const MIB: u32 = 1 << 20;

const LARGE: &[u32] = &[64 * KIB, MIB];
const FROM_16_KIB: &[u32] = &[16 * KIB, 64 * KIB, MIB];
const KNEE: &[u32] = &[256, 512, KIB, 2 * KIB, 4 * KIB, 8 * KIB, 64 * KIB];
const SMALL: &[u32] = &[2, 64, 256, 512];
const STEP: &[u32] = &[128, 256];

const K8S: &str = "cx5-100g@k8s-1ghz";
const GPU: &str = "cx5-100g@gpu-on-switch";
const DESKTOP: &str = "cx5-100g@desktop-x8";
const CX6: &str = "cx6-200g@epyc-hdr";
const CX3: &str = "cx3-40g@xeon-qdr";
const APT: &str = "cx3-40g@apt-fdr";
const SMART: &str = "cx6-200g@xeon-6240r";
const SMART_OWN_DOORBELLS: &str = "cx6-200g@xeon-6240r@uar-per-thread";
const EPYC: &str = "cx6-200g@epyc-2socket";
const EMERALD_RAPIDS: &str = "cx7-400g@emerald-rapids";
const GB10: &str = "cx7-400g@gb10";
const U280: &str = "fpga-100g-u280";

const HASWELL: &str = "nfp-6000@haswell-e5";
const HASWELL_NO_IOMMU: &str = "nfp-6000@haswell-e5-no-iommu";
const HASWELL_SMALL_PAGES: &str = "nfp-6000@haswell-e5@small-pages";
const BROADWELL_SMALL_PAGES: &str = "nfp-6000@broadwell-e5@small-pages";
const IVY_BRIDGE: &str = "nfp-6000@ivybridge-e5";

const WARM: u64 = 8 << 10;
const WINDOW_256K: u64 = 256 << 10;
const WINDOW_8M: u64 = 8 << 20;
const WINDOW_64M: u64 = 64 << 20;

const READ_64: Access = Access::Latency(64, WARM, Statistic::Median);

/// Returns the run for WRITE latency of one size on ConnectX-6 or ConnectX-3.
const fn write_latency(preset: &'static str, size: &'static [u32]) -> Run {
    Run::Perf(Perf::latency(preset, Write, size), Typical)
}

/// Returns the run of READs or WRITEs of 8 bytes by SMART's threads.
const fn smart(operation: ferroce_perf::Operation, threads: u32, depth: u32) -> Perf {
    Perf::bandwidth(SMART_OWN_DOORBELLS, operation, &[8])
        .batches(threads, depth)
        .pages(PageSize::Huge2M)
}

/// Returns the run of READs of 32 bytes between 11 hosts with 8 threads each, in huge pages, as in
/// rdma_bench.
const fn fasst(machines: u32) -> Run {
    let perf = Perf::bandwidth(APT, Read, &[32])
        .all_to_all(11, 8, machines, 16)
        .pages(PageSize::Huge2M);
    Run::Perf(perf, Rate)
}

const fn point(label: &'static str, run: Run, expected: Expected) -> Point {
    Point {
        label,
        run,
        expected,
    }
}

/// Returns the only point of its target.
const fn only(run: Run, expected: Expected) -> Point {
    point("", run, expected)
}

/// Returns a point of UDP goodput of one payload, as VNx measured it.
const fn datagrams(label: &'static str, bytes: u32, gbps: f64) -> Point {
    let run = Run::Datagrams(U280, Datagrams::Goodput(bytes));
    point(label, run, Value(gbps, 0.1))
}

/// Returns a point of effective bandwidth of gen3 x8 with MPS 256 and MRRS 512, by the formula.
const fn formula(label: &'static str, direction: Direction, bytes: u64, index: usize) -> Point {
    let access = Access::Bandwidth(direction, bytes, WINDOW_256K);
    point(
        label,
        Run::Pcie(Slot::Link(3, 8, 256, 512), access),
        Near(index, 1.0),
    )
}

/// Returns a point that was measured on Haswell without IOMMU.
const fn haswell(label: &'static str, direction: Direction, bytes: u64, gbps: f64) -> Point {
    let access = Access::Bandwidth(direction, bytes, WARM);
    point(
        label,
        Run::Pcie(Slot::Engine(HASWELL_NO_IOMMU), access),
        Value(gbps, 15.0),
    )
}

macro_rules! plans {
    ($($id:literal: [$($point:expr),* $(,)?]),* $(,)?) => {
        &[
            $(Plan { id: $id, points: &[$($point),*] },)*
        ]
    };
}

const PLANS: &[Plan] = plans! {
    "V01a": [only(
        Run::Perf(Perf::bandwidth("cx4lx-10g", Send, LARGE).mtu(1024), Goodput),
        Near(0, 0.5),
    )],
    "V01b": [only(
        Run::Perf(Perf::bandwidth("cx4lx-25g", Send, LARGE).mtu(1024), Goodput),
        Near(0, 0.3),
    )],
    "V01c": [only(
        Run::Perf(Perf::bandwidth("cx5-100g", Write, FROM_16_KIB).mtu(1024), Goodput),
        Near(0, 0.3),
    )],
    "V01d": [only(
        Run::Perf(Perf::bandwidth("cx5-100g@mtu-4096", Write, &[8 * MIB]).uc(), Goodput),
        Near(0, 0.3),
    )],
    "V01f": [only(
        Run::Perf(Perf::bandwidth("cx4lx-10g@gigabit", Read, LARGE).mtu(1024), Goodput),
        Near(0, 0.5),
    )],
    "V02a": [only(
        Run::Perf(Perf::bandwidth("cx4lx-10g", Send, KNEE).mtu(1024), KneeBytes),
        Octaves(0, 1.0),
    )],
    "V02b": [only(
        Run::Perf(Perf::bandwidth("cx4lx-25g", Send, KNEE).mtu(1024), KneeBytes),
        Octaves(0, 1.0),
    )],
    "V02c": [only(
        Run::Perf(Perf::bandwidth(GPU, Write, KNEE).mtu(1024).on_gpu(), KneeBytes),
        Octaves(0, 1.0),
    )],
    "V02d": [only(
        Run::Perf(Perf::bandwidth("cx5-100g@mtu-4096", Write, KNEE), KneeBytes),
        Octaves(0, 1.0),
    )],
    "V03a": [only(
        Run::Perf(Perf::bandwidth(GPU, Write, SMALL).on_gpu(), RateFarthestFrom(7.0)),
        Near(0, 5.0),
    )],
    "V04a": [only(Run::Perf(Perf::latency(K8S, Write, &[2]), Typical), Near(0, 10.0))],
    "V04b": [only(Run::Perf(Perf::latency(K8S, Send, &[2]), Typical), Near(0, 10.0))],
    "V04c": [only(Run::Perf(Perf::latency(K8S, Read, &[2]), Typical), Near(0, 10.0))],
    "V04d": [only(Run::Perf(Perf::latency(K8S, FetchAdd, &[8]), Typical), Near(0, 10.0))],
    "V04e": [only(Run::Perf(Perf::latency(DESKTOP, Write, &[8]), Typical), Near(0, 10.0))],
    "V04f": [only(Run::Perf(Perf::latency(DESKTOP, Write, &[8]), Tail), Near(0, 15.0))],
    "V04g": [only(Run::Perf(Perf::latency(K8S, Read, &[2]).loopback(), Typical), Near(0, 15.0))],
    "V05a": [only(write_latency(CX6, &[2]), Near(0, 10.0))],
    "V05b": [only(write_latency(CX6, &[128]), Near(0, 10.0))],
    "V05c": [only(write_latency(CX6, &[256]), Near(0, 10.0))],
    "V05d": [only(write_latency(CX6, &[4 * KIB]), Near(0, 10.0))],
    "V05e": [only(write_latency(CX6, &[64 * KIB]), Near(0, 10.0))],
    "V05f": [only(write_latency(CX6, &[MIB]), Near(0, 10.0))],
    "V05g": [only(write_latency(CX6, &[8 * MIB]), Near(0, 10.0))],
    "V06a": [
        only(Run::Perf(Perf::latency(CX6, Write, STEP), Step), Near(0, 30.0)),
        point("band", Run::Perf(Perf::latency(CX6, Write, STEP), Step), TargetBand),
    ],
    "V06b": [only(
        Run::Perf(Perf::latency("cx5-100g@azure-hc44rs", Send, STEP).inline(0), Step),
        AtMost(0.1),
    )],
    "V07a": [only(write_latency(CX3, &[2]), Near(0, 10.0))],
    "V07b": [only(write_latency(CX3, &[KIB]), Near(0, 10.0))],
    "V07c": [only(write_latency(CX3, &[64 * KIB]), Near(0, 10.0))],
    "V09": [
        point("88 QPs", fasst(1), Near(0, 25.0)),
        point("176 QPs", fasst(2), Near(1, 25.0)),
        point("792 QPs", fasst(9), Near(2, 25.0)),
    ],
    "V12a": [
        point("depth 8", Run::Perf(smart(Read, 96, 8), Rate), Near(0, 20.0)),
        point("depth 16", Run::Perf(smart(Read, 96, 16), Rate), Near(1, 20.0)),
        point("depth 32", Run::Perf(smart(Read, 96, 32), Rate), Near(2, 20.0)),
        point("knee", Run::Knee(smart(Read, 96, 8), &[4, 6, 8, 10, 12, 16]), Value(768.0, 25.0)),
    ],
    "V12b": [
        point("depth 8", Run::Perf(smart(Write, 96, 8), Rate), Near(0, 20.0)),
        point("depth 16", Run::Perf(smart(Write, 96, 16), Rate), Near(1, 20.0)),
    ],
    "V13a": [
        point("24 threads", Run::Perf(shared_doorbells(24), Rate), Near(0, 25.0)),
        point("96 threads", Run::Perf(shared_doorbells(96), Rate), Near(1, 25.0)),
    ],
    "V13b": [only(
        Run::Perf(
            Perf::bandwidth(SMART, Read, &[8]).batches(96, 8).shared_qp(),
            Rate,
        ),
        Near(0, 50.0),
    )],
    "V13c": [
        point("12 threads", Run::Perf(smart(Read, 12, 1), LoopTime), Near(0, 15.0)),
        point("96 threads", Run::Perf(smart(Read, 96, 1), LoopTime), Near(1, 15.0)),
    ],
    "V15a": [only(Run::Perf(Perf::bandwidth(K8S, FetchAdd, &[8]), Rate), Near(0, 20.0))],
    "V15c": [only(Run::Perf(Perf::bandwidth(CX3, FetchAdd, &[8]), Rate), Near(0, 20.0))],
    "V17a": [
        point("Haswell, IOMMU", Run::Pcie(Slot::Command(HASWELL), READ_64), TargetBand),
        point("Haswell", Run::Pcie(Slot::Command(HASWELL_NO_IOMMU), READ_64), TargetBand),
        point("Ivy Bridge", Run::Pcie(Slot::Command(IVY_BRIDGE), READ_64), TargetBand),
        point("remote, Haswell", Run::RemoteSocket(Slot::Command(HASWELL)), Band(66.5, 110.0)),
        point(
            "remote, Ivy Bridge", Run::RemoteSocket(Slot::Command(IVY_BRIDGE)),
            Band(66.5, 110.0),
        ),
    ],
    "V17b": [
        point("64 B", dma_latency(64), Near(0, 10.0)),
        point("512 B", dma_latency(512), Near(1, 10.0)),
        point("2048 B", dma_latency(2048), Near(2, 10.0)),
    ],
    "V17c": [
        point("mean", mlx5_latency(Statistic::Mean), TargetBand),
        point("minimum", mlx5_latency(Statistic::Minimum), TargetBand),
        point("99.9 %", mlx5_latency(Statistic::P999), TargetBand),
    ],
    "V18": [
        formula("write 64 B", Direction::Write, 64, 0),
        formula("read 64 B", Direction::Read, 64, 1),
        formula("write 256 B", Direction::Write, 256, 2),
        formula("read 256 B", Direction::Read, 256, 3),
        formula("write 512 B", Direction::Write, 512, 4),
        formula("read 512 B", Direction::Read, 512, 5),
        haswell("measured: read 256 B", Direction::Read, 256, 47.778),
        haswell("read 512 B", Direction::Read, 512, 55.040),
        haswell("read 2048 B", Direction::Read, 2048, 55.276),
        haswell("write 256 B", Direction::Write, 256, 50.488),
        haswell("write 512 B", Direction::Write, 512, 53.013),
        haswell("write 2048 B", Direction::Write, 2048, 53.013),
    ],
    "V19a": [
        point("256 KiB", read_bandwidth(HASWELL_SMALL_PAGES, WINDOW_256K), Near(0, 10.0)),
        point("64 MiB", read_bandwidth(HASWELL_SMALL_PAGES, WINDOW_64M), Near(1, 10.0)),
    ],
    "V19b": [
        point("256 KiB", read_bandwidth(HASWELL, WINDOW_256K), Near(0, 10.0)),
        point("64 MiB", read_bandwidth(HASWELL, WINDOW_64M), Near(1, 10.0)),
    ],
    "V19c": [
        point("Haswell, 256 KiB", read_latency(HASWELL_SMALL_PAGES, WINDOW_256K), Near(0, 10.0)),
        point("8 MiB", read_latency(HASWELL_SMALL_PAGES, WINDOW_8M), Near(1, 10.0)),
        point(
            "Broadwell, 256 KiB", read_latency(BROADWELL_SMALL_PAGES, WINDOW_256K),
            Near(2, 10.0),
        ),
        point("8 MiB", read_latency(BROADWELL_SMALL_PAGES, WINDOW_8M), Near(3, 10.0)),
    ],
    "V20a": [only(Run::Datagrams(U280, Datagrams::RoundTrip), Near(0, 15.0))],
    "V20b": [
        datagrams("64 B", 64, 49.231),
        point("128 B", Run::Datagrams(U280, Datagrams::Goodput(128)), Near(3, 1.0)),
        datagrams("192 B", 192, 74.419),
        datagrams("256 B", 256, 79.504),
        datagrams("320 B", 320, 82.902),
        datagrams("384 B", 384, 85.334),
        datagrams("448 B", 448, 87.160),
        datagrams("512 B", 512, 88.582),
        datagrams("640 B", 640, 90.652),
        datagrams("768 B", 768, 92.087),
        datagrams("896 B", 896, 93.140),
        datagrams("1024 B", 1024, 93.946),
        datagrams("1280 B", 1280, 95.098),
        datagrams("1472 B", 1472, 95.710),
    ],
    "V22a": [only(
        Run::Perf(Perf::bandwidth(K8S, Read, &[64 * KIB]).mtu(1024), Goodput),
        Near(0, 5.0),
    )],
    "V22b": [
        cx7("READ, 1 QP, 64 KiB", Read, &[64 * KIB], 1, 0),
        cx7("READ, 1 QP, 4 MiB", Read, &[4 * MIB], 1, 1),
        cx7("READ, 2 QPs, 4 MiB", Read, &[4 * MIB], 2, 2),
        cx7("WRITE, 1 QP, 64 KiB", Write, &[64 * KIB], 1, 3),
        cx7("WRITE, 1 QP, 4 MiB", Write, &[4 * MIB], 1, 4),
        cx7("WRITE, 2 QPs, 4 MiB", Write, &[4 * MIB], 2, 5),
    ],
    "V23": [
        point("WRITE, 64 QPs", many_queue_pairs(Write, 64), Near(0, 25.0)),
        point("WRITE, 512 QPs", many_queue_pairs(Write, 512), Near(1, 25.0)),
        point("READ, 64 QPs", many_queue_pairs(Read, 64), Near(2, 25.0)),
        point("READ, 512 QPs", many_queue_pairs(Read, 512), Near(3, 25.0)),
        point("WRITE, 32 QPs", many_queue_pairs(Write, 32), Near(4, 25.0)),
        point("READ, 32 QPs", many_queue_pairs(Read, 32), Near(5, 25.0)),
    ],
    "V24": [
        point("strict", large_writes(EPYC), Near(0, 20.0)),
        point("relaxed", relaxed_large_writes(EPYC), Near(1, 20.0)),
    ],
    "V25": [
        point("strict", large_writes(EMERALD_RAPIDS), Near(0, 20.0)),
        point("relaxed", relaxed_large_writes(EMERALD_RAPIDS), AtLeast(320.0)),
    ],
    "V26": [
        point(
            "1 QP, MTU 1024, 64 KiB",
            Run::Perf(Perf::bandwidth(GB10, Write, &[64 * KIB]).mtu(1024), Goodput),
            Near(0, 20.0),
        ),
        point(
            "4 QPs, MTU 4096, 1 MiB",
            Run::Perf(
                Perf::bandwidth(GB10, Write, &[MIB]).mtu(4096).queue_pairs(4, 1, 128),
                Goodput,
            ),
            Near(1, 20.0),
        ),
    ],
};

/// Returns the run of strictly ordered WRITEs of 1 MiB.
const fn large_writes(preset: &'static str) -> Run {
    Run::Perf(Perf::bandwidth(preset, Write, &[MIB]), Goodput)
}

/// Returns the run of WRITEs of 1 MiB into regions with relaxed order.
const fn relaxed_large_writes(preset: &'static str) -> Run {
    Run::Perf(
        Perf::bandwidth(preset, Write, &[MIB]).relaxed_order(),
        Goodput,
    )
}

/// Returns a point of goodput on ConnectX-7; `index` is the number of the figure.
const fn cx7(
    label: &'static str,
    operation: ferroce_perf::Operation,
    size: &'static [u32],
    qps: u32,
    index: usize,
) -> Point {
    let perf = Perf::bandwidth("cx7-400g", operation, size).mtu(4096);
    let run = Run::Perf(perf.queue_pairs(qps, 1, 128), Goodput);
    point(label, run, Near(index, 20.0))
}

/// Returns the run of 64 B messages: 32 threads share `count` QPs, and keep 32 requests in flight
/// on each QP.
const fn many_queue_pairs(operation: ferroce_perf::Operation, count: u32) -> Run {
    let perf = Perf::bandwidth("cx6-200g@xeon-8360y", operation, &[64]);
    Run::Perf(perf.queue_pairs(count, 32, 32), Rate)
}

const fn shared_doorbells(threads: u32) -> Perf {
    Perf::bandwidth(SMART, Read, &[8]).batches(threads, 8)
}

const fn dma_latency(bytes: u64) -> Run {
    Run::Pcie(
        Slot::Engine(HASWELL),
        Access::Latency(bytes, WARM, Statistic::Median),
    )
}

const fn mlx5_latency(statistic: Statistic) -> Run {
    Run::Pcie(
        Slot::Command("cx5-100g"),
        Access::Latency(64, WARM, statistic),
    )
}

const fn read_bandwidth(preset: &'static str, window: u64) -> Run {
    Run::Pcie(
        Slot::Engine(preset),
        Access::Bandwidth(Direction::Read, 64, window),
    )
}

const fn read_latency(preset: &'static str, window: u64) -> Run {
    Run::Pcie(
        Slot::Command(preset),
        Access::Latency(64, window, Statistic::Median),
    )
}

/// Missed targets with the cause, and the error up to which it holds.
const EXCUSES: &[Excuse] = &[
    Excuse {
        id: "V12b",
        cause: "beyond 1152 WRITEs in flight the card falls to 63 M/s at any depth, as if each WQE \
                were read twice; another ConnectX-6 keeps 122 M/s with 16,384 in flight \
                (rc_scaling_cx6_8360y.csv), so that it is not the card alone",
        bound_percent: 90.0,
    },
    Excuse {
        id: "V23",
        cause: "the 1024 READs of 32 queue pairs wait for WQE records that are read again; the \
                256 records were chosen from V12a, and with 768 the rate is 95 M/s",
        bound_percent: 30.0,
    },
    Excuse {
        id: "L12",
        cause: "nothing is marked for 900 us after a cut, in which the queue falls far below Kmin; \
                with a timer of 300 us its mean is 478 KB, with 55 us 612 KB",
        bound_percent: 40.0,
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate::target;

    #[test]
    fn every_target_has_a_plan_and_every_plan_a_target() {
        let targets: Vec<_> = target::all().into_iter().map(|target| target.id).collect();
        let plans: Vec<_> = all().map(|plan| plan.id).collect();
        assert_eq!(targets, plans);
        for excuse in EXCUSES {
            assert!(plan(excuse.id).is_some(), "{}", excuse.id);
        }
    }

    /// Goal: the plans cover every number of the file, and no tolerance is wider than the file's.
    #[test]
    fn plans_have_the_numbers_and_tolerances_of_the_file() {
        for target in target::all() {
            let plan = plan(&target.id).expect("every target has one");
            let tolerance = target.tolerance.trim_end_matches(|c: char| c != '%');
            let number = |text: &str| {
                text.trim_matches(|c: char| !c.is_ascii_digit())
                    .parse::<f64>()
            };
            let first = target
                .tolerance
                .split('%')
                .next()
                .filter(|_| !tolerance.is_empty());
            let percent = first.and_then(|text| number(text).ok());
            for point in plan.points {
                if let Near(index, within) = point.expected {
                    assert!(
                        index < target.values().len(),
                        "{} {}",
                        target.id,
                        point.label
                    );
                    let dip = target.id == "V20b";
                    assert!(dip || percent == Some(within), "{}: {percent:?}", target.id);
                }
            }
        }
    }

    #[test]
    fn every_run_has_a_preset_that_can_be_loaded() {
        for plan in all() {
            for point in plan.points {
                if let Run::Perf(perf, _) | Run::Knee(perf, _) = &point.run {
                    perf.spec()
                        .unwrap_or_else(|error| panic!("{}: {error}", plan.id));
                }
            }
        }
    }
}
