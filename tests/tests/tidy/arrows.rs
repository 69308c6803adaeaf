//! The crates that each crate may use: the design has no cycles.

use std::path::PathBuf;

use super::{files, is_source, root, without_tests};

/// Each crate, and the crates of the project that its own code may use directly. Crates use only
/// earlier rows. Tests may use more (`[dev-dependencies]`).
#[rustfmt::skip]
const ARROWS: &[(&str, &[&str])] = &[
    // The card: queue pairs as IBTA has them, the contract, the wire, the protocol, the model.
    ("qp", &[]),
    ("spec", &["qp"]),
    ("units", &[]),
    ("wire", &[]),
    ("cm", &["units", "wire"]),
    ("transport", &["qp", "units", "wire"]),
    ("model", &["spec", "transport", "units", "wire"]),
    // Its blocks in RTL, compared with the model's blocks.
    ("rtl-harness", &[]),
    ("rtl-harness-example", &["rtl-harness"]),
    ("rtl-streams", &["rtl-harness"]),
    ("rtl", &["model", "rtl-harness", "spec"]),
    // The card in RTL in place of the model's NIC: an option of `embed`.
    ("rtl-card", &["model", "rtl-harness", "rtl-streams", "spec", "units", "wire"]),
    // The driver never sees the model.
    ("vfio-user", &[]),
    ("driver", &["qp", "spec"]),
    // Its buses, each above it, and their interfaces to the operating system.
    ("linux", &["driver", "spec"]),
    ("vfio", &["driver", "linux", "spec"]),
    ("vfio-user-bus", &["driver", "linux", "spec", "vfio-user"]),
    ("rdma-cm", &["cm", "units", "wire"]),
    // Packet faults.
    ("faults", &["units", "wire"]),
    // The host of a modelled card, and the machine below it.
    ("host", &["driver", "model", "spec", "wire"]),
    ("platform", &["driver", "host", "linux", "spec", "wire"]),
    // Records of a function's accesses and frames, and their comparison.
    ("record", &["driver", "model", "platform", "spec", "units", "wire"]),
    // The device in a process, and what serves it to others.
    ("embed", &["driver", "faults", "host", "linux", "model", "platform", "record", "rtl-card",
        "spec", "units", "vfio", "vfio-user-bus", "wire"]),
    ("serve", &["driver", "embed", "host", "linux", "platform", "spec", "vfio-user", "wire"]),
    // Simulated time: the world, and the world of unmodified programs.
    ("world", &["driver", "faults", "host", "model", "spec", "transport", "units", "wire"]),
    // Random programs in the world.
    ("seeds", &["driver", "faults", "host", "model", "spec", "units", "wire", "world"]),
    ("timed-protocol", &[]),
    ("preload", &["timed-protocol"]),
    ("timed-client", &["driver", "embed", "host", "linux", "model", "platform", "spec",
        "timed-protocol", "units", "vfio-user-bus", "wire"]),
    ("timed", &["driver", "host", "linux", "model", "platform", "rdma-cm", "serve", "spec",
        "timed-protocol", "units", "vfio-user", "wire", "world"]),
    // Measuring and checking. The self-test does not use the model, so it also runs with a card.
    ("perf", &["driver", "faults", "model", "spec", "units", "world"]),
    ("lab", &["faults", "model", "perf", "spec", "units", "world"]),
    // The lab in a browser.
    ("web", &["lab", "model", "perf"]),
    ("selftest", &["driver", "spec", "wire"]),
    // What users start and load. Only tests use these two crates.
    ("provider", &["driver", "embed", "platform", "rdma-cm", "timed-client", "units", "wire"]),
    ("", &["driver", "embed", "faults", "lab", "model", "perf", "platform", "record", "seeds",
        "selftest", "serve", "spec", "timed", "timed-client", "units", "vfio", "wire", "world"]),
    // Tests.
    ("test-support", &["wire"]),
    ("test-verbs", &["driver"]),
    ("tests", &["test-support"]),
    ("verbs-client", &["tests"]),
    // Exercises in Rust, a workspace beside this one.
    ("course", &[]),
    ("fuzz", &["embed", "model", "provider", "spec", "transport", "units", "wire"]),
    ("libfuzzer", &["fuzz"]),
    ("vfio-user-fuzz", &["vfio-user"]),
];

/// Crates without clock, threads and system calls, and the paths that would import these.
/// `core::time::Duration` is only a number.
const PURE: &[&str] = &[
    "hw-model/qp/",
    "hw-model/spec/",
    "hw-model/units/",
    "hw-model/wire/",
    "hw-model/cm/",
    "hw-model/transport/",
    "driver/",
    "driver/rdma-cm/",
    "sim/faults/",
    "sim/host/",
    "sim/world/",
    "sim/perf/",
    "sim/web/",
];
/// The one file of these that has threads: it measures on all processors.
const PARALLEL: &str = "sim/perf/src/sweep.rs";
const IMPURE: &[&str] = &[
    "std::time",
    "std::thread",
    "std::fs",
    "std::net",
    "std::process",
    "std::env",
    "std::os",
    "libc",
    "rustix",
];

