//! Counters in sysfs, counters after the end of a program, and the table of their names.

use std::fs;
use std::process::Command;

use ferroce_spec::counter::linux;
use ferroce_tests::page::compare_part;
use ferroce_tests::{
    PROCESS_TIMEOUT, Pair, Process, Scratch, Signal, TIMEOUT, eventually, send_signal,
};

/// File of `--counters-on-exit`, in the scratch directory.
const FILE: &str = "counters.json";

/// Returns the values of a key in a document of counters, one for each function.
fn values(scratch: &Scratch, key: &str) -> Vec<u64> {
    let text = fs::read_to_string(scratch.path(FILE)).expect("the file was written");
    let key = format!("\"{key}\":");
    let lines = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix(&key));
    let values = lines.map(|value| value.trim().trim_end_matches(',').parse());
    values.map(|value| value.expect("a number")).collect()
}

#[test]
fn the_page_has_the_names_of_linux() {
    compare_part("docs/src/programs.md", "counters", &linux::markdown());
}

/// Goal: a program can read the counters of its device. Method: it reads them before and after
/// messages with known numbers of packets.
#[test]
fn a_program_reads_the_counters_of_its_device() {
    let scratch = Scratch::new();
    let program = scratch.compile("counted");
    let output = scratch
        .finish(scratch.run(&[], &program, &[]))
        .expect_success();
    assert!(output.ends_with("0 failures\n"), "{output}");
}

/// Goal: the counters belong to the device, not to one process, and never decrease. Method: a shell
/// reads them before, between and after two programs.
#[test]
fn counters_of_programs_that_have_ended_stay() {
    let scratch = Scratch::new();
    let program = scratch.compile("counted");
    let read = "cat /sys/class/infiniband/ferroce0/ports/1/counters/port_xmit_packets";
    let script = format!("{read}; {program} >&2; {read}; {program} >&2; {read}");
    let output = scratch.finish(scratch.run(&[], "sh", &["-c", &script]));
    let lines = output.expect_success();
    let counts: Vec<u64> = lines.lines().filter_map(|line| line.parse().ok()).collect();
    let [before, between, after] = counts[..] else {
        panic!("not three numbers:\n{lines}");
    };
    assert_eq!(before, 0);
    assert!(between >= 28, "{lines}");
    assert_eq!(after, 2 * between, "{lines}");
    // Another host has another device.
    let other = scratch.run(&["--host", "other"], "sh", &["-c", read]);
    assert_eq!(scratch.finish(other).expect_success(), "0\n");
}

/// Goal: the file has the counters of each function of the program, and the command returns the
/// program's status. Method: a shell with two programs, and a pair.
#[test]
fn counters_are_written_at_the_end() {
    let scratch = Scratch::new();
    let program = scratch.compile("counted");
    let file = scratch.path(FILE);
    let options = ["--counters-on-exit", file.to_str().expect("plain")];
    let script = format!("{program}; {program}; exit 7");
    let ended = scratch.finish(scratch.run(&options, "sh", &["-c", &script]));
    assert_eq!(ended.expect_end().code(), Some(7), "{}", ended.output);
    let frames = values(&scratch, "tx_frames");
    assert_eq!(frames.len(), 2, "one for each process");
    assert!(frames.iter().all(|frames| *frames >= 28), "{frames:?}");
    assert_eq!(values(&scratch, "sent_pkts"), frames);

    let pair = Pair {
        program: "ib_write_bw",
        arguments: &["-F", "-n", "500", "-s", "4096"],
        options: &[],
    };
    pair.start(&scratch, &[], &options).finish();
    // The count of 500 messages of 4096 bytes; the peer's functions do not belong to this run.
    let words = values(&scratch, "port_xmit_data");
    assert!(words.len() == 1 && words[0] >= 500 * 4096 / 4, "{words:?}");
}

/// Goal: the counters of a killed program are written, and the command passes SIGTERM on to the
/// program.
#[test]
fn signals_reach_the_program_and_counters_are_written_nevertheless() {
    for (signal, number) in [(Signal::TERM, 15), (Signal::INT, 2)] {
        let scratch = Scratch::new();
        let program = scratch.compile("counted");
        let (file, ready) = (scratch.path(FILE), scratch.path("ready"));
        let options = ["--counters-on-exit", file.to_str().expect("plain")];
        let command = scratch.run(&options, &program, &[ready.to_str().expect("plain")]);
        let command = with_default_signals(&command);
        let running = Process::start(command, &scratch, "killed", PROCESS_TIMEOUT);
        eventually("the program has counted", TIMEOUT, || ready.exists());
        send_signal(running.id(), signal);
        let ended = running.wait();
        assert_eq!(
            ended.expect_end().code(),
            Some(128 + number),
            "{}",
            ended.output
        );
        // It was idle before, so all counts were published.
        let frames = values(&scratch, "tx_frames");
        assert!(frames.len() == 1 && frames[0] >= 28, "{frames:?}");
    }
}

/// Returns the command, run by env(1), which resets SIGINT: a shell's background job ignores
/// SIGINT, and tests that it runs inherit that.
fn with_default_signals(command: &Command) -> Command {
    let mut wrapped = Command::new("env");
    wrapped.arg("--default-signal").arg(command.get_program());
    wrapped.args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => wrapped.env(name, value),
            None => wrapped.env_remove(name),
        };
    }
    wrapped
}

#[test]
fn a_file_that_cannot_be_written_is_refused_before_the_program_runs() {
    let scratch = Scratch::new();
    let options = ["--counters-on-exit", "/no/such/folder/file"];
    let ended = scratch.finish(scratch.run(&options, "echo", &["it runs"]));
    assert_eq!(ended.expect_end().code(), Some(125));
    assert!(
        ended.output.contains("/no/such/folder/file"),
        "{}",
        ended.output
    );
    assert!(!ended.output.contains("it runs"), "{}", ended.output);
}
