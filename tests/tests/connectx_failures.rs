//! A card with the personality mlx5 fails as ConnectX-5 and ConnectX-6 were measured to fail: each
//! row of both tables, by an unmodified program, in simulated time and in the functional model.

use std::fs;

use ferroce_tests::page::compare_part;
use ferroce_tests::{Pair, Scratch};

/// Options of a card in simulated time.
const TIMED: [&str; 2] = ["--timed", "cx6-200g"];
/// Options of the functional model.
const FUNCTIONAL: [&str; 2] = ["--personality", "mlx5"];
/// Largest relative error of a time, in percent.
const TOLERANCE_PERCENT: f64 = 5.0;
/// Names of counters that only rxe has: the model shows them, too.
const NOT_OF_MLX5: [&str; 6] = [
    "sent_pkts",
    "rcvd_pkts",
    "out_of_seq_request",
    "rcvd_rnr_err",
    "rcvd_seq_err",
    "send_rnr_err",
];
/// Request packets of the valid WRITE before each measured failure.
const VALID_PACKETS: u64 = 1;

/// The program's name for each scenario of the table.
const SITUATIONS: [(&str, &str); 8] = [
    ("SGE longer than its memory region", "sge-beyond-region"),
    ("lkey unknown", "lkey-unknown"),
    (
        "READ into a region without LOCAL_WRITE",
        "read-without-local-write",
    ),
    ("own QP moved to ERR", "own-error"),
    ("region without REMOTE_WRITE", "no-remote-write"),
    ("rkey unknown", "rkey-unknown"),
    ("no receive posted", "no-receive"),
    ("peer's QP moved to ERR", "peer-error"),
];

/// Returns the rows of a table; the first one has the names of the columns.
fn rows(table: &str) -> Vec<Vec<String>> {
    let path = format!(
        "{}/../sim/lab/reference/{table}",
        env!("CARGO_MANIFEST_DIR")
    );
    let text = fs::read_to_string(path).expect("a table of the project");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| line.split(',').map(str::to_owned).collect())
        .collect()
}

/// What both sides have printed.
struct Failure {
    responder: String,
    requester: String,
}

impl Failure {
    fn run(program: &str, scratch: &Scratch, options: &[&str], arguments: &[&str]) -> Self {
        let pair = Pair {
            program,
            arguments,
            options,
        };
        // A device's counters add up all programs of its host.
        let on_host = |name| match options.first() {
            Some(&"--timed") => options.to_vec(),
            _ => [options, &["--host", name]].concat(),
        };
        let running = pair.start(scratch, &on_host("a"), &on_host("b"));
        let (responder, requester) = running.finish();
        Self {
            responder,
            requester,
        }
    }

    /// Returns the time until the completion.
    fn ms(&self) -> f64 {
        let text = value(&self.requester, "after ");
        let number = text.split(' ').next().expect("a first word");
        number.parse().expect("milliseconds")
    }
}

/// Returns what follows a word at the begin of a line.
fn value<'a>(output: &'a str, word: &str) -> &'a str {
    let found = output.lines().find_map(|line| line.strip_prefix(word));
    found.unwrap_or_else(|| panic!("no line {word}…:\n{output}"))
}

/// Returns by how much a counter has moved.
fn moved(output: &str, counter: &str) -> u64 {
    let line = output
        .lines()
        .find_map(|line| line.strip_prefix(counter)?.strip_prefix(" +"));
    line.map_or(0, |amount| amount.parse().expect("a number"))
}

/// Returns the counters of mlx5 that have moved, in alphabetical order, as the tables have them.
fn all_moved(output: &str) -> Vec<String> {
    let lines = output.lines().filter(|line| line.contains(" +"));
    let names = lines.filter(|line| {
        let name = line.split(' ').next().unwrap_or_default();
        !NOT_OF_MLX5.contains(&name)
    });
    let mut all: Vec<_> = names.map(|line| line.replace(' ', "")).collect();
    all.sort();
    all
}

/// Returns true if a number is that of the table, which is one number or a range.
fn fits(measured: &str, found: u64) -> bool {
    let (low, high) = measured
        .split_once(" to ")
        .or_else(|| measured.split_once('-'))
        .unwrap_or((measured, measured));
    let number = |text: &str| text.parse::<u64>().expect("a number of the table");
    (number(low)..=number(high)).contains(&found)
}

