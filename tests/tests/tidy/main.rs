//! Rules of the project that no lint of the compiler checks.
//!
//! If older lines break a rule, it has an allowance: a number of lines for each folder. The
//! allowances are in `tests/expected/tidy.txt` and only shrink; `FERROCE_UPDATE=1` lowers them
//! where possible.

use std::fs;
use std::path::{Path, PathBuf};

mod allowance;
mod arrows;
mod blocks;
mod functions;
mod modules;
mod words;

/// The only places that may contain `unsafe`.
const UNSAFE_PLACES: &[&str] = &[
    // It acts as a foreign program, and calls C.
    "tests/client/",
    // The same holds for the fuzz target of the C ABI.
    "tests/fuzz/src/verbs",
    // One line, so that loom's cells are shared.
    "tests/support/src/loom_memory.rs",
    "driver/src/bus/",
    "driver/src/dma.rs",
    "driver/linux/",
    "driver/vfio/",
    "driver/vfio-user-bus/src/memory.rs",
    "provider/src/abi/",
    "provider/src/ffi/",
    "provider/src/os.rs",
    "provider/src/os/",
    // Calls of the C++ that Verilator writes.
    "hw-model/rtl/harness/src/simulation.rs",
    "sim/host/src/memory.rs",
    "sim/host/src/memory/guarded.rs",
    "sim/host/src/memory/guarded/",
    // A prefetch also accesses the memory of this process.
    "sim/host/src/prefetch.rs",
    "sim/platform/src/shared_memory.rs",
    "sim/platform/src/shared_memory/",
    "sim/platform/src/os.rs",
    "sim/platform/src/os/",
    // Pages that a program and its world share, and the library between a program and the kernel.
    "sim/timed/protocol/src/map.rs",
    "sim/timed/client/src/time_table.rs",
    "sim/timed/preload/",
];

/// Maximum lines of a file without its tests; a longer file does more than one thing.
const FILE_LINES_MAX: usize = 700;

/// Maximum columns of a line; rustfmt limits code, but neither comments nor strings.
const LINE_COLUMNS_MAX: usize = 100;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The files of the project whose names end in one of `extensions`, with their paths from the root,
/// in order. Leaves out build outputs, other repositories and hidden files.
fn files(extensions: &[&str]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)
            .expect("a folder of the project")
            .flatten()
        {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            let extension = path.extension().and_then(|extension| extension.to_str());
            let is_link = path.is_symlink();
            if path.is_dir() && !is_link && !name.starts_with('.') && name != "target" {
                folders.push(path);
            } else if extension.is_some_and(|extension| extensions.contains(&extension)) {
                let name = path.strip_prefix(root()).expect("below the root");
                let text = fs::read_to_string(&path).expect("sources are UTF-8");
                found.push((name.to_string_lossy().into_owned(), text));
            }
        }
    }
    found.sort();
    found
}

/// Every Rust file.
fn sources() -> Vec<(String, String)> {
    let found = files(&["rs"]);
    assert!(found.len() > 50, "the walk has missed the sources");
    found
}

/// Returns whether the file is part of a crate, not of its tests, benches or examples.
fn is_source(name: &str) -> bool {
    name.contains("/src/")
}

/// The code before the unit tests, which are last in a file.
fn without_tests(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests").next().unwrap_or(text)
}

#[test]
fn unsafe_stands_only_where_the_design_allows_it() {
    for (name, text) in sources() {
        let allowed = UNSAFE_PLACES.iter().any(|place| name.starts_with(place));
        let found = text.lines().position(|line| {
            let code = line.split("//").next().unwrap_or("");
            ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern"]
                .iter()
                .any(|u| code.contains(u))
        });
        if let (Some(line), false, true) = (found, allowed, is_source(&name)) {
            panic!("{name}:{}: unsafe code outside of its places", line + 1);
        }
    }
}

#[test]
fn files_are_short() {
    for (name, text) in sources().into_iter().filter(|(name, _)| is_source(name)) {
        let lines = without_tests(&text).lines().count();
        assert!(lines <= FILE_LINES_MAX, "{name} has {lines} lines");
    }
}

#[test]
fn lines_have_at_most_100_columns() {
    let mut long = Vec::new();
    for (name, text) in sources() {
        for (number, line) in text.lines().enumerate() {
            let columns = line.chars().count();
            if columns > LINE_COLUMNS_MAX {
                let what = format!("{columns} columns, not more than {LINE_COLUMNS_MAX}");
                long.push(allowance::Finding::new(&name, number, what));
            }
        }
    }
    allowance::check("columns", &long);
}

/// A sleep is not a condition: on a loaded machine it is too short, elsewhere too long. The
/// remaining sleeps are intervals of the product and of the test kit, and sleeps that are
/// themselves tested; each has a comment that says which.
#[test]
fn waits_are_for_conditions() {
    let mut found = Vec::new();
    let is_read = |name: &str| !name.starts_with("tests/tests/tidy/");
    for (name, text) in sources().iter().filter(|(name, _)| is_read(name)) {
        for (number, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or("");
            let imports = code.contains("thread::{") && code.contains("sleep");
            if code.contains("thread::sleep") || imports {
                let what = "a sleep; better: `eventually` of the test kit";
                found.push(allowance::Finding::new(name, number, what));
            }
        }
    }
    allowance::check("sleeps", &found);
}
