//! In simulated time unmodified perftest prints the sum of the times of the modelled card's stages,
//! to the nanosecond.
//!
//! The card has round numbers: a cycle takes a nanosecond, and so does a byte on the wire. Times
//! have no random spread, and every WQE and all payload comes over PCIe. So the sum can be
//! calculated by hand.

use ferroce_model::pcie::tlp_gbps;
use ferroce_tests::{Pair, Scratch};

/// The preset. Other values come from the built-in preset, and take no time in these tests.
const PARAMETERS: &[(&str, &[(&str, &str)])] = &[
    ("clock", &[("core_mhz", "1000.0"), ("mac_mhz", "1000.0")]),
    (
        "pcie",
        &[
            ("generation", "5"),
            ("lanes", "16"),
            ("mps_bytes", "256"),
            ("read_latency_ns", "400.0"),
            ("read_jitter_ns", "0.0"),
            ("read_tail_probability", "0.0"),
            ("write_latency_ns", "200.0"),
            ("mmio_write_ns", "100.0"),
            ("engine_read_ns", "20.0"),
            ("engine_write_ns", "10.0"),
        ],
    ),
    ("units", &[("latency_cycles", "10")]),
    (
        "datapath",
        &[
            ("width_bits", "512"),
            ("doorbell_cycles", "4"),
            ("scheduler_cycles", "6"),
            ("fetch_cycles", "4"),
            ("packetizer_cycles", "8"),
            ("depacketizer_cycles", "8"),
            ("completion_cycles", "4"),
            ("lookup_cycles", "2"),
            ("cut_through", "false"),
        ],
    ),
    (
        "mac",
        &[
            ("rate_gbps", "8.0"),
            ("transmit_ns", "100.0"),
            ("receive_ns", "200.0"),
        ],
    ),
    ("link", &[("cable_ns", "100.0")]),
    (
        "host",
        &[
            ("post_ns", "70.0"),
            ("doorbell_ns", "80.0"),
            ("write_combining", "false"),
            ("poll_hit_ns", "60.0"),
            ("poll_miss_ns", "10.0"),
            ("memory_poll_ns", "10.0"),
            ("jitter_ns", "0.0"),
        ],
    ),
];

/// Latencies of the cable, in nanoseconds.
const CABLES: [f64; 8] = [
    100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0, 10_000.0, 20_000.0,
];
/// Payload of a message, of the size for which the latencies of PCIe are given.
const PAYLOAD: f64 = 64.0;
/// Ethernet, IPv4, UDP and BTH headers, and the ICRC.
const FRAME: f64 = (14 + 20 + 8 + 12 + 4) as f64;
/// Address, key and length of an RDMA operation.
const RETH: f64 = 16.0;
/// Syndrome and sequence number of an answer.
const AETH: f64 = 4.0;
/// Preamble, frame check sequence and gap of a frame, and the part of it that follows the frame's
/// last bit.
const WIRE: f64 = (8 + 4 + 12) as f64;
const GAP: f64 = 12.0;
/// Header of a PCIe request, and a completion queue entry.
const TLP: f64 = 24.0;
const CQE: f64 = 32.0;

