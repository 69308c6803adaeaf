//! Unmodified programs in a world with a fabric: on chosen hosts, on several functions of a host,
//! and with a clock that starts when all programs have joined.

use std::fs;
use std::time::Duration;

use ferroce_tests::{
    PROCESS_TIMEOUT, Process, Scratch, Signal, eventually, free_port, stays, wait_until_listening,
};

/// Nine hosts on one switch; the last one has eight functions on one cable.
const INCAST: &str = r#"
[[switches]]
name = "switch"
hosts = ["n0-n8"]

[[hosts]]
name = "n8"
functions = 8
"#;
/// Senders, and functions that receive.
const PAIRS: usize = 8;
/// Rate of the cable.
const GBPS: f64 = 100.0;

/// A running world with the fabric of [`INCAST`].
struct World<'a> {
    scratch: &'a Scratch,
    process: Process,
    socket: String,
}

impl<'a> World<'a> {
    fn start(scratch: &'a Scratch, options: &[&str]) -> Self {
        let fabric = scratch.path("fabric.toml");
        fs::write(&fabric, INCAST).expect("a file");
        let socket = scratch.path("world").to_string_lossy().into_owned();
        let fabric = fabric.to_string_lossy();
        let world = ["world", "--preset", "cx5-100g", "--fabric", &fabric];
        let mut command = scratch.ferroce(&world);
        command.args(["--socket", &socket]).args(options);
        let process = Process::start(command, scratch, "world-output", PROCESS_TIMEOUT);
        eventually("the world is there", PROCESS_TIMEOUT, || {
            process.output().contains("hosts 9 functions 16")
        });
        Self {
            scratch,
            process,
            socket,
        }
    }

    /// Starts a program on a host.
    fn start_on(&self, host: &str, program: &str, arguments: &[&str]) -> Process {
        let options = ["--world", &self.socket, "--host", host];
        let command = self.scratch.run(&options, program, arguments);
        let name = format!("output-{host}");
        Process::start(command, self.scratch, &name, PROCESS_TIMEOUT)
    }

    /// Returns the error of a program that requests a host.
    fn refused(&self, host: &str) -> String {
        let mut program = self.start_on(host, "ibv_devices", &[]);
        program.hurry(PROCESS_TIMEOUT);
        let ended = program.wait();
        assert!(!ended.succeeded(), "{}", ended.output);
        ended.output
    }
}

/// Returns the row of results of a client.
fn row(output: &str) -> &str {
    let row = output.lines().find(|line| line.starts_with(" 65536"));
    row.unwrap_or_else(|| panic!("no result:\n{output}"))
}

/// Runs eight servers on the functions of the last host, and a client for each on another host;
/// starts the clients in this `order`. Returns the rows of the clients.
fn incast(order: impl Iterator<Item = usize>) -> Vec<String> {
    let scratch = Scratch::new();
    let world = World::start(&scratch, &["--once", "--programs", "16"]);
    let arguments = ["-F", "-s", "65536", "-n", "200", "--report_gbits", "-p"];
    let mut pairs: Vec<_> = (0..PAIRS)
        .map(|pair| {
            let port = free_port();
            let port_text = port.to_string();
            let arguments = [&arguments[..], &[&port_text]].concat();
            let host = format!("n8.{pair}");
            let mut server = world.start_on(&host, "ib_write_bw", &arguments);
            wait_until_listening(port, &mut server);
            (port_text, server, None)
        })
        .collect();
    for pair in order {
        let (port, _, client) = &mut pairs[pair];
        let arguments = [&arguments[..], &[port, "127.0.0.1"]].concat();
        let host = format!("n{pair}");
        *client = Some(world.start_on(&host, "ib_write_bw", &arguments));
    }
    let rows = pairs.into_iter().map(|(_, server, client)| {
        let client = client.expect("each was started").wait().expect_success();
        server.wait().expect_success();
        row(&client).to_owned()
    });
    let rows = rows.collect();
    world.process.wait().expect_success();
    rows
}

/// Goal: the figures of many programs do not depend on the times and the order of their starts, and
/// functions of one host share its cable. Method: eight clients of `ib_write_bw` send to eight
/// functions of one host, twice, with different start orders.
#[test]
fn eight_functions_share_a_cable_and_the_figures_are_the_same_twice() {
    let rows = incast(0..PAIRS);
    let sum: f64 = rows
        .iter()
        .map(|row| {
            let average = row.split_whitespace().nth(3).expect("a column");
            average.parse::<f64>().expect("a number")
        })
        .sum();
    println!("{}\nsum {sum:.2} Gb/s", rows.join("\n"));
    assert!((0.9 * GBPS..=GBPS).contains(&sum), "{sum}: {rows:#?}");
    assert_eq!(incast((0..PAIRS).rev()), rows, "another order of starts");
}

