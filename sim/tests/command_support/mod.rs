//! Running the command in a test's own directory.

use std::process::Command;

use super::common::Rendezvous;

/// Runs the command there. Returns its output, and whether it succeeded.
pub fn ferroce_at(rendezvous: &Rendezvous, arguments: &[&str]) -> (String, bool) {
    let output = Command::new(env!("CARGO_BIN_EXE_ferroce"))
        .args(arguments)
        .env("FERROCE_DIR", &rendezvous.0)
        .output()
        .expect("the tool runs");
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    (text, output.status.success())
}
