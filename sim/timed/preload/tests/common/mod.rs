//! A world that only gives turns, and programs that run in it.

pub mod guest;
pub mod world;

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a program may take.
pub const LIMIT: Duration = Duration::from_secs(20);

/// Returns the library under test: cargo has built it for this test.
pub fn library() -> PathBuf {
    let test = std::env::current_exe().expect("the test has a path");
    let folder = test.parent().expect("target folder");
    let library = folder.join("libferroce_time.so");
    assert!(library.exists(), "{} is missing", library.display());
    library
}

/// Returns a command with the library preloaded and its output piped.
pub fn with_library(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env("LD_PRELOAD", library());
    command.stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
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
    /// Returns the number behind a word at the beginning of a line.
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
pub fn finish(mut child: Child) -> Output {
    use std::io::Read;
    use std::os::unix::process::ExitStatusExt;
    let end = Instant::now() + LIMIT;
    let status = loop {
        if let Some(status) = child.try_wait().expect("a child") {
            break status;
        }
        if Instant::now() > end {
            child.kill().expect("a child");
            panic!("the program hangs");
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let mut text = String::new();
    let mut pipes: [Box<dyn Read>; 2] = [
        Box::new(child.stdout.take().expect("a pipe")),
        Box::new(child.stderr.take().expect("a pipe")),
    ];
    for pipe in &mut pipes {
        pipe.read_to_string(&mut text).expect("text");
    }
    Output {
        code: status.code(),
        signal: status.signal(),
        text,
    }
}
