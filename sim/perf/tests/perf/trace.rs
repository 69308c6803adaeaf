//! Traces of a timed world: explanations add up, waveforms and captures match the counters.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use crate::trace_support::{Signals, counter, run, spec};
use ferroce_perf::pattern::Pattern;
use ferroce_perf::setup::world_config;
use ferroce_perf::{Iterations, Operation, PerfRow, PerfSpec, Test, Topology};
use ferroce_test_support::temporary_directory;
use ferroce_units::Instant;
use ferroce_wire::check::Checker;
use ferroce_world::fabric_plan::SIGCOMM_2015_ECN;
use ferroce_world::trace::explain::Explanation;
use ferroce_world::trace::packets::Packets;
use ferroce_world::trace::path::{What, parts};
use ferroce_world::trace::waveform::Waveform;
use ferroce_world::trace::{Trace, neohost};
use ferroce_world::{FabricNode, FabricPlan};
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::{Block, PcapNgReader};

fn new_file(path: &Path) -> Box<File> {
    Box::new(File::create(path).expect("new file"))
}

/// Explains the last message of `spec`.
fn explain(spec: &PerfSpec) -> (PerfRow, Explanation) {
    let trace = Trace::of_steps().shared();
    let row = run(spec, Some(&trace));
    let (start, end) = row.last_message_ps.expect("measured");
    let (start, end) = (Instant(start), Instant(end));
    let explanation = Explanation::new(&trace.lock().steps, 0, start, end);
    // A wait without a known cause counts as unexplained, except the polling interval of a
    // processor.
    let steps = &trace.lock().steps;
    let unknown: u64 = parts(steps, 0, start, end)
        .iter()
        .filter(|part| match part.what {
            What::Turn(Some(effect)) => !effect.is_processor(),
            What::Turn(None) | What::Step(_) | What::Busy(_) => false,
        })
        .map(|part| part.time().as_ps())
        .sum();
    let total = explanation.total().as_ps();
    assert!(
        unknown * 50 <= total,
        "{unknown} of {total} ps\n{explanation}"
    );
    (row, explanation)
}

/// Method: explain the last of a few messages. The rows follow each other without a gap. Their sum
/// is the sample, to the picosecond; perftest prints the sample, or half of it.
#[test]
fn explanations_add_up_to_the_printed_latency() {
    let sizes = [2, 64, 1024, 4096, 65_536];
    let operations = [Operation::Write, Operation::Read, Operation::Send];
    let mut cases: Vec<(&str, Operation, u32)> = Vec::new();
    for operation in operations {
        cases.extend(sizes.map(|size| ("cx5-100g", operation, size)));
    }
    cases.push(("cx5-100g", Operation::FetchAdd, 8));
    cases.push(("cx3-40g", Operation::Write, 64));
    cases.push(("cx3-40g", Operation::CompareSwap, 8));
    cases.push(("irdma-10g", Operation::Send, 4096));
    cases.push(("fpga-100g", Operation::Read, 8192));
    for (preset, operation, size) in cases {
        let (row, explanation) = explain(&spec(preset, operation, Test::Latency, size));
        let what = format!("{preset} {operation:?} {size}\n{explanation}");
        let mut time = explanation.start;
        for row in &explanation.rows {
            assert_eq!(row.start, time, "{what}");
            time += row.time;
        }
        assert_eq!(time, explanation.end, "{what}");
        let samples = row.latency.expect("a latency test").samples_ps;
        assert!(samples.contains(&explanation.total().as_ps()), "{what}");
    }
}

#[test]
fn explanations_have_both_directions() {
    let (_, write) = explain(&spec("cx3-40g", Operation::Write, Test::Latency, 1024));
    let order: Vec<(usize, &str)> = write
        .rows
        .iter()
        .map(|row| (row.host, row.what.split(':').next().expect("a name")))
        .collect();
    let one_way = |host: usize, peer: usize| {
        [
            (host, "posts"),
            (host, "MMIO"),
            (host, "doorbell decode, scheduler"),
            (host, "PCIe read"),
            (host, "WQE decode"),
            (host, "PCIe read"),
            (host, "packetizer, 1098 B"),
            (host, "MAC"),
            (host, "cable, switch, 1098 B"),
            (peer, "MAC, depacketizer, 1098 B"),
            (peer, "PCIe write"),
            (peer, "looks at memory, computes"),
        ]
    };
    let mut rest = order.iter();
    for step in [one_way(0, 1), one_way(1, 0)].concat() {
        assert!(rest.any(|found| *found == step), "{step:?} in {order:#?}");
    }
}

/// Method: compare two runs; tracing costs real time only.
#[test]
fn a_traced_run_takes_no_longer() {
    let spec = spec("cx5-100g", Operation::Send, Test::Latency, 4096);
    let trace = Trace::of_steps().shared();
    let (traced, alone) = (run(&spec, Some(&trace)), run(&spec, None));
    assert_eq!(traced, alone);
}

