//! A storm of page faults, seen in a capture of the world: what on-demand memory of the responder
//! costs `ib_write_bw`.

use ferroce_tests::capture::{expect_decoded, opcodes, tshark};
use ferroce_tests::page::compare_part;
use ferroce_tests::{PROCESS_TIMEOUT, Process, Scratch, free_port, run_pair};

const CAPTURE: &str = "storm.pcapng";
/// Of `ib_write_bw`: bytes of a message, and messages of each queue pair.
const SIZE: &str = "65536";
const MESSAGES: &str = "40";
/// RNR NAKs: the three highest bits of the syndrome are 001 (IBTA vol 1, table 43).
const RNR_NAKS: &str = "infiniband.aeth.syndrome >= 0x20 && infiniband.aeth.syndrome < 0x40";
/// Opcodes of RC with payload of a WRITE (IBTA vol 1, table 38).
const WRITES: std::ops::RangeInclusive<u8> = 0x06..=0x0b;

/// What `ib_write_bw` printed, and what its capture has.
#[derive(Debug)]
struct Storm {
    mbps: f64,
    rnr_naks: usize,
    /// Packets with payload.
    packets: u64,
}

/// Runs `ib_write_bw` with `qps` queue pairs in a world that writes a capture.
fn run(qps: &str, options: &[&str]) -> Storm {
    let scratch = Scratch::new();
    let socket = scratch.path("world").to_string_lossy().into_owned();
    let capture = scratch.path(CAPTURE).to_string_lossy().into_owned();
    let mut command = scratch.ferroce(&["world", "--preset", "cx5-100g", "--once"]);
    command.args(["--socket", &socket, "--programs", "2", "--pcap", &capture]);
    let mut world = Process::start(command, &scratch, "world-output", PROCESS_TIMEOUT);
    world.expect_output("hosts 2");
    let port = free_port();
    let text = port.to_string();
    let common = ["-p", &text, "-q", qps, "-s", SIZE, "-n", MESSAGES];
    let program = |host: &str, more: &[&str]| {
        let arguments = [&common[..], options, more].concat();
        let options = ["--world", &socket, "--host", host];
        scratch.run(&options, "ib_write_bw", &arguments)
    };
    let (server, client) = (program("n0", &[]), program("n1", &["127.0.0.1"]));
    let (_, client) = run_pair(&scratch, port, server, client);
    world.wait().expect_success();
    let row = client.lines().find(|line| line.starts_with(" 65536"));
    let mean = row.and_then(|row| row.split_whitespace().nth(3)?.parse().ok());
    let found = opcodes(&scratch, CAPTURE);
    expect_decoded(&scratch, CAPTURE, &found);
    let sent: u64 = WRITES.filter_map(|opcode| found.get(&opcode)).sum();
    let naks = tshark(&scratch, CAPTURE, &["-Y", RNR_NAKS]);
    // The capture has each frame at its sender and at its receiver.
    Storm {
        mbps: mean.unwrap_or_else(|| panic!("no row in {client}")),
        rnr_naks: naks.lines().filter(|line| line.contains('→')).count() / 2,
        packets: sent / 2,
    }
}

/// Goal: the book says what a storm of page faults looks like on the wire, by queue pairs.
#[test]
fn a_storm_of_page_faults_is_seen_in_the_capture() {
    let mut table =
        "| queue pairs | pinned, MB/s | on demand, MB/s | RNR NAKs | packets | sent again |\n\
                     | --: | --: | --: | --: | --: | --: |\n"
            .to_owned();
    for qps in ["1", "4", "16"] {
        let (pinned, storm) = (run(qps, &[]), run(qps, &["--odp"]));
        assert_eq!(pinned.rnr_naks, 0, "{pinned:?}");
        // A message is larger than a page, so the first one of a queue pair meets several.
        assert!(
            storm.rnr_naks > 0 && storm.mbps < pinned.mbps / 2.0,
            "{storm:?}"
        );
        assert!(storm.packets >= pinned.packets, "{storm:?} {pinned:?}");
        let again = storm.packets - pinned.packets;
        table += &format!(
            "| {qps} | {:.2} | {:.2} | {} | {} | {again} |\n",
            pinned.mbps, storm.mbps, storm.rnr_naks, storm.packets
        );
    }
    compare_part("docs/src/simulated-time.md", "page-fault-storm", &table);
}
