//! The predictions of `ferroce perf` change only on purpose.

use std::fmt::Write;
use std::path::Path;

use ferroce_tests::Scratch;

/// One line each: preset, test, options, checksum of the JSON.
const EXPECTED: &str = "expected/perf_figures.txt";
const PRESETS: [&str; 10] = [
    "cx3-40g",
    "cx4lx-10g",
    "cx4lx-25g",
    "cx5-100g",
    "cx6-200g",
    "cx7-400g",
    "fpga-100g",
    "fpga-100g-u280",
    "irdma-10g",
    "nfp-6000",
];
const MESSAGES: [&str; 6] = [
    "write_bw",
    "read_bw",
    "send_bw",
    "write_lat",
    "read_lat",
    "send_lat",
];
const ATOMICS: [&str; 2] = ["atomic_bw", "atomic_lat"];

/// Returns the 64-bit FNV-1a of the lines that do not name a version, of the program or the schema.
fn checksum(json: &str) -> u64 {
    let is_version = |line: &str| line.contains("\"version\"") || line.contains("\"schema\"");
    let lines = json.lines().filter(|line| !is_version(line));
    lines
        .flat_map(str::bytes)
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
            (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
}

fn lines_of(preset: &str) -> String {
    let scratch = Scratch::new();
    let mut lines = String::new();
    let mut add = |test: &str, options: &str| {
        let mut arguments = vec!["perf", test, "--preset", preset, "--json", "-"];
        arguments.extend(options.split(' '));
        let json = scratch.finish(scratch.ferroce(&arguments)).expect_success();
        let sum = checksum(&json);
        writeln!(lines, "{preset} {test} {options}: {sum:016x}").expect("a string grows");
    };
    for test in MESSAGES {
        add(test, "-s 64 -n 500");
        add(test, "-s 64K -n 100");
    }
    for test in ATOMICS {
        add(test, "-n 500");
    }
    lines
}

/// Goal: a change of structure changes no figure. Method: ten presets and eight tests, compared by
/// checksum with those in the tree. When a change is meant to change figures, the failure prints
/// the file's new content.
#[test]
fn figures_are_as_expected() {
    let found: String = PRESETS.into_iter().map(lines_of).collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(EXPECTED);
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    let changed = found
        .lines()
        .filter(|line| !expected.lines().any(|other| other == *line));
    let changed: Vec<_> = changed.collect();
    assert!(
        found == expected,
        "{} of the figures differ from tests/{EXPECTED}: {changed:#?}\nits new content:\n{found}",
        changed.len()
    );
}