/// Method: write a waveform, read it with another crate, and integrate its busy lines: the sums
/// equal the counters.
#[test]
fn a_waveform_shows_what_the_counters_have_counted() {
    let directory = temporary_directory("waveform");
    let path = directory.path().join("w.fst");
    let mut spec = spec("cx5-100g", Operation::Write, Test::Bandwidth, 4096);
    (spec.depth, spec.iterations) = (Some(16), Iterations::Exactly(64));
    let waveform = Waveform::new(new_file(&path), &world_config(&spec)).expect("new file");
    let trace = Trace {
        waveform: Some(waveform),
        ..Trace::default()
    }
    .shared();
    let row = run(&spec, Some(&trace));
    trace.lock().finish().expect("written");
    let signals = Signals::read(&path);
    for host in 0..2 {
        for (line, name) in [
            ("pcie.up_busy", "pcie_outbound_busy_ns"),
            ("pcie.down_busy", "pcie_inbound_busy_ns"),
        ] {
            let shown = signals.time_at_one(&format!("world.host{host}.{line}")) / 1000;
            let counted = counter(&row, host, name);
            assert!(shown.abs_diff(counted) <= 2, "{line}: {shown}, {counted}");
        }
    }
    let sent = signals.time_at_one("world.host0.link.tx_busy") / 1000;
    let counted = counter(&row, 0, "link_sent_busy_ns");
    assert!(sent.abs_diff(counted) <= counted / 50, "{sent}, {counted}");
    let cq = signals.values("world.host0.queues.cq_entries");
    assert!(cq.iter().any(|value| *value > 0), "{cq:?}");
    let egress = signals.values("world.host0.queues.mac_egress");
    assert!(egress.iter().any(|value| *value > 0), "{egress:?}");
    let tags = signals.values("world.host0.pcie.tags");
    let limit = u64::from(spec.preset.pcie.read_tags);
    assert!(tags.iter().all(|tags| *tags <= limit), "{tags:?}");
    assert!(signals.rises("world.host0.caches.mtt_hit") > 0);
}

/// Goal: a waveform shows the ports of switches and the rates of cards. Method: three hosts send to
/// one through a switch that marks; the longest queue equals the one in the report.
#[test]
fn a_waveform_shows_the_ports_of_switches_and_rates() {
    let directory = temporary_directory("fabric-waveform");
    let path = directory.path().join("w.fst");
    let mut spec = spec("cx5-100g", Operation::Write, Test::Bandwidth, 65_536);
    (spec.mtu_bytes, spec.iterations) = (Some(4096), Iterations::Exactly(100));
    let (hosts, pattern) = (4, Pattern::Incast);
    spec.topology = Topology::Flows { hosts, pattern };
    let mut fabric = FabricPlan::star(4).with_dcqcn();
    fabric.for_each_switch(|switch| switch.ecn = Some(SIGCOMM_2015_ECN));
    spec.fabric = Some(fabric);
    let waveform = Waveform::new(new_file(&path), &world_config(&spec)).expect("new file");
    let trace = Trace {
        waveform: Some(waveform),
        ..Trace::default()
    }
    .shared();
    let row = run(&spec, Some(&trace));
    trace.lock().finish().expect("written");
    let report = row.traffic.and_then(|traffic| traffic.fabric);
    let report = report.expect("a fabric");
    let signals = Signals::read(&path);
    for (number, port) in report.switch_ports().enumerate() {
        let name = format!("world.fabric.switch.port{number}_to_n{number}.queued_bytes");
        let most = signals.values(&name).into_iter().max().unwrap_or(0);
        // A packet that is sent at once does not wait.
        let longest_frame = 4096 + 250;
        let counted = port.queue_most_bytes;
        assert!(most.abs_diff(counted) < longest_frame, "{most}, {counted}");
    }
    let last = signals.values("world.fabric.switch.port3_to_n3.queued_bytes");
    assert!(last.iter().any(|bytes| *bytes > 100_000), "{last:?}");
    let rates = signals.values("world.host0.congestion.lowest_rate_mbps");
    assert!(rates.contains(&100_000), "the line's first: {rates:?}");
    assert!(
        rates.iter().any(|rate| (1..50_000).contains(rate)),
        "{rates:?}"
    );
    let limited = signals.values("world.host0.congestion.limited_qps");
    assert_eq!(limited.iter().max(), Some(&1));
}

