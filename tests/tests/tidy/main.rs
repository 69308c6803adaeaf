//! Rules of the project that no lint of the compiler knows.

use std::fs;
use std::path::{Path, PathBuf};

/// The only places where `unsafe` may stand.
const UNSAFE_PLACES: &[&str] = &[
    // A foreign program, as far as the rest goes: it calls C.
    "tests/client/",
    // So is the fuzz target of the C ABI.
    "tests/fuzz/src/verbs",
    "driver/src/bus/",
    "driver/src/mmio.rs",
    "driver/src/dma.rs",
    "driver/src/dma/",
    "provider/src/ffi/",
    "tests/client/src/",
    "sim/platform/src/memory.rs",
    "sim/platform/src/memory/guarded.rs",
    "sim/platform/src/memory/guarded/",
    "sim/platform/src/shared_memory.rs",
    "sim/platform/src/shared_memory/",
    "sim/platform/src/os.rs",
    "sim/platform/src/os/",
    // What a program and its world share, and what stands between a program and the kernel.
    "sim/timed/protocol/src/map.rs",
    "sim/timed/client/src/time_table.rs",
    "sim/timed/preload/",
];

/// Lines of a file without its tests; more than that is more than one thing.
const FILE_LINES_MAX: usize = 700;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Every Rust file below the crates' `src` folders, with its path from the root.
fn sources() -> Vec<(String, String)> {
    let mut found = Vec::new();
    let crates = ["hw-model", "driver", "sim", "provider", "tests"];
    let mut folders: Vec<_> = crates.iter().map(|name| root().join(name)).collect();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)
            .expect("a folder of the project")
            .flatten()
        {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(root()).expect("below the root");
                let text = fs::read_to_string(&path).expect("sources are UTF-8");
                found.push((name.to_string_lossy().into_owned(), text));
            }
        }
    }
    assert!(found.len() > 50, "the walk has missed the sources");
    found
}

/// The code in front of the unit tests, which stand last in a file.
fn without_tests(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests").next().unwrap_or(text)
}

#[test]
fn unsafe_stands_only_where_the_design_allows_it() {
    for (name, text) in sources() {
        let allowed = UNSAFE_PLACES.iter().any(|place| name.starts_with(place));
        let is_source = name.contains("/src/");
        let found = text.lines().position(|line| {
            let code = line.split("//").next().unwrap_or("");
            ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern"]
                .iter()
                .any(|u| code.contains(u))
        });
        if let (Some(line), false, true) = (found, allowed, is_source) {
            panic!("{name}:{}: unsafe code outside of its places", line + 1);
        }
    }
}

#[test]
fn files_are_short() {
    for (name, text) in sources()
        .into_iter()
        .filter(|(name, _)| name.contains("/src/"))
    {
        let lines = without_tests(&text).lines().count();
        assert!(lines <= FILE_LINES_MAX, "{name} has {lines} lines");
    }
}
