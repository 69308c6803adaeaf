//! `ferroce run --explain-errors`: its output for twenty refused verbs and ten failed completions,
//! and the page of the book that shows it.

use ferroce_spec::cqe::VendorError;
use ferroce_tests::Scratch;
use ferroce_tests::page::compare_part;

/// The page.
const PAGE: &str = "docs/src/errors.md";

/// Returns the output about a program of `tests/c`, without lines of other programs.
fn said_about(name: &str) -> String {
    let scratch = Scratch::new();
    let program = scratch.compile(name);
    let command = scratch.run(&["--explain-errors"], &program, &[]);
    let output = scratch.finish(command).expect_success();
    assert!(output.contains("0 failures\n"), "{output}");
    let lines = output.lines().filter(|line| *line != "0 failures");
    lines
        .map(|line| format!("{}\n", without_numbers(line)))
        .collect()
}

/// Replaces keys and QPNs, which depend on the programs that ran before.
fn without_numbers(line: &str) -> String {
    let (mut shown, mut rest) = (String::new(), line);
    while let Some(start) = ["key 0x", "QP 0x"]
        .iter()
        .filter_map(|name| Some(rest.find(name)? + name.len()))
        .min()
    {
        shown += &rest[..start];
        shown.push('…');
        rest = rest[start..].trim_start_matches(|c: char| c.is_ascii_hexdigit());
    }
    shown + rest
}

/// Returns the number of occurrences that the lines with `word` report.
fn count(said: &str, word: &str) -> u64 {
    let lines = said.lines().filter(|line| line.contains(word));
    let counts =
        lines.filter_map(|line| line.trim_start().split(" x ").next()?.parse::<u64>().ok());
    counts.sum()
}

/// Goal: the page lists each vendor_err. Method: the table is generated from the contract.
#[test]
fn the_table_of_vendor_err_is_that_of_the_contract() {
    let mut table = "| vendor_err | name | meaning |\n| --- | --- | --- |\n".to_owned();
    for value in VendorError::TABLE.values {
        let (number, name, meaning) = (value.value, value.name, value.meaning.trim());
        table += &format!("| {number:#04x} | `{name}` | {meaning} |\n");
    }
    compare_part(PAGE, "vendor_err", &table);
}

#[test]
fn twenty_wrong_verbs_are_named_with_argument_value_and_limit() {
    let said = said_about("refused");
    assert_eq!(count(&said, " x ibv_"), 20, "{said}");
    compare_part(PAGE, "refused", &format!("```text\n{said}```\n"));
}

#[test]
fn ten_failed_completions_are_explained() {
    let said = said_about("failed");
    assert!(count(&said, " x IBV_WC_") >= 10, "{said}");
    compare_part(PAGE, "failed", &format!("```text\n{said}```\n"));
}

/// Goal: the usual diagnostics print the same lines while the program runs, one for each refused
/// verb.
#[test]
fn each_refused_verb_has_one_line_at_level_info() {
    let scratch = Scratch::new();
    let program = scratch.compile("refused");
    let mut command = scratch.run(&[], &program, &[]);
    command.env("FERROCE_LOG", "ferroce::refused=info");
    let output = scratch.finish(command).expect_success();
    let lines = output
        .lines()
        .filter(|line| line.contains("ferroce::refused: ibv_"));
    assert_eq!(lines.count(), 20, "{output}");
}

/// Goal: the command returns the program's status. Method: an exit code, and a signal.
#[test]
fn the_status_of_the_program_is_passed_on() {
    let scratch = Scratch::new();
    for (script, expected) in [("exit 7", 7), ("kill -9 $$", 128 + 9)] {
        let command = scratch.run(&["--explain-errors"], "sh", &["-c", script]);
        let ended = scratch.finish(command);
        assert_eq!(ended.expect_end().code(), Some(expected), "{script}");
    }
}

/// Goal: a program that is linked against libmlx5 gets a message that names its unsupported calls.
/// Method: calls of several kinds on a device that is not a ConnectX.
#[test]
fn calls_of_libmlx5_are_refused_by_name() {
    let scratch = Scratch::new();
    let program = scratch.compile_with("direct_verbs", &["-Wl,--no-as-needed", "-lmlx5"]);
    let command = scratch.run(&["--explain-errors"], &program, &[]);
    let output = scratch.finish(command).expect_success();
    assert!(output.contains("0 failures\n"), "{output}");
    for name in [
        "open_device",
        "query_device",
        "create_qp",
        "devx_alloc_uar",
        "dr_domain_create",
        "devx_query_eqn",
        "init_obj",
    ] {
        let line = format!("1 x mlx5dv_{name}: direct verbs of libmlx5 are not there");
        assert!(output.contains(&line), "no {line}:\n{output}");
    }
}
