//! Packet faults under unmodified programs.

use std::time::{Duration, Instant};

use ferroce_tests::{PROCESS_TIMEOUT, Pair, Process, Scratch, TIMEOUT, eventually, free_port};
use ferroce_tests::{run_rdma_cm_pair, wait_until_listening};

/// Each program, with arguments for little data and short time-outs (`-u 10`: 4 ms).
const PROGRAMS: [(&str, &[&str]); 5] = [
    ("ib_write_bw", &["-F", "-n", "200", "-u", "10"]),
    ("ib_read_bw", &["-F", "-n", "200", "-u", "10"]),
    ("ib_send_bw", &["-F", "-n", "200", "-u", "10"]),
    ("ib_atomic_bw", &["-F", "-n", "200", "-u", "10"]),
    ("ibv_rc_pingpong", &["-g", "1", "-c", "-n", "30"]),
];

/// Runs all programs with a plan; ibv_rc_pingpong checks the data.
fn programs_complete(plan: &str) {
    for (program, arguments) in PROGRAMS {
        let pair = Pair {
            program,
            arguments,
            options: &["--faults", plan],
        };
        let (server, client) = pair.run();
        for output in [server, client] {
            assert!(!output.contains("invalid data"), "{plan}: {output}");
        }
    }
}

#[test]
fn programs_complete_with_loss() {
    programs_complete("loss=1e-2,seed=3");
}

#[test]
fn programs_complete_with_bursts_of_loss() {
    programs_complete("burst=1e-3/0.3,seed=4");
}

#[test]
fn programs_complete_with_corruption_and_duplicates() {
    programs_complete("corrupt=5e-3,corrupt-header=5e-3,corrupt-icrc=5e-3,dup=5e-2,seed=5");
}

#[test]
fn programs_complete_with_delay() {
    programs_complete("delay=20us,jitter=20us,seed=6");
}

/// Goal: WRITE, FLUSH and ATOMIC WRITE are executed once and in order with 15 % loss. Method:
/// tests/c/remote_log.c, whose server looks at each entry and replaces its head.
#[test]
fn a_remote_log_is_written_once_with_loss() {
    let scratch = Scratch::new();
    let program = scratch.compile("remote_log");
    let pair = Pair {
        program: &program,
        arguments: &["-n", "60"],
        options: &["--faults", "loss=0.15,seed=3"],
    };
    let (server, client) = pair.run_in(&scratch);
    for output in [server, client] {
        assert!(output.contains("0 failures"), "{output}");
    }
}

/// Few packets, because go-back-N treats each overtaken packet as lost.
#[test]
fn programs_complete_with_reordering() {
    programs_complete("reorder=1e-2/20us,seed=7");
}

/// Goal: programs complete with eight paths, as in adaptive routing. Method: one tool with few
/// messages, because go-back-N sends nearly everything again.
#[test]
fn a_program_completes_with_sprayed_packets() {
    let pair = Pair {
        program: "ib_write_bw",
        arguments: &["-F", "-n", "50", "-u", "10"],
        options: &["--faults", "reorder=8paths,seed=8"],
    };
    pair.run();
}

/// Goal: with a dead link, a program ends after the time of its retries: 8 times 4.096 us x 2^14
/// (IBTA vol 1, 9.7.6.1.3).
#[test]
fn a_dead_link_is_reported_in_time() {
    let scratch = Scratch::new();
    let port = free_port().to_string();
    let options = ["--faults", "down=0ns.."];
    let arguments = ["-g", "1", "-p", &port];
    let server = scratch.run(&options, "ibv_rc_pingpong", &arguments);
    let mut server = Process::start(server, &scratch, "server", PROCESS_TIMEOUT);
    wait_until_listening(port.parse().expect("a number"), &mut server);
    let client = [&arguments[..], &["127.0.0.1"]].concat();
    let begin = Instant::now();
    let ended = scratch.finish(scratch.run(&options, "ibv_rc_pingpong", &client));
    let took = begin.elapsed();
    let expected = "transport retry counter exceeded (12)";
    assert!(ended.output.contains(expected), "{}", ended.output);
    let least = Duration::from_micros(8 * 67_108);
    assert!(took >= least, "{took:?}, {least:?} at least");
}

/// Goal: the capture of both ends shows the faults. Method: tshark reads it; each lost packet is
/// sent again.
#[test]
fn a_capture_has_comments() {
    let scratch = Scratch::new();
    let path = scratch.path("faults.pcapng");
    let capture = path.to_str().expect("our own name");
    let pair = Pair {
        program: "ib_write_bw",
        arguments: &["-F", "-n", "50", "-u", "10"],
        options: &[
            "--faults",
            "drop=write#5+90,dup=write#7,seed=1",
            "--capture",
            capture,
        ],
    };
    pair.run_in(&scratch);
    let fields = "-T fields -e infiniband.bth.destqp -e infiniband.bth.psn -e frame.comment";
    let mut tshark = std::process::Command::new("tshark");
    tshark.arg("-r").arg(&path).args(fields.split(' '));
    tshark.args(["-Y", "infiniband.bth.opcode <= 10"]);
    let output = scratch.finish(tshark).expect_success();
    let packets: Vec<Vec<_>> = output
        .lines()
        .map(|line| line.split('\t').collect())
        .collect();
    let with = |comment: &str| -> Vec<_> {
        let of_it = packets.iter().enumerate();
        of_it
            .filter(|(_, packet)| packet.get(2) == Some(&comment))
            .collect()
    };
    assert_eq!(with("duplicated: rule 2 (dup)").len(), 1, "{output}");
    let dropped = with("dropped: rule 1 (loss)");
    assert_eq!(dropped.len(), 2, "{output}");
    for (place, packet) in dropped {
        let mut later = packets[place + 1..].iter();
        assert!(
            later.any(|other| other[..2] == packet[..2]),
            "{packet:?} is sent again"
        );
    }
}

