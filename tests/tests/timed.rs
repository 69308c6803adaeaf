//! Unmodified programs in simulated time: they print the same figures every time, and the figures
//! agree with `ferroce perf`.
//!
//! Tests marked `ignored` are the long mode (`make soak`).

use std::hint::spin_loop;
use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use ferroce_tests::{
    PROCESS_TIMEOUT, Pair, Process, Scratch, Signal, eventually, free_port, wait_until_listening,
};

/// The card of most tests.
const PRESET: &str = "cx5-100g";
/// Runs of a pair in the long mode, and their time limit.
const RUNS: (usize, Duration) = (20, PROCESS_TIMEOUT);
/// The same for a pair that runs for two simulated seconds.
const LONG_RUNS: (usize, Duration) = (2, Duration::from_secs(900));
/// The world's warning about a program that it cannot follow.
const LOST: &str = "knows nothing";

/// Runs a pair in a separate world.
fn run(preset: &str, program: &str, arguments: &str) -> [String; 2] {
    run_within(PROCESS_TIMEOUT, preset, program, arguments)
}

/// As [`run`], with a limit of real time for each of the two.
fn run_within(limit: Duration, preset: &str, program: &str, arguments: &str) -> [String; 2] {
    let arguments: Vec<_> = arguments.split_whitespace().collect();
    let pair = Pair {
        program,
        arguments: &arguments,
        options: &["--timed", preset],
    };
    let scratch = Scratch::new();
    let running = pair.start_within(&scratch, pair.options, pair.options, limit);
    let (server, client) = running.finish();
    for output in [&server, &client] {
        assert!(!output.contains(LOST), "{output}");
    }
    [server, client]
}

/// Returns output without random values of the programs (packet sequence numbers, keys and
/// addresses of buffers), and without the world's messages when a busy machine stops a program.
fn masked(output: &str) -> String {
    let is_kept =
        |line: &&str| !line.contains("address:") && !line.starts_with("ferroce world: process");
    let kept: Vec<&str> = output.lines().filter(is_kept).collect();
    kept.join("\n")
}

/// Checks that several runs print the same.
fn is_the_same(runs: usize, limit: Duration, program: &str, arguments: &str) {
    let run = || run_within(limit, PRESET, program, arguments);
    let print = || run().map(|output| masked(&output));
    let first = print();
    for number in 1..runs {
        let next = print();
        assert_eq!(next, first, "{program} {arguments}: run {number} differs");
    }
}

/// A process that keeps a processor busy until this is dropped.
struct Load(Arc<AtomicBool>);

impl Load {
    fn new() -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&is_over);
        thread::spawn(move || {
            while !seen.load(Ordering::Relaxed) {
                spin_loop();
            }
        });
        Self(is_over)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Checks that several runs print the same while the machine is busy.
fn is_the_same_under_load((runs, limit): (usize, Duration), program: &str, arguments: &str) {
    let _load = Load::new();
    is_the_same(runs, limit, program, arguments);
    println!("{program} {arguments}: {runs} times the same");
}

/// Declares a test for each pair, which has to print the same twice.
macro_rules! same {
    ($( $test:ident: $program:literal $arguments:literal; )*) => {
        $(
            #[test]
            fn $test() {
                is_the_same(2, PROCESS_TIMEOUT, $program, $arguments);
            }
        )*
    };
}

/// Declares a test of the long mode for each pair.
macro_rules! same_often {
    ($mode:ident $runs:ident: $( $test:ident: $program:literal $arguments:literal; )*) => {
        mod $mode {
            $(
                #[test]
                #[ignore = "takes minutes"]
                fn $test() {
                    super::is_the_same_under_load(super::$runs, $program, $arguments);
                }
            )*
        }
    };
}

