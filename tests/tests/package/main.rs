//! What users get: the version of the command.

mod version;

use std::path::{Path, PathBuf};
use std::process::Command;

use ferroce_tests::Scratch;

/// Returns a path of the project.
fn project(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// Runs a command to its end; fails the test unless it succeeds. Returns its output.
fn output(scratch: &Scratch, program: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(program);
    command.args(arguments);
    scratch.finish(command).expect_success()
}