/// A stage and its nanoseconds.
type Stage = (&'static str, f64);

/// The preset's numbers, some of them changed.
struct Numbers(Vec<(&'static str, f64)>);

impl Numbers {
    /// Returns `section.name`, in the unit of the preset.
    fn get(&self, key: &str) -> f64 {
        if let Some((_, value)) = self.0.iter().find(|(changed, _)| *changed == key) {
            return *value;
        }
        let (section, name) = key.split_once('.').expect("section.name");
        let all = PARAMETERS.iter().filter(|(other, _)| *other == section);
        let mut found = all.flat_map(|(_, parameters)| *parameters);
        let found = found.find(|(other, _)| *other == name);
        found.expect("in the preset").1.parse().expect("a number")
    }

    fn sum(&self, keys: &[&str]) -> f64 {
        keys.iter().map(|key| self.get(key)).sum()
    }

    /// Nanoseconds of clocks of the card.
    fn cycles(&self, names: &[&str]) -> f64 {
        self.sum(names) * 1000.0 / self.get("clock.core_mhz")
    }

    /// Returns the time of the datapath for a frame, without the block's own latency.
    fn beats(&self, bytes: f64) -> f64 {
        let beats = (bytes * 8.0 / self.get("datapath.width_bits")).ceil();
        beats * 1000.0 / self.get("clock.core_mhz")
    }

    fn wire(&self, bytes: f64) -> f64 {
        bytes * 8.0 / self.get("mac.rate_gbps")
    }

    fn pcie_wire(&self, bytes: f64) -> f64 {
        let number = |key| self.get(key) as u32;
        let (generation, lanes) = (number("pcie.generation"), number("pcie.lanes"));
        bytes * 8.0 / tlp_gbps(generation, lanes, number("pcie.mps_bytes"))
    }

    fn post(&self) -> Vec<Stage> {
        vec![
            ("posts", self.get("host.post_ns")),
            ("rings", self.get("host.doorbell_ns")),
            ("MMIO: doorbell", self.get("pcie.mmio_write_ns")),
            (
                "doorbell decode, scheduler",
                self.cycles(&["datapath.doorbell_cycles", "datapath.scheduler_cycles"]),
            ),
            self.pcie_read("PCIe read: WQE"),
            ("WQE decode", self.cycles(&["datapath.fetch_cycles"])),
            self.unit("processing unit: sends"),
        ]
    }

    fn pcie_read(&self, what: &'static str) -> Stage {
        let time = self.sum(&["pcie.read_latency_ns", "pcie.engine_read_ns"]);
        (what, time)
    }

    fn pcie_write(&self, what: &'static str) -> Stage {
        let time = self.sum(&["pcie.write_latency_ns", "pcie.engine_write_ns"]);
        (what, time)
    }

    fn unit(&self, what: &'static str) -> Stage {
        let time = self.cycles(&["units.latency_cycles", "datapath.lookup_cycles"]);
        (what, time)
    }

    /// Returns the stages from one card's processing unit to the other's.
    fn packet(&self, bytes: f64) -> Vec<Stage> {
        let packetizer = self.cycles(&["datapath.packetizer_cycles", "datapath.lookup_cycles"]);
        let depacketizer = self.cycles(&["datapath.depacketizer_cycles"]);
        let on_wire = self.wire(bytes + WIRE - GAP);
        vec![
            ("packetizer", packetizer + self.beats(bytes)),
            ("MAC: sends", on_wire + self.get("mac.transmit_ns")),
            ("cable", self.get("link.cable_ns")),
            ("MAC: receives", self.get("mac.receive_ns")),
            ("depacketizer", depacketizer + self.beats(bytes)),
            self.unit("processing unit: receives"),
        ]
    }

    /// Returns the stages from the post of an RDMA READ to its completion.
    fn read(&self) -> Vec<Stage> {
        let completion = self.cycles(&["datapath.completion_cycles", "datapath.lookup_cycles"]);
        let mut stages = self.post();
        stages.extend(self.packet(FRAME + RETH));
        stages.push(self.unit("processing unit: answers"));
        stages.push(self.pcie_read("PCIe read: payload"));
        stages.extend(self.packet(FRAME + AETH + PAYLOAD));
        stages.push(("completion", completion));
        stages.push(self.pcie_write("PCIe write: CQE"));
        // The payload is written before it, with the size for which the latency is given; then the
        // consumer record is read.
        let lane = self.pcie_wire(TLP + TLP + CQE);
        stages.push(("PCIe: record's request and CQE on the lanes", lane));
        let begun = self.sum(&["host.post_ns", "host.doorbell_ns"]);
        stages.push(until_turn(&stages, begun, self.get("host.poll_miss_ns")));
        stages.push(("polls", self.get("host.poll_hit_ns")));
        stages
    }

    /// Returns the stages from the post of an RDMA WRITE until the peer has seen its last byte.
    fn write(&self) -> Vec<Stage> {
        let turn = self.get("host.memory_poll_ns");
        let mut stages = self.post();
        stages.push(self.pcie_read("PCIe read: payload"));
        stages.extend(self.packet(FRAME + RETH + PAYLOAD));
        stages.push(self.pcie_write("PCIe write: payload"));
        // Both sides post at the same time, because their loops began at the same distance.
        stages.push(until_turn(&stages, 0.0, turn));
        stages.push(("looks at memory", turn));
        stages
    }
}

/// Returns the time until the next turn of a loop that began at `begun` and polls every `turn`.
fn until_turn(stages: &[Stage], begun: f64, turn: f64) -> Stage {
    let rest = (total(stages) - begun) % turn;
    // Events between two edges of the card's clock must not affect the result.
    let is_clear = (1.0..turn - 1.0).contains(&rest);
    assert!(is_clear, "{rest} ns into a turn: choose other numbers");
    ("until the processor looks", turn - rest)
}

fn total(stages: &[Stage]) -> f64 {
    stages.iter().map(|(_, time)| time).sum()
}

/// Returns the preset in the form that a user writes.
fn toml() -> String {
    let mut text = "about = \"Round numbers\"\ninherits = \"cx5-100g\"\n".to_owned();
    for (section, parameters) in PARAMETERS {
        text.push_str(&format!("[{section}]\n"));
        for (name, value) in *parameters {
            let source = "origin = \"design\", source = \"a round number\"";
            text.push_str(&format!("{name} = {{ value = {value}, {source} }}\n"));
        }
    }
    text
}

/// Returns perftest's latencies in nanoseconds: the figure of its table, and the latencies of all
/// messages except the first, for which nothing is cached.
fn measured(program: &str, changes: &[(&str, f64)]) -> (f64, Vec<f64>) {
    let scratch = Scratch::new();
    let preset = scratch.path("round.toml");
    std::fs::write(&preset, toml()).expect("our own folder");
    let preset = preset.to_string_lossy();
    let changes = changes
        .iter()
        .map(|(key, value)| format!("--set={key}={value}"));
    let changes: Vec<String> = changes.collect();
    let mut options = vec!["--timed", &preset];
    options.extend(changes.iter().map(String::as_str));
    let mut arguments = vec!["-F", "-s", "64", "-n", "50", "-U"];
    // A READ has no payload to send.
    arguments.extend(
        (program == "ib_write_lat")
            .then_some(["-I", "0"])
            .iter()
            .flatten(),
    );
    let pair = Pair {
        program,
        arguments: &arguments,
        options: &options,
    };
    let (_, client) = pair.run_in(&scratch);
    let number = |text: &str| -> Option<f64> { text.trim().parse().ok() };
    let sample = |line: &str| {
        let (count, time) = line.split_once(", ")?;
        Some((number(count)?, number(time)?))
    };
    let ns = |us: f64| (us * 1000.0 * 1000.0).round() / 1000.0;
    let samples = client.lines().filter_map(sample);
    let samples = samples.filter(|(count, _)| *count > 1.0);
    let samples: Vec<f64> = samples.map(|(_, us)| ns(us)).collect();
    assert!(samples.len() > 40, "{client}");
    let row = |line: &str| {
        line.split_whitespace()
            .map_while(number)
            .collect::<Vec<_>>()
    };
    let row = client.lines().map(row).find(|row| row.len() >= 9);
    (ns(row.expect("a table")[TYPICAL]), samples)
}

/// Returns the sum of the parts of a message that `ferroce perftest` explains, in nanoseconds.
fn explained(test: &str, options: &[&str]) -> f64 {
    let scratch = Scratch::new();
    let preset = scratch.path("round.toml");
    std::fs::write(&preset, toml()).expect("our own folder");
    let preset = preset.to_string_lossy();
    let mut arguments = vec![
        "perftest",
        test,
        "--preset",
        &preset,
        "-s",
        "64",
        "--explain",
    ];
    arguments.extend(options);
    let output = scratch.finish(scratch.ferroce(&arguments)).expect_success();
    let sum = |line: &str| line.trim().strip_prefix("sum").map(str::to_owned);
    let sum = output.lines().find_map(sum).expect("a sum");
    sum.trim().parse().expect("nanoseconds")
}

/// The sum of `--explain` is the same; for a WRITE it covers one in each direction.
#[test]
fn explanations_add_up_to_the_same() {
    let numbers = Numbers(Vec::new());
    assert_eq!(explained("read_lat", &[]), total(&numbers.read()).round());
    let round_trip = 2.0 * total(&numbers.write()).round();
    assert_eq!(explained("write_lat", &["-I", "0"]), round_trip);
}

/// The column of the typical latency.
const TYPICAL: usize = 4;

/// Checks that perftest prints the sum.
fn prints(program: &str, stages: &[Stage], changes: &[(&str, f64)]) {
    let sum = total(stages).round();
    assert!((total(stages) - sum).abs() < 1e-6, "whole turns of a loop");
    let (typical, samples) = measured(program, changes);
    let different = samples.iter().find(|sample| **sample != sum);
    assert!(
        typical == sum && different.is_none(),
        "{program} with {changes:?} prints {typical} ns, of some messages {different:?}; \
         the stages add up to {sum}: {stages:#?}"
    );
}

#[test]
fn read_latency_is_the_sum_of_its_stages() {
    for cable in CABLES {
        let changes = vec![("link.cable_ns", cable)];
        let numbers = Numbers(changes.clone());
        prints("ib_read_lat", &numbers.read(), &changes);
        // Everything except the cable in both directions.
        assert_eq!(total(&numbers.read()) - 2.0 * cable, READ_WITHOUT_CABLE);
    }
}

#[test]
fn write_latency_is_the_sum_of_its_stages() {
    for cable in CABLES {
        let changes = vec![("link.cable_ns", cable)];
        let numbers = Numbers(changes.clone());
        prints("ib_write_lat", &numbers.write(), &changes);
        assert_eq!(total(&numbers.write()) - cable, WRITE_WITHOUT_CABLE);
    }
}

/// Prints the sums, to check them by hand.
const READ_WITHOUT_CABLE: f64 = 2300.0;
const WRITE_WITHOUT_CABLE: f64 = 1830.0;

/// perftest's figure contains each stage: if a stage takes longer, the message takes longer by the
/// same time.
#[test]
fn a_slower_stage_is_seen() {
    // A READ reads the WQE and the responder's payload; a WRITE reads the WQE and its payload.
    let cases: [(&str, f64, f64, f64); 5] = [
        ("pcie.read_latency_ns", 450.0, 100.0, 100.0),
        ("pcie.write_latency_ns", 230.0, 30.0, 30.0),
        ("pcie.mmio_write_ns", 110.0, 10.0, 10.0),
        ("mac.receive_ns", 210.0, 20.0, 10.0),
        ("host.post_ns", 90.0, 20.0, 20.0),
    ];
    for (key, value, read, write) in cases {
        let changes = vec![(key, value)];
        let numbers = Numbers(changes.clone());
        let cable = numbers.get("link.cable_ns");
        let (read_stages, write_stages) = (numbers.read(), numbers.write());
        let longer = total(&read_stages) - 2.0 * cable - READ_WITHOUT_CABLE;
        assert_eq!(longer, read, "{key}");
        let longer = total(&write_stages) - cable - WRITE_WITHOUT_CABLE;
        assert_eq!(longer, write, "{key}");
        prints("ib_read_lat", &read_stages, &changes);
        prints("ib_write_lat", &write_stages, &changes);
    }
}
