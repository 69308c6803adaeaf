//! Gather lists, and buffers that begin inside a page: the same bytes are moved.

use super::*;

const SIZE: u32 = 6000;
const MESSAGES: u64 = 200;

fn moved(operation: Operation, segments: u32, offset: u32) -> PerfRow {
    let mut spec = spec("cx5-100g", operation, Test::Bandwidth, SIZE);
    (spec.segments, spec.offset_bytes) = (segments, offset);
    row(&spec)
}

/// Goal: bytes, frames and DMA do not depend on the gather list and the offset. Method: compare the
/// counters of both hosts with the counters for one segment at the beginning of a page.
#[test]
fn bytes_are_conserved_by_gather_lists_and_offsets() {
    for operation in [Operation::Write, Operation::Read, Operation::Send] {
        let plain = moved(operation, 1, 0);
        for (segments, offset) in [(2, 0), (16, 0), (1, 64), (1, 4095), (7, 4001)] {
            let row = moved(operation, segments, offset);
            let label = format!("{operation:?}, {segments} segments, offset {offset}");
            assert_eq!(row.iterations, MESSAGES, "{label}");
            let (from, to) = match operation {
                Operation::Read => (1, 0),
                _ => (0, 1),
            };
            let payload = MESSAGES * u64::from(SIZE);
            assert!(counter(&row, from, "pcie_read_bytes") >= payload, "{label}");
            assert!(counter(&row, to, "pcie_write_bytes") >= payload, "{label}");
            // Longer lists need more blocks of WQEs, and more look-ups of regions, but no byte of
            // payload is moved twice.
            let room = match operation {
                Operation::Read => payload / 2,
                _ => payload / 4,
            };
            for host in [0, 1] {
                for name in ["pcie_read_bytes", "pcie_write_bytes"] {
                    let (before, after) = (counter(&plain, host, name), counter(&row, host, name));
                    assert!(
                        after.abs_diff(before) <= room,
                        "{label} {host} {name} {before} {after}"
                    );
                }
            }
            let frames = |row: &PerfRow| counter(row, from, "link_sent_bytes");
            let acks = frames(&plain) / 100;
            assert!(frames(&row).abs_diff(frames(&plain)) <= acks, "{label}");
        }
    }
}

/// Goal: a message that crosses a page is read in more pieces, and a longer list takes more blocks.
#[test]
fn pieces_show_in_the_counters() {
    let reads = |segments, offset| {
        let row = moved(Operation::Write, segments, offset);
        (
            counter(&row, 0, "pcie_outbound_tlps"),
            counter(&row, 0, "wqe_blocks"),
        )
    };
    let (plain, crossing, listed) = (reads(1, 0), reads(1, 3000), reads(16, 0));
    assert!(crossing.0 > plain.0, "{plain:?} {crossing:?}");
    assert!(
        listed.0 > plain.0 && listed.1 > plain.1,
        "{plain:?} {listed:?}"
    );
}

/// Goal: data arrives at the right place: a latency test ends only when each side has seen the last
/// byte of each message.
#[test]
fn every_loop_takes_gather_lists_and_offsets() {
    for operation in [Operation::Write, Operation::Read, Operation::Send] {
        let mut spec = spec("cx5-100g", operation, Test::Latency, 64);
        (spec.segments, spec.offset_bytes) = (5, 4093);
        assert!(row(&spec).latency.is_some(), "{operation:?}");
    }
    for workload in [Workload::Batch, Workload::Window] {
        let mut spec = spec("cx5-100g", Operation::Write, Test::Bandwidth, 100);
        (spec.segments, spec.offset_bytes) = (3, 32);
        (spec.workload, spec.depth) = (workload, Some(8));
        spec.region_bytes = Some(1 << 20);
        assert!(row(&spec).iterations > 0, "{workload:?}");
    }
    let mut datagrams = spec("cx5-100g", Operation::Send, Test::Bandwidth, 512);
    (datagrams.service, datagrams.segments) = (Service::Ud, 4);
    assert_eq!(row(&datagrams).iterations, 200);
}

/// Goal: threads whose number does not divide the region stay inside it; a region without room for
/// a message of each thread is refused with its name.
#[test]
fn batch_has_a_part_of_the_region_for_each_thread() {
    let mut spec = spec(
        "cx6-200g@xeon-6240r",
        Operation::Read,
        Test::Bandwidth,
        1000,
    );
    (spec.workload, spec.depth) = (Workload::Batch, Some(4));
    for (threads, bytes) in [(3, 1 << 20), (7, 7000), (5, 5003), (96, 96_000)] {
        (spec.threads, spec.region_bytes) = (threads, Some(bytes));
        assert!(row(&spec).iterations >= 200, "{threads} threads, {bytes} B");
    }
    for (threads, bytes) in [(7, 6999), (1, 999), (96, 95_999)] {
        (spec.threads, spec.region_bytes) = (threads, Some(bytes));
        let error = run(&spec).expect_err("too small").to_string();
        assert!(error.starts_with(&format!("--region {bytes}: ")), "{error}");
    }
    (spec.workload, spec.threads, spec.region_bytes) = (Workload::Window, 1, Some(1023));
    let error = run(&spec).expect_err("too small").to_string();
    assert!(error.starts_with("--region 1023: "), "{error}");
}
