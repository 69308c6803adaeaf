//! What users install: version, man pages, completions, installation, packages, and CI files.

mod documents;
mod files;
mod install;
mod version;
mod wheel;
mod workflows;

use std::path::{Path, PathBuf};
use std::process::Command;

use ferroce_tests::{Scratch, ferroce};

/// Returns a path of the project.
fn project(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// Returns a script of `packaging/`.
fn packaging(script: &str) -> Command {
    Command::new(project("packaging").join(script))
}

/// Returns the folder of the build, as `target/release`.
fn release() -> PathBuf {
    let command = ferroce();
    command
        .parent()
        .expect("a command is in a folder")
        .to_owned()
}

/// Returns true if a program exists; otherwise prints what is not tested.
fn is_here(program: &str, what: &str) -> bool {
    let found = Command::new("sh")
        .args(["-c", "command -v \"$1\"", "sh", program])
        .output()
        .is_ok_and(|output| output.status.success());
    if !found {
        eprintln!("SKIPPED: {what}: no {program} here");
    }
    found
}

/// Runs a command to its end; fails the test unless it succeeds. Returns its output.
fn output(scratch: &Scratch, program: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(program);
    command.args(arguments);
    scratch.finish(command).expect_success()
}