/// Method: capture, and read the capture with another crate: each frame is there twice, in the
/// order of time, and passes `ferroce wire check`, with a valid ICRC.
#[test]
fn a_capture_has_each_frame_at_both_ends() {
    let directory = temporary_directory("packets");
    let path = directory.path().join("p.pcapng");
    let spec = spec("cx5-100g", Operation::Read, Test::Latency, 4096);
    let trace = Trace {
        packets: Some(Packets::new(new_file(&path), 2).expect("new file")),
        ..Trace::default()
    }
    .shared();
    let row = run(&spec, Some(&trace));
    trace.lock().finish().expect("written");
    let sightings = read_capture(&path);
    assert!(sightings.is_sorted_by_key(|seen| seen.time));
    for host in 0..2 {
        let count = |direction: u32| {
            let at_host = sightings.iter().filter(|seen| seen.interface == host);
            at_host.filter(|seen| seen.flags == direction).count() as u64
        };
        let counted = |name| counter(&row, host as usize, name);
        assert_eq!(count(1), counted("link_received_frames"), "host {host}");
        assert_eq!(count(2), counted("link_sent_frames"), "host {host}");
    }
    let mut frames: BTreeMap<&[u8], u32> = BTreeMap::new();
    let mut checker = Checker::default();
    for seen in &sightings {
        checker.feed(&seen.bytes);
        *frames.entry(&seen.bytes).or_default() += 1;
    }
    assert!(checker.is_clean(), "{checker:?}");
    assert_eq!(checker.roce_frames(), sightings.len() as u64);
    assert!(frames.values().all(|count| *count == 2), "{frames:?}");
    let (start, end) = row.last_message_ps.expect("measured");
    let inside = sightings
        .iter()
        .filter(|seen| (start..end).contains(&seen.time));
    assert_eq!(
        inside.count(),
        2 * (1 + 4),
        "a request, and four responses of 1024 B"
    );
}

/// Goal: pause frames of a switch are captured at the cards that they stop. Method: two hosts fill
/// a small switch; its pauses are compared with the frames, by the bytes of IEEE 802.3, annex 31D.
#[test]
fn a_capture_has_the_pause_frames() {
    let directory = temporary_directory("pauses");
    let path = directory.path().join("p.pcapng");
    let mut spec = spec("cx5-100g", Operation::Write, Test::Bandwidth, 65536);
    let mut fabric = FabricPlan::star(3);
    fabric.congestion = None;
    fabric.for_each_switch(|switch| switch.buffer_bytes = 1 << 20);
    spec.fabric = Some(fabric);
    spec.topology = Topology::Flows {
        hosts: 3,
        pattern: Pattern::Incast,
    };
    (spec.depth, spec.signal_every) = (None, None);
    spec.iterations = Iterations::Exactly(100);
    let trace = Trace {
        packets: Some(Packets::new(new_file(&path), 3).expect("new file")),
        ..Trace::default()
    }
    .shared();
    let row = run(&spec, Some(&trace));
    trace.lock().finish().expect("written");
    let fabric = row.traffic.and_then(|traffic| traffic.fabric);
    let ports = fabric.expect("a fabric").ports;
    let sightings = read_capture(&path);
    for host in 0..2 {
        let port = ports
            .iter()
            .find(|port| port.from == FabricNode::Host(host));
        let pauses = sightings.iter().filter(|seen| {
            let is_here = (seen.interface, seen.flags) == (host as u32, 1);
            is_here && seen.bytes[12..20] == [0x88, 0x08, 0x01, 0x01, 0x00, 0x01, 0xff, 0xff]
        });
        let counted = port.expect("a port of each host").pauses;
        assert!(counted > 0, "host {host}");
        assert_eq!(pauses.count() as u64, counted, "host {host}");
    }
}

/// A frame at an interface.
struct Sighting {
    time: u64,
    interface: u32,
    flags: u32,
    bytes: Vec<u8>,
}

fn read_capture(path: &Path) -> Vec<Sighting> {
    let file = BufReader::new(File::open(path).expect("written"));
    let mut reader = PcapNgReader::new(file).expect("pcapng");
    let mut sightings = Vec::new();
    while let Some(block) = reader.next_block() {
        if let Block::EnhancedPacket(packet) = block.expect("well formed") {
            let flags = packet.options.iter().find_map(|option| match option {
                EnhancedPacketOption::Flags(flags) => Some(*flags),
                _ => None,
            });
            sightings.push(Sighting {
                // The crate takes the count of our units for nanoseconds.
                time: packet.timestamp.as_nanos() as u64,
                interface: packet.interface_id,
                flags: flags.expect("a direction"),
                bytes: packet.data.to_vec(),
            });
        }
    }
    sightings
}

/// Method: our counters that NVIDIA's names stand for are among those of a host.
#[test]
fn counters_of_neohost_are_all_known() {
    let row = run(&spec("cx5-100g", Operation::Send, Test::Latency, 64), None);
    for name in neohost::ROWS.iter().flat_map(|row| row.source.names()) {
        let exists = row.counters[0].iter().any(|(own, _)| own == name);
        assert!(exists, "there is no counter {name}");
    }
}
