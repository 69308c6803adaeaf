//! Situations of a peer, by their names: what an unmodified program sees when its peer gets into
//! one, as `ferroce inject` and plans bring it about, with the values of a ConnectX.

use ferroce_tests::{Pair, RunningPair, Scratch, TIMEOUT};

/// Options of the functional model.
const FUNCTIONAL: [&str; 2] = ["--personality", "mlx5"];
/// Requests of a pair, one every millisecond: more than pass before a situation.
const MANY: &str = "30000";
/// With these values of the QP, a ConnectX reports a dead peer after this time.
const TIMEOUT_AND_RETRIES: [&str; 2] = ["14", "3"];
const DEAD_AFTER_MS: f64 = 1514.3;
/// Largest relative error of a time.
const TOLERANCE: f64 = 0.05;

/// Completions, as `tests/c/situations.c` prints them.
const RETRY_EXCEEDED: [&str; 2] = ["status 12", "vendor_err 0x81"];
const REMOTE_ACCESS: [&str; 2] = ["status 10", "vendor_err 0x88"];
const RNR_RETRY_EXCEEDED: [&str; 2] = ["status 13", "vendor_err 0x87"];

/// A situation, and what it leads to.
struct Case {
    operation: &'static str,
    /// As the arguments of `ferroce inject`.
    injected: &'static [&'static str],
    requester: &'static [&'static str],
    victim: &'static [&'static str],
}

const CASES: [Case; 9] = [
    Case {
        operation: "write",
        injected: &["peer-qp-error"],
        requester: &RETRY_EXCEEDED,
        victim: &["own status 5", "own vendor_err 0xf5", "state 6"],
    },
    Case {
        operation: "write",
        injected: &["mr-gone"],
        requester: &REMOTE_ACCESS,
        victim: &["state 6", "0 failures"],
    },
    Case {
        operation: "read",
        injected: &["mr-gone"],
        requester: &REMOTE_ACCESS,
        victim: &["0 failures"],
    },
    Case {
        operation: "send",
        injected: &["no-receive"],
        requester: &RNR_RETRY_EXCEEDED,
        victim: &["state 3", "0 failures"],
    },
    Case {
        operation: "write",
        injected: &["link-down"],
        requester: &RETRY_EXCEEDED,
        victim: &["event port error", "state 3"],
    },
    Case {
        operation: "send",
        injected: &["peer-stopped", "4s"],
        requester: &RNR_RETRY_EXCEEDED,
        victim: &["state 3", "0 failures"],
    },
    Case {
        operation: "write",
        injected: &["peer-killed", "qp-first"],
        requester: &RETRY_EXCEEDED,
        victim: &[],
    },
    Case {
        operation: "write",
        injected: &["peer-killed", "mr-first/1s"],
        requester: &REMOTE_ACCESS,
        victim: &[],
    },
    Case {
        operation: "read",
        injected: &["peer-killed", "mr-first/1s"],
        requester: &REMOTE_ACCESS,
        victim: &[],
    },
];

/// Starts a pair whose requester ends after a failure, or after `requests`.
fn start<'a>(
    scratch: &'a Scratch,
    options: &[&str],
    operation: &str,
    requests: &str,
    rnr_retry: &str,
) -> RunningPair<'a> {
    let program = scratch.compile("situations");
    let [timeout, retry_cnt] = TIMEOUT_AND_RETRIES;
    let arguments = [operation, timeout, retry_cnt, rnr_retry, requests];
    let pair = Pair {
        program: &program,
        arguments: &arguments,
        options,
    };
    pair.start(scratch, options, options)
}

/// Injects into the victim of a pair once requests pass.
fn inject(scratch: &Scratch, pair: &mut RunningPair<'_>, words: &[&str]) {
    pair.client.expect_output("ready");
    let pid = pair.server.id().to_string();
    let arguments = [&["inject"], words, &["--pid", &pid]].concat();
    let output = scratch.finish(scratch.ferroce(&arguments)).expect_success();
    assert!(output.contains(": done"), "{words:?}: {output}");
}