/// Goal: faults of running programs begin and end. Method: the counters of faults.
#[test]
fn faults_are_injected_into_running_programs() {
    let scratch = Scratch::new();
    let pair = Pair {
        program: "ib_write_bw",
        arguments: &["-F", "-D", "6", "-u", "10"],
        options: &[],
    };
    let running = pair.start(&scratch, &[], &[]);
    let server = running.server.id();
    let counter = |name| scratch.counter(server, name);
    eventually("traffic", TIMEOUT, || counter("rx_frames") > 1000);
    let inject = |arguments: &[&str]| {
        let arguments = [&["inject"], arguments].concat();
        scratch.finish(scratch.ferroce(&arguments)).expect_success()
    };
    inject(&["faults", "loss=1e-3,dup=1e-3,seed=2"]);
    eventually("faults", TIMEOUT, || {
        counter("fault_dropped_loss") > 0 && counter("fault_duplicated") > 0
    });
    inject(&["no-faults"]);
    running.finish();
}

/// Goal: `inject` on a program in simulated time fails, and its message names the options to use.
#[test]
fn programs_in_simulated_time_are_named_and_not_reached() {
    let scratch = Scratch::new();
    let command = scratch.run(&["--timed", "cx5-100g"], "ibv_asyncwatch", &[]);
    let watcher = Process::start(command, &scratch, "watch", PROCESS_TIMEOUT);
    let named = format!(
        "pid {}  ibv_asyncwatch  in the simulated world",
        watcher.id()
    );
    let pid = watcher.id().to_string();
    eventually("the program is named", TIMEOUT, || {
        let inject = scratch.ferroce(&["inject", "faults", "loss=1e-2", "--pid", &pid]);
        let ended = scratch.finish(inject);
        let is_named = ended.output.contains(&named);
        is_named && !ended.succeeded() && ended.output.contains("--faults PLAN")
    });
}

/// Goal: faults also apply to datagrams of RDMA CM. Method: the first one in each direction is
/// lost.
#[test]
fn a_connection_of_rdma_cm_survives_lost_datagrams() {
    let scratch = Scratch::new();
    let path = scratch.path("cm.pcapng");
    let capture = path.to_str().expect("our own name");
    let options = ["--faults", "drop=mad#1", "--capture", capture];
    let port = free_port().to_string();
    let arguments = ["-a", "127.0.0.1", "-p", &port, "-C", "5", "-V"];
    let of_role = |role: &str| {
        let arguments = [&[role], &arguments[..]].concat();
        scratch.run_rdma_cm(&options, "rping", &arguments)
    };
    run_rdma_cm_pair(&scratch, of_role("-s"), of_role("-c"));
    let bytes = std::fs::read(&path).expect("a capture");
    let text = String::from_utf8_lossy(&bytes);
    assert_eq!(text.matches("dropped: rule 1 (loss)").count(), 2);
}

/// Goal: a plan from a file works, and refusals name the error.
#[test]
fn plans_are_checked_before_the_program_runs() {
    let scratch = Scratch::new();
    let path = scratch.path("plan.toml");
    std::fs::write(
        &path,
        "seed = 3\n[[fault]]\nkind = 'delay'\nvalue = '5us'\n",
    )
    .expect("ours");
    let file = path.to_str().expect("our own name");
    let shown = scratch.run(&["--faults", file], "printenv", &["FERROCE_FAULTS"]);
    let shown = scratch.finish(shown).expect_success();
    assert_eq!(shown.trim(), "delay=5us,seed=3");
    for (plan, expected) in [
        ("loss=2", "\"2\" is not a probability above 0, up to 1"),
        ("no-such-file", "neither FAULT=VALUE nor a file"),
        ("drop=reads#3", "such as read_response#3"),
    ] {
        let ended = scratch.finish(scratch.run(&["--faults", plan], "true", &[]));
        assert!(
            !ended.succeeded() && ended.output.contains(expected),
            "{}",
            ended.output
        );
    }
}

/// Goal: the same plan in simulated time gives the same figures each time.
#[test]
fn simulated_time_has_faults_that_repeat() {
    let run = || {
        let scratch = Scratch::new();
        let perf =
            "perf write_bw --preset cx5-100g -s 64K -n 300 --faults loss=1e-3,seed=3 --json -";
        let arguments: Vec<_> = perf.split(' ').collect();
        scratch.finish(scratch.ferroce(&arguments)).expect_success()
    };
    let first = run();
    assert!(first.contains("\"fault_dropped_loss\""), "{first}");
    assert!(
        first.contains("\"faults\": \"loss=1e-3,seed=3\""),
        "{first}"
    );
    assert_eq!(first, run());
    let pair = Pair {
        program: "ib_write_bw",
        arguments: &["-F", "-n", "200"],
        options: &["--timed", "cx5-100g", "--faults", "loss=1e-3,seed=3"],
    };
    pair.run();
}
