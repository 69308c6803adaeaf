//! Unmodified programs on machines with a topology: the order that they ask for, and the socket on
//! which their memory lies.

use ferroce_tests::{PROCESS_TIMEOUT, Process, Scratch, free_port, run_pair};

const HOSTS: &str = "cx6-200g@epyc-hdr@epyc-2socket";

/// Returns what `ib_write_bw` prints for 64 KiB in Gb/s, with these options of world and program.
fn write_bw(world: &[&str], options: &[&str]) -> f64 {
    let scratch = Scratch::new();
    let socket = scratch.path("world").to_string_lossy().into_owned();
    let mut command = scratch.ferroce(&["world", "--preset", HOSTS, "--once"]);
    command.args(["--socket", &socket]).args(world);
    let mut running = Process::start(command, &scratch, "world-output", PROCESS_TIMEOUT);
    running.expect_output("hosts 2");
    let port = free_port();
    let text = port.to_string();
    let common = ["-p", &text, "-s", "65536", "-n", "1000", "--report_gbits"];
    let program = |host: &str, more: &[&str]| {
        let arguments = [&common[..], options, more].concat();
        let options = ["--world", &socket, "--host", host];
        scratch.run(&options, "ib_write_bw", &arguments)
    };
    let (server, client) = (program("n0", &[]), program("n1", &["127.0.0.1"]));
    let (_, client) = run_pair(&scratch, port, server, client);
    let row = client.lines().find(|line| line.starts_with(" 65536"));
    let row = row.unwrap_or_else(|| panic!("no result:\n{client}"));
    let average = row.split_whitespace().nth(3).expect("the average");
    average.parse().expect("Gb/s")
}

/// Goal: perftest's own option decides as on the measured hosts, EPYC with 150 Gb/s strict and 200
/// relaxed; the other socket makes strict writes slower, and relaxed ones not.
#[test]
fn perftest_asks_for_its_order() {
    let strict = ["--disable_pcie_relaxed"];
    let far = ["--memory", "n0=dram1"];
    let near_strict = write_bw(&[], &strict);
    assert!((140.0..155.0).contains(&near_strict), "{near_strict}");
    let far_strict = write_bw(&far, &strict);
    assert!((75.0..91.0).contains(&far_strict), "{far_strict}");
    let far_relaxed = write_bw(&far, &[]);
    assert!(far_relaxed > 190.0, "{far_relaxed}");
}

#[test]
fn what_is_no_memory_of_the_machine_is_refused() {
    for (memory, preset, message) in [
        ("gpu0", HOSTS, "dram0 to dram1"),
        ("n7=dram1", HOSTS, "they are n0 to n1"),
        ("dram1", "cx5-100g", "has no topology"),
    ] {
        let scratch = Scratch::new();
        let world = [
            "world", "--preset", preset, "--socket", "w", "--memory", memory,
        ];
        let ended = scratch.finish(scratch.ferroce(&world));
        assert!(!ended.expect_end().success(), "{}", ended.output);
        assert!(ended.output.contains(message), "{memory}: {}", ended.output);
    }
}