same! {
    write_bw: "ib_write_bw" "-F -n 500";
    read_bw: "ib_read_bw" "-F -n 500";
    send_bw: "ib_send_bw" "-F -n 500";
    atomic_bw: "ib_atomic_bw" "-F";
    write_lat: "ib_write_lat" "-F";
    read_lat: "ib_read_lat" "-F";
    send_lat: "ib_send_lat" "-F";
    atomic_lat: "ib_atomic_lat" "-F";
    both_ways: "ib_write_bw" "-F -b -n 500";
    eight_queue_pairs: "ib_write_bw" "-F -q 8 -n 200 -s 4096";
    events: "ib_send_lat" "-F -e";
    few_receives: "ib_send_bw" "-F -r 8 -n 500";
    inline: "ib_write_bw" "-F -I 64 -s 64";
    old_api: "ib_write_bw" "-F --use_old_post_send -s 4096";
    all_sizes: "ib_send_lat" "-F -a -n 20";
    rc_pingpong: "ibv_rc_pingpong" "-g 1";
    ud_pingpong: "ibv_ud_pingpong" "-g 1 -s 1024";
}

same_often! {
    often RUNS:
    write_bw: "ib_write_bw" "-F -n 500";
    read_bw: "ib_read_bw" "-F -n 500";
    send_bw: "ib_send_bw" "-F -n 500";
    atomic_bw: "ib_atomic_bw" "-F";
    write_lat: "ib_write_lat" "-F";
    read_lat: "ib_read_lat" "-F";
    send_lat: "ib_send_lat" "-F";
    atomic_lat: "ib_atomic_lat" "-F";
    write_bw_all_sizes: "ib_write_bw" "-F -a -n 5";
    read_bw_all_sizes: "ib_read_bw" "-F -a -n 5";
    send_bw_all_sizes: "ib_send_bw" "-F -a -n 5";
    write_lat_all_sizes: "ib_write_lat" "-F -a -n 5";
    read_lat_all_sizes: "ib_read_lat" "-F -a -n 5";
    send_lat_all_sizes: "ib_send_lat" "-F -a -n 5";
    write_bw_both_ways: "ib_write_bw" "-F -b -n 200";
    read_bw_both_ways: "ib_read_bw" "-F -b -n 200";
    send_bw_both_ways: "ib_send_bw" "-F -b -n 200";
    atomic_bw_both_ways: "ib_atomic_bw" "-F -b";
    write_bw_eight: "ib_write_bw" "-F -q 8 -n 200 -s 4096";
    read_bw_eight: "ib_read_bw" "-F -q 8 -n 200 -s 4096";
    send_bw_eight: "ib_send_bw" "-F -q 8 -n 200 -s 4096";
    atomic_bw_eight: "ib_atomic_bw" "-F -q 8 -n 200";
    read_bw_events: "ib_read_bw" "-F -e -n 200";
    send_bw_events: "ib_send_bw" "-F -e -n 200";
    atomic_bw_events: "ib_atomic_bw" "-F -e";
    read_lat_events: "ib_read_lat" "-F -e";
    send_lat_events: "ib_send_lat" "-F -e";
    atomic_lat_events: "ib_atomic_lat" "-F -e";
    send_bw_few_receives: "ib_send_bw" "-F -r 8 -n 500";
    send_lat_few_receives: "ib_send_lat" "-F -r 8";
    write_bw_inline: "ib_write_bw" "-F -I 64 -s 64";
    send_bw_inline: "ib_send_bw" "-F -I 64 -s 64";
    write_lat_inline: "ib_write_lat" "-F -I 64 -s 64";
    send_lat_inline: "ib_send_lat" "-F -I 64 -s 64";
    write_bw_old_api: "ib_write_bw" "-F --use_old_post_send -s 4096 -n 500";
    read_bw_old_api: "ib_read_bw" "-F --use_old_post_send -s 4096 -n 500";
    send_bw_old_api: "ib_send_bw" "-F --use_old_post_send -s 4096 -n 500";
    atomic_bw_old_api: "ib_atomic_bw" "-F --use_old_post_send";
    write_lat_old_api: "ib_write_lat" "-F --use_old_post_send";
    read_lat_old_api: "ib_read_lat" "-F --use_old_post_send";
    send_lat_old_api: "ib_send_lat" "-F --use_old_post_send";
    atomic_lat_old_api: "ib_atomic_lat" "-F --use_old_post_send";
    rc_pingpong: "ibv_rc_pingpong" "-g 1";
    ud_pingpong: "ibv_ud_pingpong" "-g 1 -s 1024";
}

