//! rdma-core's own pyverbs tests, as Debian ships them: the required tests pass, and
//! `tests/pyverbs-skips.md` lists the skipped tests with reasons.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ferroce_tests::{Ended, Process, Scratch};

/// Folder in which python3-pyverbs installs the suite, partly compressed.
const SUITE: &str = "/usr/share/doc/rdma-core/tests";
/// Debian's own interpreter, for which the module is built.
const PYTHON: &str = "/usr/bin/python3";
/// Time limit for the tests of one file.
const MODULE_TIMEOUT: Duration = Duration::from_secs(120);

fn project(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Returns a runnable copy of the suite.
fn unpack(scratch: &Scratch) -> String {
    let folder = scratch.path("suite");
    fs::create_dir(&folder).expect("a new folder");
    let mut copy = Command::new("cp");
    copy.arg("-r").arg(SUITE).arg(&folder);
    scratch.finish(copy).expect_success();
    let mut unzip = Command::new("gunzip");
    unzip.arg("-r").arg(&folder);
    scratch.finish(unzip).expect_success();
    folder.to_string_lossy().into_owned()
}

/// Returns every test of the suite, by its file.
fn list(scratch: &Scratch, folder: &str) -> BTreeMap<String, Vec<String>> {
    let mut command = Command::new(PYTHON);
    command
        .arg(project("pyverbs/run.py"))
        .args([folder, "--list-tests"]);
    let mut modules: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for test in scratch.finish(command).expect_success().lines() {
        let module: Vec<_> = test.splitn(3, '.').take(2).collect();
        let tests = modules.entry(module.join(".")).or_default();
        tests.push(test.to_owned());
    }
    modules
}

/// Runs Debian's Python under `ferroce run`, on a machine that seems to have a GPU.
fn python(scratch: &Scratch, options: &[&str], name: &str, arguments: &[&str]) -> Ended {
    // The preload of `ferroce run` opens files by system call, so another one comes before it.
    const EXTENDED: &str = "LD_PRELOAD=$0:$LD_PRELOAD exec \"$@\"";
    let node = scratch.path("render_node.so");
    if !node.exists() {
        scratch.compile_library("render_node", &node);
    }
    let node = node.to_string_lossy();
    let options = [&["--dma-buf", "memfd"], options].concat();
    let arguments = [&["-c", EXTENDED, &node, PYTHON], arguments].concat();
    let command = scratch.run(&options, "sh", &arguments);
    Process::start(command, scratch, name, MODULE_TIMEOUT).wait()
}

/// Returns true if this pyverbs allocates dma-bufs: it is built with libdrm.
fn has_dma_bufs(scratch: &Scratch) -> bool {
    let program = "from pyverbs.dmabuf import DmaBuf; DmaBuf(1)";
    let ended = python(scratch, &[], "dma-buf", &["-c", program]);
    let is_without = ended.output.contains("Operation not supported");
    assert!(ended.succeeded() != is_without, "{}", ended.output);
    !is_without
}

/// Returns outcome and reason of each test of one file, and the whole output.
fn run(
    scratch: &Scratch,
    options: &[&str],
    folder: &str,
    module: &str,
) -> (BTreeMap<String, [String; 2]>, String) {
    let script = project("pyverbs/run.py");
    let script = script.to_string_lossy();
    let arguments = [&script, folder, "--dev", "ferroce0", "--gid", "1", module];
    let ended = python(scratch, options, module, &arguments);
    let mut outcomes = BTreeMap::new();
    for line in ended.output.lines() {
        if let [test, outcome, reason] = line.split('\t').collect::<Vec<_>>()[..] {
            outcomes.insert(test.to_owned(), [outcome.to_owned(), reason.to_owned()]);
        }
    }
    (outcomes, ended.output)
}

/// Names of tests in a document: whatever starts with `tests.test_`.
fn named(text: &str) -> BTreeSet<String> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || "._".contains(c)))
        .filter(|word| word.starts_with("tests.test_"))
        .map(str::to_owned)
        .collect()
}

/// The section of tests that may pass or be skipped.
const EITHER: &str = "## Depends on the machine";
/// The section of tests that are required of a pyverbs that allocates dma-bufs.
const DMA_BUFS: &str = "## A pyverbs without libdrm";

/// Names of tests in one section of the list of skips.
fn section(skips: &str, title: &str) -> BTreeSet<String> {
    let (_, section) = skips.split_once(title).expect(title);
    named(section.split("\n## ").next().unwrap_or(section))
}

/// Returns the error in one test's outcome.
fn judge(outcome: Option<&[String; 2]>, required: bool, excused: bool) -> Option<String> {
    let [outcome, reason] = match outcome {
        Some(found) => found.each_ref().map(String::as_str),
        None => ["no outcome", "the process crashed or hung"],
    };
    match (outcome, required, excused) {
        ("ok", _, false) => None,
        ("ok", _, true) => Some("passes: strike it from pyverbs-skips.md".to_owned()),
        // Its file tests features of a later release.
        ("skipped" | "error" | "failed", false, true) => None,
        ("skipped", false, false) => Some(format!("skipped, not in pyverbs-skips.md: {reason}")),
        _ => Some(format!("{outcome}: {reason}")),
    }
}

/// Goal: a skipped test cannot hide a gap. Method: run every test of the suite, one process per
/// file; those in `pyverbs/required.txt` must pass, others may be skipped if `pyverbs-skips.md`
/// gives the reason.
#[test]
fn pyverbs_passes_or_says_why_not() {
    run_all(&[]);
}

/// Goal: programs also work when their contexts are on different functions. Method: the same tests,
/// many of which open the device twice.
#[test]
fn pyverbs_passes_with_several_functions() {
    run_all(&["--functions", "4"]);
}

/// Runs every test of the suite, with options of `ferroce run`.
fn run_all(options: &[&str]) {
    let scratch = Scratch::new();
    let folder = unpack(&scratch);
    let read = |name| fs::read_to_string(project(name)).expect("a file of the project");
    let mut required = named(&read("pyverbs/required.txt"));
    let skips = read("pyverbs-skips.md");
    let either = section(&skips, EITHER);
    let mut excused: BTreeSet<_> = named(&skips).difference(&either).cloned().collect();
    if has_dma_bufs(&scratch) {
        for test in section(&skips, DMA_BUFS) {
            excused.remove(&test);
            required.insert(test);
        }
    }
    let both: Vec<_> = required.intersection(&excused).collect();
    assert!(both.is_empty(), "required and excused: {both:?}");
    let modules = list(&scratch, &folder);
    let mut seen = BTreeSet::new();
    let mut wrong = Vec::new();
    for (module, tests) in &modules {
        let (outcomes, output) = run(&scratch, options, &folder, module);
        let before = wrong.len();
        for test in tests {
            seen.insert(test.clone());
            let is_ok = outcomes
                .get(test)
                .is_some_and(|[outcome, _]| outcome == "ok");
            let verdict = judge(
                outcomes.get(test),
                required.contains(test),
                excused.contains(test) || (either.contains(test) && !is_ok),
            );
            wrong.extend(verdict.map(|verdict| format!("{test}: {verdict}")));
        }
        if wrong.len() > before && outcomes.len() < tests.len() {
            wrong.push(format!("{module} printed:\n{output}"));
        }
    }
    let missing: Vec<_> = required.difference(&seen).collect();
    assert!(missing.is_empty(), "not in this suite: {missing:?}");
    assert!(
        wrong.is_empty(),
        "{} tests:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
