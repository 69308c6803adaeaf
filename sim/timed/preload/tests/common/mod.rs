//! A world that only gives turns, and programs that run in it.

pub mod guest;
pub mod world;

use std::path::PathBuf;
use std::process::Command;

use ferroce_test_support::Process;

/// Returns the library under test: cargo has built it for this test.
pub fn library() -> PathBuf {
    let test = std::env::current_exe().expect("the test has a path");
    let folder = test.parent().expect("target folder");
    let library = folder.join("libferroce_time.so");
    assert!(library.exists(), "{} is missing", library.display());
    library
}

/// Returns a command with the library preloaded.
pub fn with_library(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env("LD_PRELOAD", library());
    command
}

/// Result of a program.
#[derive(Debug)]
pub struct Output {
    /// Its exit code; `None`: a signal ended it.
    pub code: Option<i32>,
    /// That signal.
    pub signal: Option<i32>,
    /// Its output.
    pub text: String,
}

impl Output {
    /// Returns the number after a word at the beginning of a line.
    pub fn number(&self, name: &str) -> f64 {
        let value = self
            .text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let value = value.unwrap_or_else(|| panic!("no {name} in {self:?}"));
        value.trim().parse().expect("a number")
    }
}

/// Waits for the end of a program, which is killed if it takes too long.
pub fn finish(process: Process) -> Output {
    use std::os::unix::process::ExitStatusExt;
    let ended = process.wait();
    let status = ended.expect_end();
    Output {
        code: status.code(),
        signal: status.signal(),
        text: ended.output,
    }
}
