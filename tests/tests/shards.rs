//! Shards of a command by GNU parallel, as `docs/src/cluster.md` has them.

use std::path::Path;

use ferroce_tests::{Ended, Scratch, ferroce};

const COMMAND: &str = "ferroce sim --seeds 30";

/// Runs a line of a shell in the scratch directory, with `ferroce` on the path.
fn shell(scratch: &Scratch, line: &str) -> Ended {
    let folder = ferroce()
        .parent()
        .expect("a file is in a folder")
        .to_owned();
    let folder = folder.canonicalize().expect("it is there");
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = scratch.program(Path::new("sh"));
    command
        .args(["-c", line])
        .current_dir(scratch.path(""))
        // GNU parallel notes here that it has asked for a citation.
        .env("HOME", scratch.path(""))
        .env("PATH", format!("{}:{path}", folder.display()));
    scratch.finish(command)
}

/// Goal: shards that `parallel` runs make the whole, and one that has died is run again alone, by
/// the command that the merge names. Method: the second of four does not start.
#[test]
fn gnu_parallel_runs_shards_and_a_dead_one_runs_again() {
    let scratch = Scratch::new();
    if !shell(&scratch, "parallel --version").succeeded() {
        eprintln!("SKIPPED: GNU parallel is not installed (Debian: parallel)");
        return;
    }
    let shards = format!("test {{}} = 2 || {COMMAND} --shard {{}}/4 > {{}}.json");
    let line = format!("seq 4 | parallel --joblog log '{shards}'");
    shell(&scratch, &line).expect_success();
    let refused = shell(&scratch, "ferroce merge ?.json").output;
    let mut missing = refused
        .lines()
        .skip_while(|line| !line.contains("shard 2/4 is missing"));
    let command = missing.nth(1).map(str::trim);
    let command = command.unwrap_or_else(|| panic!("no command: {refused}"));
    shell(&scratch, &format!("{command} > 2.json")).expect_success();
    let line = format!("{COMMAND} > whole && ferroce merge ?.json > merged && cmp whole merged");
    shell(&scratch, &line).expect_success();
    let json = format!("{COMMAND} --json > whole && ferroce merge ?.json --json > merged");
    shell(&scratch, &format!("{json} && cmp whole merged")).expect_success();
}