// Two simulated seconds take minutes.
same_often! {
    two_seconds LONG_RUNS:
    write_bw: "ib_write_bw" "-F -D 2";
    read_bw: "ib_read_bw" "-F -D 2";
    send_bw: "ib_send_bw" "-F -D 2";
    atomic_bw: "ib_atomic_bw" "-F -D 2";
    write_lat: "ib_write_lat" "-F -D 2";
    read_lat: "ib_read_lat" "-F -D 2";
    send_lat: "ib_send_lat" "-F -D 2";
    atomic_lat: "ib_atomic_lat" "-F -D 2";
}

/// Returns the columns of the line with this message size in a table of perftest.
fn row(output: &str, size: u32) -> Vec<f64> {
    let columns = |line: &str| -> Vec<f64> {
        line.split_whitespace()
            .map_while(|word| word.parse().ok())
            .collect()
    };
    let mut rows = output.lines().map(columns);
    rows.find(|row| row.len() >= 5 && row[0] == f64::from(size))
        .unwrap_or_else(|| panic!("no line of {size} bytes:\n{output}"))
}

/// Column of the average bandwidth, and of the typical latency.
const BANDWIDTH: usize = 3;
const TYPICAL: usize = 4;

/// Checks that the real program and `ferroce perf` agree within `percent`.
fn agree(preset: &str, test: &str, size: u32, column: usize, percent: f64) {
    let size_text = size.to_string();
    // By default the real program uses the MTU of the port, and `ferroce perf` uses 1024.
    let options = format!("-F -s {size} -m 1024");
    let [_, client] = run(preset, &format!("ib_{test}"), &options);
    let scratch = Scratch::new();
    let harness = [
        "perf", test, "--preset", preset, "-s", &size_text, "-m", "1024",
    ];
    let harness = scratch.finish(scratch.ferroce(&harness)).expect_success();
    let (real, simulated) = (row(&client, size)[column], row(&harness, size)[column]);
    let error = (real / simulated - 1.0).abs() * 100.0;
    assert!(
        error <= percent,
        "{preset}: {test} of {size} bytes: perftest {real}, ferroce perf {simulated}: {error:.2} %"
    );
}

#[test]
fn bandwidth_is_that_of_the_harness() {
    for test in ["write_bw", "read_bw", "send_bw"] {
        agree(PRESET, test, 65536, BANDWIDTH, 1.0);
    }
}

#[test]
fn message_rates_are_those_of_the_harness() {
    for test in ["write_bw", "read_bw", "send_bw"] {
        agree(PRESET, test, 64, BANDWIDTH, 1.0);
    }
}

#[test]
fn latency_is_that_of_the_harness() {
    for test in ["write_lat", "read_lat", "send_lat"] {
        for size in [8, 4096] {
            agree(PRESET, test, size, TYPICAL, 2.0);
        }
    }
}

#[test]
fn other_cards_agree_too() {
    for preset in ["irdma-10g", "cx6-200g", "cx4lx-25g"] {
        agree(preset, "write_bw", 65536, BANDWIDTH, 1.0);
        agree(preset, "write_lat", 8, TYPICAL, 2.0);
        agree(preset, "read_lat", 4096, TYPICAL, 2.0);
    }
}

#[test]
fn programs_say_in_which_world_they_are() {
    let [server, _] = run("irdma-10g", "ib_write_lat", "-F -n 100");
    for expected in ["simulated time", "preset irdma-10g, hash ", "seed 1"] {
        assert!(server.contains(expected), "{expected}:\n{server}");
    }
}

#[test]
fn the_device_is_that_of_the_preset() {
    let scratch = Scratch::new();
    let part_id = |options: &[&str]| {
        let command = scratch.run(options, "ibv_devinfo", &["-v"]);
        let output = scratch.finish(command).expect_success();
        let line = output.lines().find(|line| line.contains("vendor_part_id"));
        let line = line.expect("a line").to_owned();
        line.split_whitespace().last().map(str::to_owned)
    };
    assert_eq!(part_id(&["--timed", PRESET]).as_deref(), Some("4119"));
    let chosen = part_id(&["--timed", PRESET, "--part-id", "0x8070"]);
    assert_eq!(chosen.as_deref(), Some("32880"));
}

