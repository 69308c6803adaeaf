//! Several processes on the fabric: many at once, processes that die, other hosts.

use std::fs;

use ferroce_tests::{PROCESS_TIMEOUT, Pair, Process, Scratch, TIMEOUT, eventually, library};

const PINGPONG: Pair = Pair {
    program: "ibv_rc_pingpong",
    arguments: &["-g", "1", "-c", "-n", "500"],
    options: &[],
};

/// Goal: eight processes can use one device at once. Method: start four pairs, then wait for all of
/// them.
#[test]
fn eight_processes_at_once() {
    let scratch = Scratch::new();
    let pairs = [(); 4].map(|()| PINGPONG.start(&scratch, &[], &[]));
    for pair in pairs {
        let (_, client) = pair.finish();
        assert!(client.contains("500 iters in"), "{client}");
    }
    let left = scratch.devices();
    assert!(!left.contains("pid "), "{left}");
}

/// Starts a pair that moves data for ten seconds, and returns it when data moves.
fn endless_writes(scratch: &Scratch) -> (Process, Process) {
    let pair = Pair {
        program: "ib_write_bw",
        arguments: &["-F", "-D", "10"],
        options: &[],
    };
    let pair = pair.start(scratch, &[], &[]);
    let pid = pair.client.id();
    eventually("ib_write_bw moves data", TIMEOUT, || {
        scratch.counter(pid, "tx_frames") > 1000
    });
    (pair.server, pair.client)
}

/// Goal: a process that dies frees its place, and its peer notices. Method: kill the responder by
/// SIGKILL during writes; the requester must end by itself, long before its planned time.
#[test]
fn the_peer_of_a_killed_process_ends_with_an_error() {
    let scratch = Scratch::new();
    let (mut server, mut client) = endless_writes(&scratch);
    let (server_line, client_line) = (
        format!("pid {} ", server.id()),
        format!("pid {} ", client.id()),
    );
    let devices = scratch.devices();
    assert!(devices.contains(&server_line) && devices.contains(&client_line));
    server.kill();
    assert!(server.wait().status.is_some());
    let devices = scratch.devices();
    assert!(!devices.contains(&server_line), "{devices}");

    client.hurry(TIMEOUT);
    let client = client.wait();
    let status = client.status.expect("the requester hangs");
    assert_ne!(status.code(), Some(0), "{}", client.output);
    assert!(status.code().is_some(), "a signal: {status}");
    // IBV_WC_RETRY_EXC_ERR
    assert!(client.output.contains("Failed status 12"), "{client:?}");
    PINGPONG.run_in(&scratch);
}

/// The same the other way round: the responder of a dead requester notices on its TCP connection.
#[test]
fn a_killed_requester_leaves_nothing_behind() {
    let scratch = Scratch::new();
    let (mut server, mut client) = endless_writes(&scratch);
    client.kill();
    assert!(client.wait().status.is_some());
    server.hurry(TIMEOUT);
    assert!(server.wait().status.is_some(), "the responder hangs");
    let left = scratch.devices();
    assert!(!left.contains("pid "), "{left}");
    PINGPONG.run_in(&scratch);
}

/// Goal: places of dead processes are used again. Method: more processes than there are places open
/// the device and are killed by SIGKILL.
#[test]
fn places_of_dead_processes_are_taken_again() {
    let scratch = Scratch::new();
    let program = scratch.compile("places");
    scratch
        .finish(scratch.run(&[], &program, &[]))
        .expect_success();
    let left = scratch.devices();
    assert!(!left.contains("pid "), "{left}");
}

/// Lines with one of these words, in order.
fn lines_with<'a>(text: &'a str, words: &[&str]) -> Vec<&'a str> {
    let mut lines: Vec<_> = text.lines().map(str::trim).collect();
    lines.retain(|line| words.iter().any(|word| line.contains(word)));
    lines
}

/// Goal: a host has its own identity, which is always the same.
#[test]
fn each_host_has_its_own_identity() {
    let scratch = Scratch::new();
    let identity = |host| {
        let command = scratch.run(&["--host", host], "ibv_devinfo", &["-v"]);
        let output = scratch.finish(command).expect_success();
        let identity = lines_with(&output, &["GID[", "node_guid:", "sys_image_guid:"]);
        assert!(identity.len() >= 4, "{output}");
        identity.iter().map(|&line| line.to_owned()).collect()
    };
    let (a, b): (Vec<String>, Vec<String>) = (identity("a"), identity("b"));
    assert_eq!(a, identity("a"));
    for line in &a {
        assert!(!b.contains(line), "both hosts have {line}");
    }
}

/// Goal: programs on two hosts communicate. Method: each prints its own GID and the peer's.
#[test]
fn programs_on_two_hosts_talk() {
    let scratch = Scratch::new();
    let pair = PINGPONG.start(&scratch, &["--host", "a"], &["--host", "b"]);
    let (server, client) = pair.finish();
    let gids = |output: &str| -> Vec<String> {
        let lines = lines_with(output, &["address:"]);
        let gid = |line: &&str| line.split("GID ").nth(1).map(str::to_owned);
        lines.iter().filter_map(gid).collect()
    };
    let (server, client) = (gids(&server), gids(&client));
    assert_eq!(client.len(), 2);
    assert_ne!(client[0], client[1]);
    assert_eq!([&server[1], &server[0]], [&client[0], &client[1]]);
}

/// Goal: a host may be given addresses.
#[test]
fn a_host_may_be_given_addresses() {
    let scratch = Scratch::new();
    let options = ["--host", "a", "--address", "192.0.2.77,2001:db8::77"];
    let command = scratch.run(&options, "ibv_devinfo", &["-v"]);
    let output = scratch.finish(command).expect_success();
    for gid in ["::ffff:192.0.2.77", "2001:db8::77"] {
        assert!(output.contains(gid), "{gid} is missing in\n{output}");
    }
}

/// Goal: an unusable rendezvous directory is reported, and nothing crashes. Method: a path that is
/// a file, and one that cannot be created; with `ferroce run`, and with the library alone.
#[test]
fn a_useless_rendezvous_directory_is_named() {
    let scratch = Scratch::new();
    let file = scratch.path("file");
    fs::write(&file, "no directory").expect("the scratch directory can be written");
    for directory in [file.to_string_lossy().as_ref(), "/proc/nothing"] {
        let mut run = scratch.run(&[], "ibv_devinfo", &[]);
        run.env("FERROCE_DIR", directory);
        let mut devices = scratch.ferroce(&["devices"]);
        devices.env("FERROCE_DIR", directory);
        let mut library_alone = std::process::Command::new("ibv_devinfo");
        library_alone
            .env("LD_PRELOAD", library())
            .env("FERROCE_DIR", directory);
        for command in [run, devices, library_alone] {
            let ended = Process::start(command, &scratch, "useless", PROCESS_TIMEOUT).wait();
            let code = ended.status.and_then(|status| status.code());
            assert!(code.is_some_and(|code| code != 0), "{ended:?}");
            assert!(ended.output.contains(directory), "{ended:?}");
        }
    }
}
