//! `ferroce sim`: what it prints, and how it ends.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// A file that is removed with the test.
struct File(PathBuf);

impl File {
    fn new(name: &str, text: &str) -> Self {
        let name = format!("ferroce-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, text).expect("a temporary file");
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("its name is text")
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // A file that is left behind does no harm.
        let _ = fs::remove_file(&self.0);
    }
}

/// Returns the exit code, standard output and standard error.
fn sim(arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferroce"));
    let output = command
        .arg("sim")
        .args(arguments)
        .output()
        .expect("it runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

#[test]
fn a_seed_prints_the_same_each_time() {
    let first = sim(&["--seed", "5"]);
    assert_eq!(first.0, Some(0), "{first:?}");
    assert!(first.1.contains("\npasses: "), "{}", first.1);
    assert_eq!(first, sim(&["--seed", "5"]));
    let many = sim(&["--seeds", "20", "--first", "3"]);
    assert!(many.1.starts_with("20 seeds, 0 fail\n"), "{many:?}");
    assert_eq!(many, sim(&["--seeds", "20", "--first", "3"]));
}

/// Goal: a failure is explained, and its short scenario fails when it is run. Method: packets take
/// longer than a round may.
#[test]
fn a_failure_is_shortened_to_a_scenario_that_fails() {
    let text = "seed = 11\nhosts = 3\nrounds = 1\noperations = 40\nlimit_ms = 1\n\
                faults = \"delay=5ms,dup=1e-2\"\n";
    let scenario = File::new("slow.toml", text);
    let (code, output, _) = sim(&["--scenario", scenario.path(), "--trace"]);
    assert_eq!(code, Some(1), "{output}");
    assert!(output.contains("the last events:\n"), "{output}");
    assert!(output.contains("what each part waits for:\n"), "{output}");
    let (_, short) = output.split_once("a shorter scenario, of ").expect("one");
    let (_, short) = short.split_once('\n').expect("a line");
    assert!(short.contains("hosts = 2\n"), "{short}");
    assert!(short.contains("faults = \"delay=5ms,"), "{short}");
    assert!(!short.contains("dup="), "{short}");
    let operations = short.lines().filter(|line| line.starts_with("# ")).count() - 1;
    assert_eq!(operations, 1, "{short}");
    let again = File::new("short.toml", short);
    let (code, output, _) = sim(&["--scenario", again.path()]);
    assert_eq!(code, Some(1), "{output}");
}

#[test]
fn a_scenario_that_is_not_possible_is_refused() {
    for (text, reason) in [
        ("hosts = 9\n", "hosts = 9: expected a number from 2 to 8"),
        ("host = 2\n", "there is no key host"),
        ("preset = \"cx99\"\n", "preset = cx99"),
    ] {
        let scenario = File::new("refused.toml", text);
        let (code, _, error) = sim(&["--scenario", scenario.path()]);
        assert_eq!(code, Some(125), "{error}");
        assert!(error.contains(reason), "{error}");
    }
}
