//! Records of the real commands and programs, and `ferroce trace`.

use std::path::Path;

use ferroce_test_support::{Signal, free_port};
use ferroce_tests::{Ended, PROCESS_TIMEOUT, Pair, Process, Scratch, Served};

/// Exit codes of `ferroce trace diff`.
const SAME: i32 = 0;
const DIFFERENT: i32 = 1;
const TROUBLE: i32 = 2;

/// A stage that sends a fixed number of messages, and the stages that it needs.
const STAGES: &[&str] = &["--stage", "loopback,counters"];

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Runs `ferroce selftest` with a record of this name.
fn self_test(scratch: &Scratch, name: &str, more: &[&str]) -> String {
    let path = text(&scratch.path(name));
    let arguments = [&["selftest", "--record", &path], STAGES, more].concat();
    scratch.finish(scratch.ferroce(&arguments)).expect_success();
    path
}

fn diff(scratch: &Scratch, arguments: &[&str]) -> (String, Option<i32>) {
    let arguments = [&["trace", "diff"], arguments].concat();
    let ended: Ended = scratch.finish(scratch.ferroce(&arguments));
    let code = ended.status.and_then(|status| status.code());
    (ended.output, code)
}

#[test]
fn two_runs_of_the_self_test_are_the_same() {
    let scratch = Scratch::new();
    let a = self_test(&scratch, "a.rec", &[]);
    let b = self_test(&scratch, "b.rec", &[]);
    let (output, code) = diff(&scratch, &[&a, &b]);
    assert_eq!(code, Some(SAME), "{output}");
    assert!(output.contains("0 streams differ"), "{output}");
    let (output, code) = diff(&scratch, &[&a, &b, "--strict", "time"]);
    assert_eq!(code, Some(DIFFERENT), "{output}");
    assert!(output.contains("timestamp"), "{output}");
}

/// Goal: a driver's record of a card, and a capture of its wire, can be compared with a record of
/// the model. Method: a model on a socket plays the card.
#[test]
fn the_driver_s_side_and_a_capture_are_the_same_as_the_model() {
    let scratch = Scratch::new();
    let a = self_test(&scratch, "a.rec", &[]);
    let capture = text(&scratch.path("wire.pcapng"));
    let served = Served::start_with(&scratch, 1, &["--capture", &capture]);
    let b = self_test(&scratch, "b.rec", &["--device", &served.device(0)]);
    let (output, code) = diff(&scratch, &[&a, &b, "--capture-b", &capture]);
    assert_eq!(code, Some(SAME), "{output}");
    for word in ["driver's side of the bus", "not compared: memory"] {
        assert!(output.contains(word), "no {word}: {output}");
    }
    assert!(!output.contains("not compared: frames"), "{output}");
}

/// Goal: both ends of perftest can be compared, and an additional message is found at its place.
#[test]
fn perftest_differs_by_the_message_that_is_more() {
    let scratch = Scratch::new();
    let record = |name: &str, iterations: &str| {
        let ends = [format!("{name}-server.rec"), format!("{name}.rec")];
        let [server, client] = ends.map(|end| text(&scratch.path(&end)));
        let pair = Pair {
            program: "ib_write_bw",
            arguments: &["-n", iterations, "-s", "65536"],
            options: &[],
        };
        let running = pair.start(&scratch, &["--record", &server], &["--record", &client]);
        running.finish();
        client
    };
    let a = record("a", "20");
    let b = record("b", "20");
    let more = record("c", "21");
    let (output, code) = diff(&scratch, &[&a, &b, "--without-payload"]);
    assert_eq!(code, Some(SAME), "{output}");
    let (output, code) = diff(&scratch, &[&a, &more, "--without-payload"]);
    assert_eq!(code, Some(DIFFERENT), "{output}");
    let packets = 20 * 65536 / 4096;
    let expected = format!("only B has request sent {packets} of QP 1");
    assert!(output.contains(&expected), "no {expected}: {output}");
}

#[test]
fn a_killed_program_leaves_a_record_that_can_be_read() {
    let scratch = Scratch::new();
    let path = text(&scratch.path("killed.rec"));
    let port = free_port().to_string();
    let arguments = ["-g", "0", "-p", &port];
    let command = scratch.run(&["--record", &path], "ibv_rc_pingpong", &arguments);
    let mut process = Process::start(command, &scratch, "killed", PROCESS_TIMEOUT);
    process.wait_for_output("the record has been written", |_| {
        let length = std::fs::metadata(&path).map_or(0, |file| file.len());
        (length > 4096).then_some(())
    });
    process.signal(Signal::KILL);
    process.wait();
    let shown = scratch.finish(scratch.ferroce(&["trace", "show", &path]));
    let output = shown.expect_success();
    assert!(output.contains("command: opcode CREATE_EQ"), "{output}");
    assert!(
        output.contains("ends here: the program was killed"),
        "{output}"
    );
}

#[test]
fn what_is_no_record_is_refused_in_words() {
    let scratch = Scratch::new();
    let letter = text(&scratch.path("letter"));
    std::fs::write(&letter, "Dear reader,").expect("new");
    let (output, code) = diff(&scratch, &[&letter, &letter]);
    assert_eq!(code, Some(TROUBLE), "{output}");
    assert!(output.contains("is no record of Ferroce"), "{output}");
    let arguments = ["run", "--record", &letter, "--", "true"];
    let ended = scratch.finish(scratch.ferroce(&arguments));
    assert!(
        ended.output.contains("exists, and is no record"),
        "{ended:?}"
    );
    assert!(!ended.succeeded());
}
