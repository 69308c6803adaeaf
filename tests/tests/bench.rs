//! `make bench`: its script measures two builds alternately, and records their ratios.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ferroce_tests::{Ended, Scratch, ferroce};

/// Path of the script in the project.
const SCRIPTS: &str = "sim/scripts";
/// A row that takes a second and needs no program except the script's own.
const QUICK_ROW: &str = "^write to";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The folder of the build under test.
fn build() -> String {
    let folder = ferroce()
        .parent()
        .expect("a file is in a folder")
        .to_owned();
    folder.to_string_lossy().into_owned()
}

/// Runs the script of a project with options.
fn bench(scratch: &Scratch, project: &Path, options: &[&str]) -> Ended {
    let mut command = scratch.program(Path::new("python3"));
    command.arg(project.join(SCRIPTS).join("bench"));
    command.args(options);
    scratch.finish(command)
}

/// Returns the line of a row in the first table.
fn line<'a>(output: &'a str, row: &str) -> &'a str {
    let mut lines = output.lines();
    let found = lines.find(|line| line.starts_with(row));
    found.unwrap_or_else(|| panic!("no row {row:?}:\n{output}"))
}

/// Goal: the script computes correct figures from runs. Method: the script's own tests.
#[test]
fn the_statistics_are_right() {
    let scratch = Scratch::new();
    let mut tests = scratch.program(Path::new("python3"));
    tests
        .args(["-m", "unittest", "-v", "test_bench"])
        .current_dir(root().join(SCRIPTS).join("bench"))
        .env("PYTHONDONTWRITEBYTECODE", "1");
    let output = scratch.finish(tests).expect_success();
    assert!(output.contains("\nOK\n"), "{output}");
}

/// Goal: rows, limits and ratios are printed, and the ratios recorded. Method: one run of two rows
/// that compares a build with itself.
#[test]
fn two_builds_are_compared() {
    let scratch = Scratch::new();
    let history = scratch.path("history.csv");
    let build = build();
    let options = [
        "--build",
        &build,
        "--base-build",
        &build,
        "--runs",
        "1",
        "--rows",
        "ib_write_lat 2 B, ICRC on|1 thread, loopback",
        "--history",
        history.to_str().expect("a plain name"),
    ];
    let output = bench(&scratch, &root(), &options).expect_success();
    let rows = ["ib_write_lat 2 B, ICRC on", "1 thread, loopback"];
    for row in rows {
        let line = line(&output, row);
        // Median and range of either build, quartiles and range of the ratio.
        assert_eq!(line.matches("..").count(), 4, "{line}");
        assert!(line.ends_with("too few runs (1)"), "{line}");
    }
    assert!(output.contains(" hops, at least 1\n"), "{output}");
    assert!(output.contains("the cheapest system call"), "{output}");
    assert!(output.contains("0 of 2 rows show a difference"), "{output}");
    let kept = fs::read_to_string(history).expect("the script has written it");
    let kept: Vec<_> = kept.lines().collect();
    assert_eq!(kept.len(), 3, "{kept:?}");
    assert!(
        kept[0].starts_with("date,a,b,row,better,ratio,"),
        "{kept:?}"
    );
    for (line, row) in kept[1..].iter().zip(rows) {
        assert!(line.contains(row), "{line}");
    }
}

/// Goal: `BASE=REV` measures that revision. Method: a project with this script, whose build is a
/// copy of the build under test.
#[test]
fn another_revision_is_built_in_a_worktree() {
    let scratch = Scratch::new();
    let project = scratch.path("project");
    let build = build();
    fs::create_dir_all(project.join("sim")).expect("a new folder");
    let rule = format!(
        "build:\n\tmkdir -p target/release\n\tcp -r {build}/ferroce {build}/lib target/release\n"
    );
    fs::write(project.join("Makefile"), rule).expect("a new folder");
    let copy = format!("cp -r {}/{SCRIPTS} sim", root().display());
    let commands = [
        copy.as_str(),
        "git init -q",
        "git add Makefile sim",
        "git -c user.name=test -c user.email=test@localhost commit -q -m first",
    ];
    let mut shell = Command::new("sh");
    shell
        .args(["-c", &commands.join(" && ")])
        .current_dir(&project);
    scratch.finish(shell).expect_success();
    let options = ["--build", &build, "--runs", "1", "--rows", QUICK_ROW];
    let with_base = |base| {
        let options = [&options[..], &["--base", base]].concat();
        bench(&scratch, &project, &options)
    };
    let unknown = with_base("no-such-revision");
    assert!(!unknown.succeeded(), "{}", unknown.output);
    let named = "BASE=no-such-revision: no such revision";
    assert!(unknown.output.contains(named), "{}", unknown.output);
    // The second time, its worktree already exists.
    for _ in 0..2 {
        let output = with_base("HEAD").expect_success();
        let base = project.join("target/bench/base/target/release/ferroce");
        assert!(base.exists(), "{output}");
        line(&output, "write to /dev/null");
    }
}

/// Goal: errors are reported before anything is measured.
#[test]
fn mistakes_are_named() {
    let scratch = Scratch::new();
    let build = build();
    for (options, message) in [
        (["--runs", "0"], "RUNS=0: 1 to 101"),
        (["--rows", "no such row"], "no row has such a name"),
        (["--rows", "("], "ROWS=(: "),
        (["--base-build", "/nonexistent"], "has no ferroce"),
    ] {
        let options = [&["--build", &build][..], &options].concat();
        let ended = bench(&scratch, &root(), &options);
        assert!(!ended.succeeded(), "{}", ended.output);
        assert!(ended.output.contains(message), "{}", ended.output);
    }
}