/// Goal: a program that cannot get its host reports why. Method: a server uses one function; other
/// programs request the same function, and hosts that do not exist.
#[test]
fn a_host_that_cannot_be_had_is_explained() {
    let scratch = Scratch::new();
    let world = World::start(&scratch, &[]);
    let port = free_port();
    let port_text = port.to_string();
    let mut server = world.start_on("n8.3", "ib_write_bw", &["-F", "-p", &port_text]);
    wait_until_listening(port, &mut server);
    let taken = format!("--host n8.3: process {} is on it", server.id());
    for (host, expected) in [
        ("n8.3", &taken[..]),
        (
            "n9",
            "--host n9: there is no such host: the world has n0 to n8",
        ),
        ("n8.8", "the card of this host has 0 to 7"),
        ("n0.0", "the card of this host has only one"),
        (
            "a",
            "hosts of a simulated world are called n0, n1 and so on",
        ),
    ] {
        let output = world.refused(host);
        assert!(output.contains(expected), "{host}: {output}");
    }
    // Any other function of the host.
    let other = world.start_on("n8", "ibv_devinfo", &["-v"]);
    let output = other.wait().expect_success();
    assert!(output.contains("10.0.0.9"), "n8.0: {output}");
    world.process.signal(Signal::USR1);
    let line = format!("process {} on host n8.3", server.id());
    eventually("the world says where it is", PROCESS_TIMEOUT, || {
        world.process.output().contains(&line)
    });
    server.kill();
}

/// Goal: the variable works like the option, also without `ferroce run`.
#[test]
fn a_variable_names_the_host() {
    let scratch = Scratch::new();
    let world = World::start(&scratch, &[]);
    let options = ["--world", &world.socket];
    for (host, expected) in [("n5", "10.0.0.6"), ("n8.7", "10.0.0.16")] {
        let mut command = scratch.run(&options, "ibv_devinfo", &["-v"]);
        command.env("FERROCE_HOST", host);
        let output = scratch.finish(command).expect_success();
        assert!(output.contains(expected), "{host}: {output}");
    }
    let mut command = scratch.run(&options, "ibv_devinfo", &["-v"]);
    command.env("FERROCE_HOST", "n12");
    let ended = scratch.finish(command);
    assert!(
        ended
            .output
            .contains("FERROCE_HOST=n12: there is no such host"),
        "{ended:?}"
    );
}

/// Goal: a server does not mistake a client that waits for the start of the clock for a program
/// outside of the world. Method: before the last program joins, a pair waits for longer than a
/// server waits for a foreign program.
#[test]
fn a_pair_waits_for_the_last_program() {
    let scratch = Scratch::new();
    let world = World::start(&scratch, &["--programs", "3"]);
    let port = free_port();
    let port_text = port.to_string();
    let arguments = ["-F", "-n", "20", "-p", &port_text];
    let mut server = world.start_on("n0", "ib_write_bw", &arguments);
    wait_until_listening(port, &mut server);
    let arguments = [&arguments[..], &["127.0.0.1"]].concat();
    let mut client = world.start_on("n1", "ib_write_bw", &arguments);
    let both_run = || server.is_running() && client.is_running();
    assert!(
        stays(Duration::from_secs(3), both_run),
        "time has not begun"
    );
    world
        .start_on("n2", "ibv_devinfo", &[])
        .wait()
        .expect_success();
    client.wait().expect_success();
    server.wait().expect_success();
}

/// Goal: a user who starts too few programs sees which hosts are free. Method: one of two programs.
#[test]
fn a_clock_that_does_not_begin_is_explained() {
    let scratch = Scratch::new();
    let world = World::start(&scratch, &["--programs", "2"]);
    let port = free_port();
    let port_text = port.to_string();
    let mut server = world.start_on("n0", "ib_write_bw", &["-F", "-p", &port_text]);
    wait_until_listening(port, &mut server);
    let expected = "time begins with 2 programs, and 1 have joined; free: n1, n2,";
    eventually("the world says it", PROCESS_TIMEOUT, || {
        world.process.output().contains(expected)
    });
    server.kill();
    let too_many = [
        "world",
        "--preset",
        "cx5-100g",
        "--socket",
        "w",
        "--programs",
        "3",
    ];
    let ended = scratch.finish(scratch.ferroce(&too_many));
    let expected = "time is to begin with 3 programs, and the world has room for 2";
    assert!(ended.output.contains(expected), "{}", ended.output);
}
