//! Programs on devices of another process: `ferroce serve` on one side, `ferroce run --device` on
//! the other.

use ferroce_tests::{Pair, Process, RunningPair, Scratch, Served, TIMEOUT, eventually};

/// Starts a pair of programs, each on its own function.
fn start_pair<'a>(
    scratch: &'a Scratch,
    served: &Served,
    program: &str,
    arguments: &[&str],
) -> RunningPair<'a> {
    let pair = Pair {
        program,
        arguments,
        options: &[],
    };
    let (one, other) = (served.device(0), served.device(1));
    pair.start(scratch, &["--device", &one], &["--device", &other])
}

/// Goal: verbs work over the socket as in the process: services, operations, polling and events,
/// payload in the program's memory. Method: run programs one after the other on the same two
/// functions, so that each gets the functions in the state in which the previous one left them.
#[test]
fn programs_talk_over_served_functions() {
    let scratch = Scratch::new();
    let mut served = Served::start(&scratch, 2);
    let programs: [(&str, &[&str]); 10] = [
        ("ibv_rc_pingpong", &["-g", "0", "-c", "-n", "200"]),
        ("ibv_rc_pingpong", &["-g", "0", "-c", "-e", "-n", "100"]),
        ("ibv_uc_pingpong", &["-g", "0", "-c", "-n", "100"]),
        (
            "ibv_ud_pingpong",
            &["-g", "0", "-c", "-s", "1000", "-n", "100"],
        ),
        ("ibv_srq_pingpong", &["-g", "0", "-c", "-n", "200"]),
        ("ib_write_bw", &["-F", "-n", "200", "-q", "4"]),
        ("ib_write_lat", &["-F", "-n", "100"]),
        ("ib_read_bw", &["-F", "-n", "100"]),
        ("ib_send_lat", &["-F", "-n", "100", "-e"]),
        ("ib_atomic_lat", &["-F", "-n", "100"]),
    ];
    for (program, arguments) in programs {
        start_pair(&scratch, &served, program, arguments).finish();
    }
    assert!(served.process.is_running());
}

/// Goal: a function on a socket and a function in a process are on the same fabric.
#[test]
fn a_served_function_talks_to_one_of_a_process() {
    let scratch = Scratch::new();
    let served = Served::start(&scratch, 2);
    let pair = Pair {
        program: "ib_write_bw",
        arguments: &["-F", "-n", "200", "-x", "0"],
        options: &[],
    };
    pair.start(&scratch, &["--device", &served.device(0)], &[])
        .finish();
}

/// Fails the test unless a program has ended by itself, with an error.
fn expect_failure(mut process: Process) {
    process.hurry(TIMEOUT);
    let ended = process.wait();
    let status = ended.status.expect("a program without a device hangs");
    assert_ne!(status.code(), Some(0), "{}", ended.output);
    assert!(status.code().is_some(), "a signal: {status}");
}

/// Goal: programs end with an error when their device has failed, whether they poll or sleep.
/// Method: kill the server by SIGKILL during traffic.
#[test]
fn programs_end_when_their_server_is_killed() {
    let scratch = Scratch::new();
    let programs: [(&str, &[&str]); 3] = [
        ("ib_write_bw", &["-F", "-D", "60"]),
        ("ib_send_bw", &["-F", "-n", "2000000", "-e"]),
        ("ibv_rc_pingpong", &["-g", "0", "-e", "-n", "100000000"]),
    ];
    for (program, arguments) in programs {
        let mut served = Served::start(&scratch, 2);
        let pair = start_pair(&scratch, &served, program, arguments);
        let pid = served.process.id();
        eventually(&format!("{program} moves data"), TIMEOUT, || {
            scratch.counter(pid, "tx_frames") > 100
        });
        served.process.kill();
        expect_failure(pair.client);
        expect_failure(pair.server);
    }
}

/// Goal: errors are reported.
#[test]
fn a_device_that_is_not_there_is_named() {
    let scratch = Scratch::new();
    let absent = format!("vfio-user:{}", scratch.path("absent").display());
    let command = scratch.run(&["--device", &absent], "ibv_devinfo", &[]);
    let ended = scratch.finish(command);
    assert!(!ended.succeeded());
    assert!(ended.output.contains("ferroce serve --socket"), "{ended:?}");
}
