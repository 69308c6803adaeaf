//! The PCIe link against what was measured on real hosts, and against the rules of PCIe.
//!
//! Measured figures are those of pcie-bench (Neugebauer et al., "Understanding PCIe performance
//! for end host networking", SIGCOMM 2018; github pcie-bench/data, commit b2abf2f).

use ferroce_model::pcie::bench::{Direction, bandwidth, latency};
use ferroce_model::pcie::hosts::{
    BROADWELL, HASWELL, HASWELL_WITHOUT_IOMMU, IVY_BRIDGE, MLX5_100G,
};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const COUNT: u32 = 40_000;

fn assert_near(what: &str, model: f64, measured: f64, tolerance: f64) {
    let error = model / measured - 1.0;
    println!(
        "{what}: model {model:.2}, measured {measured:.2}, {:+.1} %",
        100.0 * error
    );
    assert!(
        error.abs() <= tolerance,
        "{what}: model {model:.2}, measured {measured:.2}"
    );
}

#[test]
fn bandwidth_of_256_to_2048_bytes_is_what_was_measured() {
    // Xeon E5-2620v3, IOMMU off: BW_DMA_RD and BW_DMA_WR, warm, in Gb/s.
    let measured = [
        (256, 47.778, 50.488),
        (512, 55.040, 53.013),
        (1024, 49.830, 53.013),
        (1536, 55.357, 53.013),
        (2048, 55.276, 53.013),
    ];
    for (bytes, read, write) in measured {
        let host = HASWELL_WITHOUT_IOMMU;
        let model = bandwidth(&host, Direction::Read, bytes, 8 * KIB, COUNT);
        assert_near(&format!("read of {bytes} B"), model, read, 0.15);
        let model = bandwidth(&host, Direction::Write, bytes, 8 * KIB, COUNT);
        assert_near(&format!("write of {bytes} B"), model, write, 0.15);
    }
}

#[test]
fn reads_of_64_bytes_by_command() {
    let hosts = [
        ("Haswell with IOMMU", HASWELL, 427.0),
        ("Haswell", HASWELL_WITHOUT_IOMMU, 480.0),
        ("Ivy Bridge", IVY_BRIDGE, 440.0),
        ("Broadwell with IOMMU", BROADWELL, 427.0),
    ];
    for (name, host, median) in hosts {
        let near = latency(&host.by_command(), 64, 8 * KIB, COUNT);
        assert_near(name, near.median, median, 0.02);
        let remote = latency(&host.by_command().on_remote_socket(), 64, 8 * KIB, COUNT);
        let extra = remote.median - near.median;
        assert!((66.0..110.0).contains(&extra), "{name}: {extra} ns more");
    }
    let idle = latency(&HASWELL_WITHOUT_IOMMU.by_command(), 64, 8 * KIB, COUNT);
    println!("{idle:?}, measured 467, 480, 482, 480, 747");
    assert_near("99.9th percentile", idle.p999, 747.0, 0.15);
}

#[test]
fn reads_by_dma_engine() {
    let measured = [
        (64, 547.0),
        (256, 627.0),
        (512, 707.0),
        (1024, 853.0),
        (2048, 1133.0),
    ];
    for (bytes, median) in measured {
        let model = latency(&HASWELL, bytes, 8 * KIB, COUNT);
        assert_near(&format!("{bytes} B"), model.median, median, 0.10);
    }
}

#[test]
fn an_mlx5_card_sees_what_it_reports() {
    let model = latency(&MLX5_100G, 64, 8 * KIB, COUNT);
    println!("{model:?}, NeoHost 372, -, 403, -, (488)");
    assert!(model.min >= 371.0 && model.p999 <= 488.0, "{model:?}");
    assert_near("mean", model.avg, 403.0, 0.01);
}

#[test]
fn small_pages_in_the_iommu_cost_what_was_measured() {
    let host = HASWELL.with_small_pages();
    let measured = [
        (256 * KIB, 32.632),
        (2 * MIB, 12.553),
        (8 * MIB, 10.699),
        (64 * MIB, 10.059),
    ];
    for (window, gbps) in measured {
        let model = bandwidth(&host, Direction::Read, 64, window, COUNT);
        assert_near(&format!("{} KiB", window / KIB), model, gbps, 0.10);
    }
    for (window, gbps) in [(256 * KIB, 32.712), (8 * MIB, 32.727), (64 * MIB, 28.787)] {
        let model = bandwidth(&HASWELL, Direction::Read, 64, window, COUNT);
        assert_near(
            &format!("{} KiB, superpages", window / KIB),
            model,
            gbps,
            0.10,
        );
    }
}

#[test]
fn latency_with_small_pages_in_the_iommu_is_what_was_measured() {
    for (name, host, small, large, mean) in [
        ("Haswell", HASWELL, 427.0, 653.0, 551.0),
        ("Broadwell", BROADWELL, 427.0, 707.0, 589.0),
    ] {
        let host = host.with_small_pages().by_command();
        let model = latency(&host, 64, 256 * KIB, COUNT);
        assert_near(&format!("{name}, 256 KiB"), model.median, small, 0.10);
        let model = latency(&host, 64, 8 * MIB, COUNT);
        assert_near(&format!("{name}, 8 MiB"), model.median, large, 0.10);
        // A little more than half of the accesses miss.
        let model = latency(&host, 64, MIB, COUNT);
        assert_near(&format!("{name}, 1 MiB, mean"), model.avg, mean, 0.05);
    }
}

#[test]
fn the_other_socket_costs_bandwidth_of_small_reads() {
    // Xeon E5-2630v4, 64 B, warm: 32.551 Gb/s near, 26.727 Gb/s remote.
    let model = bandwidth(&BROADWELL, Direction::Read, 64, 8 * MIB, COUNT);
    assert_near("near", model, 32.551, 0.10);
    let remote = BROADWELL.on_remote_socket();
    let model = bandwidth(&remote, Direction::Read, 64, 8 * MIB, COUNT);
    assert_near("remote", model, 26.727, 0.10);
}
