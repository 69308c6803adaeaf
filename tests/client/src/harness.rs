//! Each test is a process of its own under `ferroce run`, with a time-out.

use std::env;
use std::time::Duration;

use ferroce_tests::{Process, Scratch};

/// Set in the process that really runs a test.
const INSIDE: &str = "FERROCE_TEST_INSIDE";
/// How long one test may run.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Declares tests that run under `ferroce run`, with options for it in brackets if needed.
#[macro_export]
macro_rules! verbs_tests {
    ($( $(#[$meta:meta])* fn $name:ident() $([$($option:literal),*])? $body:block )*) => {
        $(
            $(#[$meta])*
            #[test]
            fn $name() {
                let name = concat!(module_path!(), "::", stringify!($name));
                $crate::harness::under_ferroce(name, &[$($($option),*)?], || $body);
            }
        )*
    };
}

/// Runs `body`, in a process of its own under `ferroce run` with these options. `name` is that of
/// the calling test, with its crate in front.
pub fn under_ferroce(name: &str, options: &[&str], body: impl FnOnce()) {
    if env::var_os(INSIDE).is_some() {
        return body();
    }
    let (_, name) = name.split_once("::").expect("a path in a crate");
    let program = env::current_exe().expect("this program has a path");
    let program = program.to_string_lossy();
    let scratch = Scratch::new();
    let arguments = [
        name,
        "--exact",
        "--nocapture",
        "--include-ignored",
        "--test-threads=1",
    ];
    let mut command = scratch.run(options, &program, &arguments);
    command.env(INSIDE, "1").env("RUST_BACKTRACE", "0");
    let ended = Process::start(command, &scratch, "output", TIMEOUT).wait();
    let passed = ended.succeeded() && ended.output.contains("1 passed");
    assert!(passed, "{name}: {:?}\n{}", ended.status, ended.output);
}
