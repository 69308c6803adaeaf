//! Each test runs in a separate process under `ferroce run`, with a time limit.

use std::env;
use std::time::Duration;

use ferroce_tests::{Process, Scratch, Served};

/// Variable that is set in the process that actually runs a test.
const INSIDE: &str = "FERROCE_TEST_INSIDE";
/// Variable with the bus by which the tests reach the device; without it, the model runs in the
/// tests.
const BUS: &str = "FERROCE_TEST_BUS";
/// The address of the first served function, which does not use an address of the machine.
const ADDRESS: &str = "192.0.2.1";
/// First words of a line that says why a test was skipped.
const LEFT_OUT: &str = "left out:";
/// Time limit of one test. It only ends tests that hang: on an idle machine each needs far less.
const TIMEOUT: Duration = Duration::from_secs(180);

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

/// Returns true, and prints a note, if a test must be skipped because the device has only one
/// client at a time, so a child cannot open it in addition to its parent.
pub fn is_for_one_client() -> bool {
    let is_served = env::var_os("FERROCE_DEVICE").is_some();
    if is_served {
        println!("{LEFT_OUT} a served function has one client at a time");
    }
    is_served
}

/// Returns true, and prints a note, if a test must be skipped because it needs a device in the
/// program's own threads, and this device has its own threads.
pub fn is_served() -> bool {
    let is_served = env::var_os("FERROCE_DEVICE").is_some();
    if is_served {
        println!("{LEFT_OUT} a served function works by itself");
    }
    is_served
}

/// Runs `body` in a separate process under `ferroce run` with these options. `name` is the name of
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
    let served = serve(&scratch, options);
    let devices = served.as_ref().map(Served::devices);
    let options = match &devices {
        Some(devices) => &["--device", devices],
        None => options,
    };
    let mut command = scratch.run(options, &program, &arguments);
    if served.is_some() {
        command.env("FERROCE_ADDRESS", ADDRESS);
    }
    command.env(INSIDE, "1").env("RUST_BACKTRACE", "0");
    let ended = Process::start(command, &scratch, "output", TIMEOUT).wait();
    let passed = ended.succeeded() && ended.output.contains("1 passed");
    assert!(passed, "{name}: {}\n{}", ended.how(), ended.output);
    let lines = ended.output.lines();
    for reason in lines.filter_map(|line| line.find(LEFT_OUT).map(|at| &line[at..])) {
        println!("{name}: {reason}");
    }
}

/// Returns a server with as many functions as `options` request, if the tests run over a server.
fn serve<'a>(scratch: &'a Scratch, options: &[&str]) -> Option<Served<'a>> {
    let functions = match options {
        [] => 1,
        ["--devices", count] => count.parse().expect("a number of devices"),
        _ => panic!("{options:?} mean nothing for a served function"),
    };
    match env::var(BUS).as_deref() {
        Err(_) => None,
        Ok("vfio-user") => Some(Served::start(scratch, functions)),
        Ok(other) => panic!("{BUS}={other}: it would be vfio-user"),
    }
}
