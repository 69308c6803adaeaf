//! Situations of a peer, by their names: what an unmodified program sees when its peer gets into
//! one, as `ferroce inject` and plans bring it about, with the values of a ConnectX.

use ferroce_tests::{Pair, RunningPair, Scratch, Served, TIMEOUT, eventually};

/// Options of the functional model.
const FUNCTIONAL: [&str; 2] = ["--personality", "mlx5"];
/// Options of a card in simulated time.
const TIMED: [&str; 2] = ["--timed", "cx6-200g"];
/// The host of the first program in simulated time.
const VICTIM: &str = "@at:10.0.0.1";
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

/// What a program prints when its address is removed: errors are those of Linux, and the queue pair
/// fails later.
const ADDRESS_GONE: [&str; 12] = [
    "event GID table change",
    "state at the event 3",
    "query_gid_ex 61",
    "query_gid_table lacks it",
    "modify_qp 22",
    "create_ah 22",
    "gids 0000:0000:0000:0000:0000:0000:0000:0000",
    "gid_attrs/types error 22",
    "gid_attrs/ndevs error 22",
    "the address is gone",
    "own status 12",
    "own vendor_err 0x81",
];

/// A situation, and what it leads to.
struct Case {
    operation: &'static str,
    /// As the arguments of `ferroce inject`.
    injected: &'static [&'static str],
    plan: &'static str,
    requester: &'static [&'static str],
    victim: &'static [&'static str],
}

const CASES: [Case; 10] = [
    Case {
        operation: "write",
        injected: &["peer-qp-error"],
        plan: "peer-qp-error=5ms",
        requester: &RETRY_EXCEEDED,
        victim: &["own status 5", "own vendor_err 0xf5", "state 6"],
    },
    Case {
        operation: "write",
        injected: &["mr-gone"],
        plan: "mr-gone=5ms",
        requester: &REMOTE_ACCESS,
        victim: &["state 6", "0 failures"],
    },
    Case {
        operation: "read",
        injected: &["mr-gone"],
        plan: "mr-gone=5ms",
        requester: &REMOTE_ACCESS,
        victim: &["0 failures"],
    },
    Case {
        operation: "send",
        injected: &["no-receive"],
        plan: "no-receive=5ms..",
        requester: &RNR_RETRY_EXCEEDED,
        victim: &["state 3", "0 failures"],
    },
    Case {
        operation: "write",
        injected: &["link-down"],
        plan: "link-down=5ms..10s",
        requester: &RETRY_EXCEEDED,
        victim: &["event port error", "state 3"],
    },
    Case {
        operation: "write",
        injected: &["address-gone"],
        plan: "address-gone=5ms..10s",
        requester: &RETRY_EXCEEDED,
        victim: &ADDRESS_GONE,
    },
    Case {
        operation: "send",
        injected: &["peer-stopped", "4s"],
        plan: "peer-stopped=5ms..4s",
        requester: &RNR_RETRY_EXCEEDED,
        victim: &["state 3", "0 failures"],
    },
    Case {
        operation: "write",
        injected: &["peer-killed", "qp-first"],
        plan: "peer-killed=5ms/qp-first",
        requester: &RETRY_EXCEEDED,
        victim: &[],
    },
    Case {
        operation: "write",
        injected: &["peer-killed", "mr-first/1s"],
        plan: "peer-killed=5ms/mr-first/1s",
        requester: &REMOTE_ACCESS,
        victim: &[],
    },
    Case {
        operation: "read",
        injected: &["peer-killed", "mr-first/1s"],
        plan: "peer-killed=5ms/mr-first/1s",
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
    start_with(scratch, [options, options], operation, requests, rnr_retry)
}

/// As [`start`], with options of the victim and of the requester.
fn start_with<'a>(
    scratch: &'a Scratch,
    options: [&[&str]; 2],
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
        options: &[],
    };
    let [victim, requester] = options;
    pair.start(scratch, victim, requester)
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

/// Checks that the time behind a word is that after which a ConnectX reports a dead peer.
fn check_time(output: &str, word: &str, what: &str) {
    let error = value(output, word) / DEAD_AFTER_MS - 1.0;
    assert!(error.abs() < TOLERANCE, "{what}:\n{output}");
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
        check_time(&output, "after ", &what);
    }
    server.hurry(TIMEOUT);
    let victim = server.wait();
    assert_eq!(victim.succeeded(), !case.victim.is_empty(), "{victim:?}");
    if case.victim == ADDRESS_GONE {
        check_time(&victim.output, "the event came ", &what);
        check_time(&victim.output, "own after ", &what);
    }
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

/// Goal: a plan brings about each situation at its time, in real time. Method: the plan is that of
/// the victim alone.
#[test]
fn planned_in_real_time() {
    for case in &CASES {
        let scratch = Scratch::new();
        let victim = [&FUNCTIONAL[..], &["--faults", case.plan]].concat();
        let options = [&victim[..], &FUNCTIONAL[..]];
        let pair = start_with(&scratch, options, case.operation, MANY, "0");
        check(case, pair);
    }
}

/// Goal: a plan brings about each situation at its time in simulated time.
#[test]
fn planned_in_simulated_time() {
    for case in &CASES {
        let scratch = Scratch::new();
        let plan = format!("{}{VICTIM}", case.plan);
        let options = [&TIMED[..], &["--faults", &plan]].concat();
        let pair = start(&scratch, &options, case.operation, MANY, "0");
        check(case, pair);
    }
}