/// `ferroce-wire` is `wire`; the command, `ferroce`, is an empty name.
fn short(package: &str) -> Option<&str> {
    let rest = package.strip_prefix("ferroce")?;
    if rest.is_empty() {
        return Some("");
    }
    rest.strip_prefix('-')
}

/// The lines of one section of a manifest.
fn section<'a>(manifest: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let title = format!("[{name}]");
    let lines = manifest.lines().skip_while(move |line| *line != title);
    lines.skip(1).take_while(|line| !line.starts_with('['))
}

/// Every crate, and the crates of the project that its code uses.
fn crates() -> Vec<(String, Vec<String>)> {
    let mut found = Vec::new();
    for (path, manifest) in files(&["toml"]) {
        if !path.ends_with("/Cargo.toml") {
            continue;
        }
        let name = section(&manifest, "package")
            .find_map(|line| line.strip_prefix("name = \""))
            .and_then(|rest| short(rest.trim_end_matches('"')))
            .unwrap_or_else(|| panic!("{path} has no name of the project"));
        let tables = ["dependencies", "build-dependencies"];
        let lines = tables.iter().flat_map(|table| section(&manifest, table));
        let keys = lines.filter_map(|line| line.split(['.', ' ', '=']).next());
        let uses = keys.filter_map(short).map(str::to_owned).collect();
        // The code above would not find a section such as `[dependencies.ferroce-wire]`.
        assert!(!manifest.contains("ependencies.ferroce"), "{path}");
        assert!(!manifest.contains("package = \"ferroce"), "{path}");
        found.push((name.to_owned(), uses));
    }
    found
}

#[test]
fn crates_use_only_what_the_design_allows_them() {
    let found = crates();
    assert!(found.len() > 20, "the walk has missed the crates");
    for (name, uses) in &found {
        let allowed = ARROWS.iter().find(|(known, _)| known == name);
        let (_, allowed) = allowed.unwrap_or_else(|| panic!("{name:?} is not in ARROWS"));
        for used in uses {
            let is_allowed = allowed.contains(&used.as_str());
            assert!(is_allowed, "{name:?} may not use {used:?}: see ARROWS");
        }
        for used in *allowed {
            let is_used = uses.iter().any(|other| other == used);
            assert!(
                is_used,
                "{name:?} does not use {used:?}: take it off ARROWS"
            );
        }
    }
    let missing = |name: &str| !found.iter().any(|(found, _)| found == name);
    for (name, _) in ARROWS {
        assert!(!missing(name), "there is no crate {name:?}: see ARROWS");
    }
}

#[test]
fn no_arrow_runs_up() {
    for (place, (name, uses)) in ARROWS.iter().enumerate() {
        for used in *uses {
            let is_before = ARROWS[..place].iter().any(|(before, _)| before == used);
            assert!(is_before, "{name:?} stands before {used:?} in ARROWS");
        }
    }
}

/// Returns true for a source of the crate in this folder, and not of one below.
fn is_of(folder: &str, name: &str) -> bool {
    let below = name.strip_prefix(folder);
    below.is_some_and(|path| path.starts_with("src/"))
}

fn is_pure(name: &str) -> bool {
    let is_pure = PURE.iter().any(|folder| is_of(folder, name)) && name != PARALLEL;
    is_pure && !name.ends_with("/tests.rs")
}

#[test]
fn the_core_knows_no_clock_thread_or_system() {
    let mut sources = 0;
    for (name, text) in files(&["rs"]) {
        if !is_source(&name) || !is_pure(&name) {
            continue;
        }
        sources += 1;
        for (number, line) in without_tests(&text).lines().enumerate() {
            let code = line.split("//").next().unwrap_or("");
            if let Some(impure) = IMPURE.iter().find(|path| code.contains(*path)) {
                panic!("{name}:{}: {impure}", number + 1);
            }
        }
    }
    assert!(sources > 40, "the walk has missed the sources");
    for folder in PURE {
        let manifest: PathBuf = root().join(folder).join("Cargo.toml");
        let manifest = std::fs::read_to_string(manifest).expect("a crate");
        let mut used = section(&manifest, "dependencies");
        let is_impure = |line: &str| {
            ["libc", "rustix", "nix", "vfio-", "iommufd-", "rand"]
                .iter()
                .any(|c| line.starts_with(c))
        };
        assert!(!used.any(is_impure), "{folder}Cargo.toml");
    }
}