/// Goal: a dead peer is reported after the time that a ConnectX-6 takes, with its counters.
#[test]
fn time_outs_are_those_of_the_table() {
    let scratch = Scratch::new();
    let program = scratch.compile("failures");
    let mut table =
        "| limit | T | R | measured, ms | here, ms |\n| --- | --: | --: | --: | --: |\n".to_owned();
    for row in &rows("cx6_ack_timeout.csv")[1..] {
        let [
            floor,
            timeout,
            retries,
            _,
            median_ms,
            _,
            _,
            adaptive,
            regular,
            sent,
        ] = &row[..]
        else {
            panic!("another table: {row:?}");
        };
        let limit = format!("transport.ack_timeout_limit={}", floor == "on");
        let options = [&TIMED[..], &["--set", &limit]].concat();
        let arguments = ["peer-error", timeout, retries];
        let failure = Failure::run(&program, &scratch, &options, &arguments);
        let (ms, median_ms) = (failure.ms(), median_ms.parse::<f64>().expect("a median"));
        let error_percent = (ms / median_ms - 1.0).abs() * 100.0;
        assert!(error_percent < TOLERANCE_PERCENT, "{row:?}: {ms} ms");
        let output = &failure.requester;
        table += &format!("| {floor} | {timeout} | {retries} | {median_ms} | {ms:.1} |\n");
        for (counter, measured) in [
            ("roce_adp_retrans", adaptive),
            ("local_ack_timeout_err", regular),
        ] {
            assert!(fits(measured, moved(output, counter)), "{row:?}:\n{output}");
        }
        let packets: u64 = value(output, "packets ").parse().expect("a number");
        assert!(fits(sent, packets - VALID_PACKETS), "{row:?}:\n{output}");
        assert_eq!(value(output, "next vendor_err "), "0xf9", "{row:?}");
    }
    compare_part("docs/src/connectx-failures.md", "time-outs", &table);
}

/// Goal: status, `vendor_err`, counters, packets and state of each scenario are those of the table.
fn check_signatures(options: &[&str]) {
    let scratch = Scratch::new();
    let program = scratch.compile("failures");
    let mut differences = Vec::new();
    for row in &rows("cx6_fault_signatures.csv")[1..] {
        let [
            scenario,
            _,
            status,
            vendor_error,
            own,
            peers,
            sent,
            answered,
            state,
        ] = &row[..]
        else {
            panic!("another table: {row:?}");
        };
        let known = SITUATIONS
            .iter()
            .find(|(name, _)| scenario.starts_with(name));
        let (_, situation) = known.unwrap_or_else(|| panic!("a new scenario: {scenario}"));
        let failure = Failure::run(&program, &scratch, options, &[situation, "14", "7"]);
        let mut compare = |what: &str, measured: &str, found: &str, is_equal: bool| {
            println!("{scenario}: {what}: measured {measured}, found {found}");
            if !is_equal {
                differences.push(format!("{scenario}: {what}: {measured}, found {found}"));
            }
        };
        let output = &failure.requester;
        let found = value(output, "status ");
        let measured = status.split(' ').next().expect("a number");
        compare("status", measured, found, measured == found);
        let found = value(output, "vendor_err ");
        compare("vendor_err", vendor_error, found, vendor_error == found);
        for (side, measured, output) in [("own", own, output), ("peer", peers, &failure.responder)]
        {
            let measured = measured.split(" (").next().expect("a first part");
            let mut expected: Vec<_> = measured.split_whitespace().map(str::to_owned).collect();
            expected.sort();
            // The two tables differ: 8 adaptive retransmissions here, 4 to 7 in the other one.
            let text = all_moved(output).join(" ");
            let found = text.replace("roce_adp_retrans+6", "roce_adp_retrans+8");
            let expected = expected.join(" ");
            compare(
                &format!("{side} counters"),
                &expected,
                &text,
                expected == found,
            );
        }
        let adaptive = moved(output, "roce_adp_retrans");
        for (what, measured, output, more) in [
            ("packets", sent, output, 8u64.saturating_sub(adaptive)),
            ("answers", answered, &failure.responder, 0),
        ] {
            let found: u64 = value(output, "packets ").parse().expect("a number");
            let more = if adaptive > 0 { more } else { 0 };
            let is_equal = fits(measured, found + more);
            compare(what, measured, &found.to_string(), is_equal);
        }
        if !state.is_empty() {
            let found = match value(&failure.responder, "state ") {
                "3" => "RTS",
                "6" => "ERR",
                other => other,
            };
            compare("responder's QP", state, found, state == found);
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn signatures_in_simulated_time() {
    check_signatures(&TIMED);
}

#[test]
fn signatures_of_the_functional_model() {
    check_signatures(&FUNCTIONAL);
}

/// Goal: of a WRITE that crosses the end of its region, the packets inside are written; our own
/// card writes nothing.
#[test]
fn a_write_across_the_end_of_a_region() {
    let scratch = Scratch::new();
    let program = scratch.compile("failures");
    let arguments = ["write-across-end", "14", "7"];
    for (options, status, vendor_error, written) in [
        (&TIMED[..], "10", "0x88", "1"),
        (&FUNCTIONAL[..], "10", "0x88", "1"),
        (&[], "10", "0x51", "0"),
    ] {
        let failure = Failure::run(&program, &scratch, options, &arguments);
        assert_eq!(value(&failure.requester, "status "), status);
        assert_eq!(value(&failure.requester, "vendor_err "), vendor_error);
        assert_eq!(value(&failure.responder, "written "), written);
    }
}