/// Goal: a program is stopped for exactly its time in simulated time, and its card goes on.
#[test]
fn a_stop_in_simulated_time_is_exact() {
    let scratch = Scratch::new();
    let plan = format!("peer-stopped=5ms..1005ms{VICTIM}");
    let options = [&TIMED[..], &["--faults", &plan]].concat();
    let pair = start(&scratch, &options, "write", "1500", "7");
    let (victim, requester) = pair.finish();
    assert!(requester.contains("status 0"), "{requester}");
    assert!(value(&requester, "longest ") < 0.1, "{requester}");
    let pause_ms = value(&victim, "pause ");
    assert!((1000.0..1001.0).contains(&pause_ms), "{victim}");
}

/// Goal: an unmodified benchmark reports the values of a ConnectX when its peer dies.
#[test]
fn perftest_shows_them() {
    for (words, status) in [
        (["peer-killed", "qp-first"], "syndrom 0x81"),
        (["peer-killed", "mr-first/1s"], "syndrom 0x88"),
    ] {
        let scratch = Scratch::new();
        let pair = Pair {
            program: "ib_write_bw",
            arguments: &["-F", "-D", "100", "-s", "4096"],
            options: &FUNCTIONAL,
        };
        let mut pair = pair.start(&scratch, &FUNCTIONAL, &FUNCTIONAL);
        let pid = pair.server.id();
        eventually("requests pass", TIMEOUT, || {
            scratch.counter(pair.client.id(), "tx_frames") > 1000
        });
        let pid = pid.to_string();
        let arguments = [&["inject"], &words[..], &["--pid", &pid]].concat();
        scratch.finish(scratch.ferroce(&arguments)).expect_success();
        pair.client.hurry(TIMEOUT);
        let ended = pair.client.wait();
        assert!(ended.output.contains(status), "{words:?}: {ended:?}");
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

/// Goal: a request under way succeeds once the address of the victim is back: after a time, and by
/// `no-faults`.
#[test]
fn addresses_come_back() {
    for last in [Some("no-faults"), None] {
        let scratch = Scratch::new();
        let mut pair = start(&scratch, &FUNCTIONAL, "write", "1500", "7");
        let time = if last.is_some() { "100s" } else { "500ms" };
        inject(&scratch, &mut pair, &["address-gone", time]);
        if let Some(last) = last {
            pair.server.expect_output("the address is gone");
            inject(&scratch, &mut pair, &[last]);
        }
        check_return(pair);
    }
}

/// Goal: the same in simulated time.
#[test]
fn addresses_come_back_in_simulated_time() {
    let scratch = Scratch::new();
    let plan = format!("address-gone=5ms..505ms{VICTIM}");
    let options = [&TIMED[..], &["--faults", &plan]].concat();
    let pair = start(&scratch, &options, "write", "1500", "7");
    let requester = check_return(pair);
    assert!(value(&requester, "longest ") >= 500.0, "{requester}");
}

/// Checks that no request of a pair has failed although the victim lost its address, and returns
/// what the requester prints.
fn check_return(pair: RunningPair<'_>) -> String {
    let (victim, requester) = pair.finish();
    assert!(requester.contains("status 0"), "{requester}");
    for line in [
        "the address is gone",
        "the address is back",
        "own status 0",
        "gid_attrs/types RoCE v2",
        "query_gid_ex 0",
        "modify_qp 0",
        "create_ah 0",
    ] {
        assert!(victim.contains(line), "no {line}\n{victim}");
    }
    requester
}

/// Goal: what happens to a process is refused for a function that another process uses, with what
/// does it instead; what happens to its objects is not.
#[test]
fn the_process_behind_a_served_function_is_left_alone() {
    let scratch = Scratch::new();
    let served = Served::start(&scratch, 1);
    let pid = served.process.id().to_string();
    for (words, is_refused) in [
        (&["peer-killed", "mr-first"][..], true),
        (&["peer-stopped", "4s"], true),
        (&["faults", "peer-killed=5ms/qp-first"], true),
        (&["faults", "mr-gone=5ms"], false),
        (&["no-receive", "4s"], false),
        (&["address-gone", "4s"], false),
    ] {
        let arguments = [&["inject"], words, &["--pid", &pid]].concat();
        let ended = scratch.finish(scratch.ferroce(&arguments));
        assert_eq!(ended.succeeded(), !is_refused, "{words:?}: {ended:?}");
        assert!(
            !is_refused || ended.output.contains("`kill -KILL`"),
            "{ended:?}"
        );
    }
}

/// Goal: commands without programs refuse situations.
#[test]
fn loops_without_programs_refuse_situations() {
    let scratch = Scratch::new();
    let plan = ["--faults", "mr-gone=5ms"];
    for command in [
        &["perf", "write_bw", "--preset", "cx5-100g"][..],
        &["sim"],
        &["sim", "--seeds", "2"],
    ] {
        let arguments = [command, &plan].concat();
        let ended = scratch.finish(scratch.ferroce(&arguments));
        assert!(!ended.succeeded(), "{command:?}");
        let expected = "mr-gone happens to a program";
        assert!(ended.output.contains(expected), "{command:?}: {ended:?}");
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
        (&["address-gone", "4"], "or nothing"),
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
