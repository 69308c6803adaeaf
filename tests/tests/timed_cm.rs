//! Programs that connect with RDMA CM in simulated time, with the distribution's librdmacm: they
//! print the same every time.

use ferroce_tests::{PROCESS_TIMEOUT, Process, Scratch, expect_commands, free_port};

const OPTIONS: &[&str] = &["--timed", "cx5-100g"];
/// The address of the first host of a world, which the first program gets.
const SERVER: &str = "10.0.0.1";

/// Runs a pair in a separate world; the port is added to the arguments of both. The client starts
/// when the server listens: an earlier client would try again, and connect at another time.
fn run(program: &str, server: &[&str], client: &[&str]) -> [String; 2] {
    let scratch = Scratch::new();
    let port = free_port().to_string();
    let start = |name: &str, arguments: &[&str]| {
        let arguments = [&["-p", &port], arguments].concat();
        let command = scratch.run_rdma_cm(OPTIONS, program, &arguments);
        Process::start(command, &scratch, name, PROCESS_TIMEOUT)
    };
    let mut server = start("server", server);
    expect_commands(&mut server, "LISTEN", 1);
    let client = start("client", client);
    [server, client].map(|side| masked(&side.wait().expect_success()))
}

/// Returns output without the log, without random values of the programs (packet sequence numbers),
/// and without the world's messages when a busy machine stops a program.
fn masked(output: &str) -> String {
    const LEFT_OUT: [&str; 3] = ["address:", "ferroce_provider", "ferroce world: process"];
    let is_kept = |line: &&str| !LEFT_OUT.iter().any(|words| line.contains(words));
    let kept: Vec<&str> = output.lines().filter(is_kept).collect();
    kept.join("\n")
}

/// Checks that two runs print the same; returns the output of the client.
fn is_the_same(program: &str, server: &[&str], client: &[&str]) -> String {
    let [first, next] = [(); 2].map(|()| run(program, server, client));
    assert_eq!(first, next, "{program}: not the same");
    let [_, client] = first;
    client
}

/// Checks a test of perftest with these arguments.
fn perftest_is_the_same(program: &str, arguments: &[&str]) {
    let client = [arguments, &[SERVER]].concat();
    let printed = is_the_same(program, arguments, &client);
    assert!(printed.contains("rdma_cm"), "{printed}");
}

#[test]
fn write_bw() {
    perftest_is_the_same("ib_write_bw", &["-R", "-F", "-n", "500"]);
}

#[test]
fn send_lat_of_datagrams() {
    perftest_is_the_same("ib_send_lat", &["-R", "-F", "-c", "UD", "-n", "500"]);
}

#[test]
fn rping() {
    let arguments = ["-a", SERVER, "-v", "-C", "10"];
    let side = |side| [&[side], &arguments[..]].concat();
    let printed = is_the_same("rping", &side("-s"), &side("-c"));
    let pings = printed.matches("ping data: rdma-ping-").count();
    assert_eq!(pings, 10, "{printed}");
}
