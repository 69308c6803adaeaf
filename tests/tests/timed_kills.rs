//! In simulated time, too, a killed process does not block the others: server, client or their
//! world are killed by SIGKILL at any moment, and the others soon end with errors.
//!
//! Tests marked `ignored` are the long mode (`make soak`).

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use ferroce_tests::{
    Process, Scratch, eventually, free_port, is_listening, stays, wait_until_listening,
};

/// Limit of real time in which the others must end.
const BOUND: Duration = Duration::from_secs(15);
/// Time limit of a run.
const LIMIT: Duration = Duration::from_secs(60);
/// Latest time of the kill after the start of the client.
const LATEST_MS: u64 = 1500;
/// A connected client begins to measure within this time.
const SET_UP: Duration = Duration::from_secs(2);
/// Kills of the long mode, half of them with packet faults.
const KILLS: u64 = 200;
/// Faults of every second world.
const FAULTS: [&str; 2] = ["--faults", "loss=1e-2,seed=3"];

/// Programs that run for longer than the test.
const TOOLS: [(&str, &[&str]); 5] = [
    ("ib_write_lat", &[]),
    ("ib_send_bw", &[]),
    ("ib_read_lat", &[]),
    ("ib_send_lat", &["-e"]),
    ("ib_write_bw", &["-s", "4096"]),
];
const ENDLESS: [&str; 3] = ["-F", "-n", "4000000"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Server,
    Client,
    World,
}

/// Returns the pair, the victim and the time of the kill of a run, determined by its number.
fn plan(number: u64) -> (usize, Victim, Duration) {
    // A step of Knuth's generator, whose upper bits are the better ones.
    let random = |step: u64| {
        let state = (number * 8 + step).wrapping_mul(6_364_136_223_846_793_005);
        state
            .wrapping_add(1_442_695_040_888_963_407)
            .rotate_left(29)
            >> 33
    };
    let victim = match random(0) % 3 {
        0 => Victim::Server,
        1 => Victim::Client,
        _ => Victim::World,
    };
    let delay = Duration::from_millis(random(1) % LATEST_MS);
    ((number % TOOLS.len() as u64) as usize, victim, delay)
}

/// Returns the processes whose command line or environment names `folder`.
fn processes_of(folder: &Path) -> Vec<String> {
    let folder = folder.to_string_lossy();
    let processes = fs::read_dir("/proc").expect("there are processes");
    let commands = processes.flatten().filter_map(|process| {
        let read = |name: &str| fs::read(process.path().join(name)).ok();
        let text = [read("environ")?, read("cmdline")?].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        let name = read("comm").unwrap_or_default();
        let name = String::from_utf8_lossy(&name).trim().to_owned();
        let pid = process.file_name().to_string_lossy().into_owned();
        text.contains(&*folder).then(|| format!("{pid} {name}"))
    });
    commands.collect()
}