#[test]
fn the_port_is_that_of_the_preset() {
    let scratch = Scratch::new();
    let ports = [
        ("cx5-100g", "4X (2)", "25.0 Gbps (32)", "1024 (3)"),
        ("cx6-200g", "4X (2)", "50.0 Gbps (64)", "4096 (5)"),
        ("cx7-400g", "4X (2)", "100.0 Gbps (128)", "4096 (5)"),
        ("cx4lx-25g", "1X (1)", "25.0 Gbps (32)", "1024 (3)"),
        ("irdma-10g", "1X (1)", "10.0 Gbps (4)", "1024 (3)"),
    ];
    for (preset, width, speed, mtu) in ports {
        let command = scratch.run(&["--timed", preset], "ibv_devinfo", &["-v"]);
        let output = scratch.finish(command).expect_success();
        let find = |key: &str| {
            let line = output.lines().find(|line| line.trim().starts_with(key));
            let line = line.and_then(|line| line.split_once(':'));
            line.map(|(_, value)| value.trim().to_owned())
        };
        assert_eq!(find("active_width").as_deref(), Some(width), "{preset}");
        assert_eq!(find("active_speed").as_deref(), Some(speed), "{preset}");
        assert_eq!(find("active_mtu").as_deref(), Some(mtu), "{preset}");
    }
}

/// Returns the nanoseconds of the parts of the last message, and the sums below them: the total in
/// microseconds, and the time that perftest has measured.
fn explained(test: &str, options: &[&str]) -> (Vec<f64>, String) {
    let scratch = Scratch::new();
    let mut arguments = vec!["perftest", test, "--preset", PRESET, "--explain"];
    arguments.extend(options);
    let output = scratch.finish(scratch.ferroce(&arguments)).expect_success();
    let (_, table) = output.split_once("The last message").expect(&output);
    let part = |line: &str| {
        let mut words = line.split_whitespace();
        let start: Option<f64> = words.next()?.parse().ok();
        start?;
        words.next()?.parse().ok()
    };
    let parts: Vec<f64> = table.lines().filter_map(part).collect();
    let last = table.lines().last().expect("a conclusion");
    assert!(parts.len() > 10, "{output}");
    (parts, last.to_owned())
}

#[test]
fn the_parts_of_a_message_add_up_to_what_perftest_prints_for_it() {
    let cases: [(&str, &[&str], f64); 5] = [
        ("read_lat", &["-s", "8"], 1.0),
        ("write_lat", &["-s", "4096"], 2.0),
        ("send_lat", &["-s", "64"], 2.0),
        ("send_lat", &["-s", "64", "-e"], 2.0),
        ("atomic_lat", &[], 1.0),
    ];
    for (test, options, ways) in cases {
        let (parts, conclusion) = explained(test, options);
        let numbers = conclusion.split_whitespace();
        let numbers: Vec<f64> = numbers
            .filter_map(|word| word.trim_end_matches(';').parse().ok())
            .collect();
        let (all, printed) = (numbers[0], numbers[numbers.len() - 1]);
        let sum_us = parts.iter().sum::<f64>() / 1000.0;
        assert!(
            (sum_us - all).abs() < 0.001,
            "{test}: {parts:?}: {conclusion}"
        );
        // perftest reads a clock of nanoseconds.
        let error = (all / ways - printed).abs();
        assert!(error < 0.0025, "{test} {options:?}: {conclusion}");
    }
}

#[test]
fn a_message_of_a_bandwidth_test_is_explained_alone() {
    let (parts, conclusion) = explained("write_bw", &["-s", "64"]);
    let all = parts.iter().sum::<f64>() / 1000.0;
    let average = conclusion.trim_end_matches('.').rsplit(' ').next();
    let average: f64 = average
        .and_then(|word| word.parse().ok())
        .expect("a number");
    assert!((all / average - 1.0).abs() < 0.1, "{conclusion}");
}

#[test]
fn only_one_size_is_explained() {
    let scratch = Scratch::new();
    for options in [&["-a", "--explain"][..], &["--pcap", "x"]] {
        let mut arguments = vec!["perftest", "write_lat", "--preset", PRESET];
        arguments.extend(options);
        let ended = scratch.finish(scratch.ferroce(&arguments));
        assert!(!ended.succeeded(), "{}", ended.output);
    }
}

