//! `ferroce topology`, and `ferroce perf` on machines with a topology.

use std::process::{Command, Output};

use ferroce_test_support::temporary_directory;

const FERROCE: &str = env!("CARGO_BIN_EXE_ferroce");

fn ferroce(arguments: &str) -> Output {
    let output = Command::new(FERROCE)
        .args(arguments.split_whitespace())
        .output();
    output.expect("the command starts")
}

/// Returns the output of a command that succeeds.
fn text(arguments: &str) -> String {
    let output = ferroce(arguments);
    assert!(output.status.success(), "{arguments}: {output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Returns the message of a command that fails.
fn refusal(arguments: &str) -> String {
    let output = ferroce(arguments);
    assert!(!output.status.success(), "{arguments}: {output:?}");
    String::from_utf8(output.stderr).expect("UTF-8")
}

/// Returns average bandwidth in Gb/s and bottleneck of a `write_bw` of 64 KiB.
fn write_bw(arguments: &str) -> (f64, String) {
    let text = text(&format!("perf write_bw -s 64K -n 300 {arguments}"));
    let mut lines = text.lines();
    let row = lines
        .find(|line| line.starts_with(" 65536"))
        .expect("a row");
    let average = row.split_whitespace().nth(3).expect("the average");
    let average: f64 = average.parse().expect("MiB/s");
    let bottleneck = lines.find(|line| line.contains("Bottleneck"));
    let bottleneck = bottleneck.expect("what limits it").to_owned();
    (average * 8.0 * 1.048_576 / 1000.0, bottleneck)
}

#[test]
fn a_machine_is_drawn_listed_and_checked() {
    assert!(text("topology list").contains("dgx-h100"));
    let drawn = text("topology show dgx-h100");
    assert!(drawn.contains("│     └─ gpu.0  gen5 x16"), "{drawn}");
    assert!(drawn.contains("card.0   gpu0     PIX"), "{drawn}");
    assert!(drawn.contains("card.0   gpu7     SYS"), "{drawn}");
    let folder = temporary_directory("topology");
    let svg = folder.join("dgx.svg");
    text(&format!("topology show dgx-h100 --svg {}", svg.display()));
    let svg = std::fs::read_to_string(&svg).expect("it was written");
    assert_eq!(svg.matches("<g class=\"gpu\">").count(), 8);
    let checked = text("topology check workstation-root-complex");
    assert!(
        checked.contains("cannot read") || checked.contains("not read from it"),
        "{checked}"
    );
    let refused = refusal("topology show edr-xeon");
    assert!(refused.contains("ferroce topology list"), "{refused}");
}

/// Goal: order and distance decide as in the public measurements: EPYC 150 Gb/s strict and 200
/// relaxed; memory of the other socket 75 to 90.
#[test]
fn order_and_distance_set_the_rate() {
    let host = "--preset cx6-200g@epyc-hdr@epyc-2socket";
    let (strict, limit) = write_bw(host);
    assert!((145.0..155.0).contains(&strict), "{strict}");
    assert!(
        limit.contains("root port 0, strictly ordered writes"),
        "{limit}"
    );
    let (relaxed, _) = write_bw(&format!("{host} --relaxed-order"));
    assert!(relaxed > 190.0, "{relaxed}");
    let (far, _) = write_bw(&format!("{host} --remote-memory dram1"));
    assert!((75.0..91.0).contains(&far), "{far}");
}

/// Goal: ACS sends peers through the root complex, ATS avoids that, and the bottleneck is named.
#[test]
fn acs_and_ats_decide_the_way_to_a_gpu() {
    let node = "--preset cx7-400g@dgx-h100 --memory gpu0 --remote-memory gpu0";
    let (direct, _) = write_bw(node);
    let acs = "--set topology.switch.*.acs=true";
    let (around, limit) = write_bw(&format!("{node} {acs}"));
    let ats = "--set topology.card.*.ats=true";
    let (translated, _) = write_bw(&format!("{node} {acs} {ats}"));
    assert!(
        direct > 350.0 && (translated - direct).abs() < 1.0,
        "{direct}, {translated}"
    );
    assert!((115.0..125.0).contains(&around), "{around}");
    assert!(limit.contains("root complex, P2P reads"), "{limit}");
}

/// Goal: what a root complex refuses is an error of the program's request, and what a machine does
/// not have is refused before the run.
#[test]
fn what_a_machine_does_not_have_is_refused() {
    let client = "perf write_bw --preset cx7-400g@workstation-root-complex -s 64K -n 50";
    let refused = refusal(&format!("{client} --memory gpu0"));
    assert!(refused.contains("LocalProtectionError"), "{refused}");
    text(&format!("{client} --remote-memory gpu0"));
    for (arguments, message) in [
        ("--preset cx7-400g --memory gpu0", "no topology"),
        (
            "--preset cx7-400g@dgx-h100 --memory gpu8",
            "the machine has dram0",
        ),
        ("--preset cx7-400g@dgx-h100 --cards 9", "must be 1 to 8"),
        (
            "--preset cx7-400g@dgx-h100 --memory gpu0 --set topology.gpu.0.bar_gib=0.001 --mrs 999",
            "do not fit in gpu0",
        ),
        (
            "--preset cx7-400g --set topology.switch.0.acs=true",
            "no topology",
        ),
    ] {
        let refused = refusal(&format!("perf write_bw -s 64 -n 50 {arguments}"));
        assert!(refused.contains(message), "{arguments}: {refused}");
    }
}

/// Goal: the cards of a machine contend. Method: eight cards write from the memory of one socket,
/// one card alone and all at once.
#[test]
fn eight_cards_share_a_socket() {
    let slow = "--set topology.socket.*.dram_gbps=800";
    let all = "--hosts 16 --cards 8 --pattern permutation";
    let node = format!("perf write_bw --preset cx7-400g@dgx-h100 -s 64K -n 40 {slow}");
    let json = text(&format!("{node} --memory dram0 {all} --json -"));
    let of_dram = json.contains("memory of socket 0");
    assert!(of_dram, "{json}");
}

/// Goal: a host that takes payload slowly does not make the sender's timer expire: its card's
/// buffer fills, senders wait for room, and ACKs do not wait in front of it. Method: two hosts
/// whose root ports take few strictly ordered writes send to each other.
#[test]
fn a_slow_host_stops_its_sender() {
    let slow = "--set topology.root_port.*.strict_writes=8";
    let both = "--hosts 2 --pattern permutation --memory dram0 --remote-memory dram0";
    let run = "perf write_bw --preset cx7-400g@dgx-h100 -s 64K -n 256 --counters";
    let counters = text(&format!("{run} {both} {slow}"));
    let values = |name: &str| {
        let line = counters.lines().find(|line| line.starts_with(name));
        let values = line.unwrap_or_else(|| panic!("no {name} in {counters}"));
        let values = values.split_whitespace().skip(1);
        values.map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(values("tx_stalls").iter().all(|count| count != "0"));
    assert!(!counters.contains("packets_retransmitted"), "{counters}");
}