/// Runs a pair in a separate world and kills one of the three. Returns the time until the last of
/// the others has ended.
fn kill(number: u64) -> Duration {
    let (tool, victim, delay) = plan(number);
    let (program, options) = TOOLS[tool];
    let faults: &[&str] = if number % 2 == 1 { &FAULTS } else { &[] };
    let what =
        format!("kill {number}: {victim:?} of {program} {options:?} {faults:?} after {delay:?}");
    let scratch = Scratch::new();
    let socket = scratch.path("world");
    let socket_text = socket.to_string_lossy();
    let world = ["world", "--preset", "cx5-100g", "--once", "--socket"];
    let world = scratch.ferroce(&[&world[..], &[&*socket_text], faults].concat());
    let mut world = Process::start(world, &scratch, "world-output", LIMIT);
    eventually("the world is there", BOUND, || socket.exists());
    let port = free_port();
    let port_text = port.to_string();
    let arguments = [&ENDLESS, options, &["-p", &port_text]].concat();
    let start = |name: &str, more: &[&str]| {
        let arguments = [&arguments, more].concat();
        let command = scratch.run(&["--world", &socket_text], program, &arguments);
        Process::start(command, &scratch, name, LIMIT)
    };
    let mut server = start("server", &[]);
    wait_until_listening(port, &mut server);
    let mut client = start("client", &["127.0.0.1"]);
    // The moment of the kill.
    thread::sleep(delay);
    let killed = Instant::now();
    match victim {
        Victim::Server => server.kill(),
        Victim::Client => client.kill(),
        Victim::World => world.kill(),
    }
    let mut took = Duration::ZERO;
    let parts = [
        (Victim::Client, client),
        (Victim::Server, server),
        (Victim::World, world),
    ];
    for (part, mut process) in parts {
        process.hurry(BOUND.saturating_sub(killed.elapsed()));
        if part == Victim::Server && victim == Victim::Client && waits_for_next(port, &mut process)
        {
            // Its client died before it was accepted, so the server waits for the next one.
            process.kill();
        }
        let ended = process.wait();
        let output = &ended.output;
        assert!(
            ended.status.is_some(),
            "{what}: {part:?} lives on:\n{output}"
        );
        let is_error = !ended.succeeded() || part == Victim::World;
        assert!(is_error, "{what}: {part:?} has noticed nothing:\n{output}");
        took = took.max(killed.elapsed());
    }
    let left = processes_of(&scratch.path(""));
    assert!(left.is_empty(), "{what}: left over: {left:?}");
    took
}

/// Returns true if a server has had no client yet, and still listens.
fn waits_for_next(port: u16, server: &mut Process) -> bool {
    /// A server that has accepted its client stops listening within this time.
    const ACCEPTS: Duration = Duration::from_secs(2);
    stays(ACCEPTS, || server.is_running() && is_listening(port))
}

#[test]
fn a_killed_process_blocks_no_other() {
    // One pair of each tool; each of the three processes is killed.
    let numbers = 0..TOOLS.len() as u64;
    let victims: Vec<Victim> = numbers.clone().map(|number| plan(number).1).collect();
    for victim in [Victim::Server, Victim::Client, Victim::World] {
        assert!(victims.contains(&victim), "{victims:?}");
    }
    for number in numbers {
        kill(number);
    }
}

#[test]
#[ignore = "takes minutes"]
fn a_killed_process_blocks_no_other_often() {
    let mut longest = Duration::ZERO;
    for number in 0..KILLS {
        let took = kill(number);
        println!("{:?}: over after {took:.1?}", plan(number));
        longest = longest.max(took);
    }
    println!("{KILLS} kills; the longest was over after {longest:.1?}");
}

/// Goal: a test whose peer was killed prints no figure. Method: a pair measures for a long time by
/// the clock; without an error, only the end of that time would end it.
#[test]
fn a_test_without_its_peer_prints_no_figure() {
    let scratch = Scratch::new();
    let port = free_port();
    let port_text = port.to_string();
    let arguments = ["-F", "-D", "10", "-s", "8", "-p", &port_text];
    let options = ["--timed", "cx5-100g"];
    let server = scratch.run(&options, "ib_write_bw", &arguments);
    let mut server = Process::start(server, &scratch, "server", LIMIT);
    wait_until_listening(port, &mut server);
    let arguments = [&arguments[..], &["127.0.0.1"]].concat();
    let client = scratch.run(&options, "ib_write_bw", &arguments);
    let client = Process::start(client, &scratch, "client", LIMIT);
    eventually("the client has connected", LIMIT, || !is_listening(port));
    // Its output is buffered until it ends, so nothing shows that it measures.
    thread::sleep(SET_UP);
    server.kill();
    let ended = client.wait();
    assert!(!ended.succeeded(), "{}", ended.output);
    let is_row = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        words.len() == 5 && words.iter().all(|word| word.parse::<f64>().is_ok())
    };
    assert!(!ended.output.lines().any(is_row), "{}", ended.output);
    assert!(
        ended
            .output
            .contains("other program of this simulated world has gone without exit"),
        "{}",
        ended.output
    );
}