/// Goal: a user can see why a world does not advance. Method: a server waits for its client, and
/// the world gets SIGUSR1.
#[test]
fn a_world_says_what_each_thread_waits_for() {
    let scratch = Scratch::new();
    let socket = scratch.path("world");
    let socket_text = socket.to_string_lossy();
    let world = [
        "world",
        "--preset",
        PRESET,
        "--once",
        "--socket",
        &socket_text,
    ];
    let world = Process::start(
        scratch.ferroce(&world),
        &scratch,
        "world-output",
        PROCESS_TIMEOUT,
    );
    eventually("the world is there", PROCESS_TIMEOUT, || socket.exists());
    let port = free_port();
    let port_text = port.to_string();
    let arguments = ["-F", "-p", &port_text];
    let server = scratch.run(&["--world", &socket_text], "ib_write_lat", &arguments);
    let mut server = Process::start(server, &scratch, "server", PROCESS_TIMEOUT);
    wait_until_listening(port, &mut server);
    let line = format!("process {} on host n0, page 0", server.id());
    // The world may not know its program yet, so ask again until it does.
    eventually("the world says it", PROCESS_TIMEOUT, || {
        world.signal(Signal::USR1);
        world.output().contains(&line)
    });
    assert!(server.is_running(), "it waits on");
    server.kill();
    let ended = world.wait();
    assert!(ended.succeeded(), "{}", ended.output);
}

/// Goal: a program that was not started in the world gets an error, and does not block the
/// listener. Method: this process connects to a server in a world.
#[test]
fn a_connection_from_outside_is_refused() {
    let scratch = Scratch::new();
    let port = free_port();
    let port_text = port.to_string();
    let arguments = ["-F", "-n", "100", "-p", &port_text];
    let options = ["--timed", PRESET];
    let server = scratch.run(&options, "ib_write_lat", &arguments);
    let mut server = Process::start(server, &scratch, "server", PROCESS_TIMEOUT);
    wait_until_listening(port, &mut server);
    let refused = || {
        let mut outsider = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        let limit = outsider.set_read_timeout(Some(Duration::from_secs(20)));
        limit.expect("an open socket");
        let error = outsider.read(&mut [0; 16]).expect_err("nothing comes");
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    };
    refused();
    refused();
    // A connection just before the client's, which stays open.
    let outsider = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let arguments = [&arguments[..], &["127.0.0.1"]].concat();
    let client = scratch.run(&options, "ib_write_lat", &arguments);
    scratch.finish(client).expect_success();
    let output = server.wait().expect_success();
    assert!(
        output.contains("outside of this simulated world"),
        "{output}"
    );
    drop(outsider);
}

/// Goal: a user who starts two programs with different presets gets a warning, because they do not
/// meet. Method: a server waits in one world, and other programs start with another preset and with
/// the same one.
#[test]
fn a_second_world_is_reported() {
    const WARNING: &str = "another simulated world of this user runs, with --timed irdma-10g";
    let scratch = Scratch::new();
    let port = free_port();
    let port_text = port.to_string();
    let arguments = ["-F", "-p", &port_text];
    let server = scratch.run(&["--timed", "irdma-10g"], "ib_write_lat", &arguments);
    let mut server = Process::start(server, &scratch, "server", PROCESS_TIMEOUT);
    wait_until_listening(port, &mut server);
    let output = |preset| {
        let command = scratch.run(&["--timed", preset], "ibv_devinfo", &[]);
        scratch.finish(command).expect_success()
    };
    let other = output("cx5-100g");
    let first = other.lines().next().unwrap_or_default();
    assert!(first.contains(WARNING), "{other}");
    let same = output("irdma-10g");
    assert!(!same.contains("warning"), "{same}");
    server.kill();
}

#[test]
fn a_world_that_is_not_there_is_named() {
    let scratch = Scratch::new();
    let command = scratch.run(&["--world", "/nowhere/world"], "ibv_devinfo", &[]);
    let ended = scratch.finish(command);
    assert!(!ended.succeeded());
    assert!(ended.output.contains("/nowhere/world"), "{}", ended.output);
    let mut command = scratch.run(&[], "ibv_devinfo", &[]);
    command.env("FERROCE_WORLD", "/nowhere/world");
    let ended = scratch.finish(command);
    assert!(
        ended.output.contains("ferroce run --timed"),
        "{}",
        ended.output
    );
}