/// Returns what follows a word at the begin of a line.
fn value(output: &str, word: &str) -> f64 {
    let found = output.lines().find_map(|line| line.strip_prefix(word));
    let found = found.and_then(|text| text.split(' ').next());
    let number = found.and_then(|text| text.parse().ok());
    number.unwrap_or_else(|| panic!("no line {word}…:\n{output}"))
}

/// Checks what both sides of a pair print.
fn check(case: &Case, pair: RunningPair<'_>) {
    let what = format!("{} {:?}", case.operation, case.injected);
    let RunningPair {
        mut server,
        mut client,
        ..
    } = pair;
    client.hurry(TIMEOUT);
    let requester = client.wait();
    let output = requester.expect_success();
    for line in case.requester {
        assert!(output.contains(line), "{what}: no {line}\n{output}");
    }
    if case.requester == RETRY_EXCEEDED {
        let error = value(&output, "after ") / DEAD_AFTER_MS - 1.0;
        assert!(error.abs() < TOLERANCE, "{what}:\n{output}");
    }
    server.hurry(TIMEOUT);
    let victim = server.wait();
    assert_eq!(victim.succeeded(), !case.victim.is_empty(), "{victim:?}");
    for line in case.victim {
        assert!(
            victim.output.contains(line),
            "{what}: no {line}\n{victim:?}"
        );
    }
}

/// Goal: `ferroce inject` brings about each situation.
#[test]
fn injected_into_a_running_program() {
    for case in &CASES {
        let scratch = Scratch::new();
        let mut pair = start(&scratch, &FUNCTIONAL, case.operation, MANY, "0");
        inject(&scratch, &mut pair, case.injected);
        check(case, pair);
    }
}

/// Goal: the card of a stopped program goes on; the program does not, and continues later.
#[test]
fn a_stopped_program_continues() {
    let scratch = Scratch::new();
    let mut pair = start(&scratch, &FUNCTIONAL, "write", "2000", "7");
    inject(&scratch, &mut pair, &["peer-stopped", "1s"]);
    let (victim, requester) = pair.finish();
    assert!(requester.contains("status 0"), "{requester}");
    assert!(value(&requester, "longest ") < 500.0, "{requester}");
    assert!(value(&victim, "pause ") >= 990.0, "{victim}");
}

/// Goal: a SEND that waits for a receive ends after the situation, and `no-faults` ends it, too.
#[test]
fn receives_come_back() {
    for last in [Some("no-faults"), None] {
        let scratch = Scratch::new();
        let mut pair = start(&scratch, &FUNCTIONAL, "send", "1500", "7");
        let time = if last.is_some() { "100s" } else { "500ms" };
        inject(&scratch, &mut pair, &["no-receive", time]);
        if let Some(last) = last {
            inject(&scratch, &mut pair, &[last]);
        }
        let (_, requester) = pair.finish();
        assert!(requester.contains("status 0"), "{requester}");
        let longest = value(&requester, "longest ");
        assert!(last.is_some() || longest > 400.0, "{requester}");
    }
}

/// Goal: each mistake is named, with what would be right.
#[test]
fn mistakes_are_named() {
    let scratch = Scratch::new();
    for (words, expected) in [
        (&["peer-killed"][..], "<VALUE>"),
        (&["peer-killed", "first"], "qp-first or mr-first"),
        (&["peer-killed", "qp-first/1s"], "qp-first or mr-first"),
        (&["peer-stopped", "4"], "a time with its unit"),
        (&["no-receive", "soon"], "or nothing"),
        (&["mr-gone", "4s"], "it happens once"),
        (&["port-down", "4s"], "has no value"),
        (&["no-faults", "4s"], "has no value"),
        (&["link-gone"], "link-down"),
    ] {
        let arguments = [&["inject"], words].concat();
        let ended = scratch.finish(scratch.ferroce(&arguments));
        assert!(!ended.succeeded(), "{words:?}");
        assert!(ended.output.contains(expected), "{words:?}: {ended:?}");
    }
}
