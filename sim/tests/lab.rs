//! The page of the lab measures as the command does, and `ferroce lab` finds it.

use std::process::Command;

use ferroce_test_support::temporary_directory;
use serde_json::{Value, json};

const FERROCE: &str = env!("CARGO_BIN_EXE_ferroce");

/// Runs a command line that the page shows, with more options, in a folder. Returns its output.
fn shown(line: &str, more: &[&str], folder: &std::path::Path) -> String {
    let mut words = line.split(' ');
    assert_eq!(words.next(), Some("ferroce"), "{line}");
    let mut command = Command::new(FERROCE);
    command.args(words).args(more).current_dir(folder);
    let output = command.output().expect("the command starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {errors}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Asks as the page does.
fn ask(what: &str, request: &Value) -> Value {
    let mut request = request.clone();
    request["ask"] = what.into();
    let answer = ferroce_web::answer(&request.to_string());
    let answer: Value = serde_json::from_str(&answer).expect("an answer is JSON");
    assert!(answer["error"].is_null(), "{request}: {}", answer["error"]);
    answer
}

fn text<'a>(answer: &'a Value, key: &str) -> &'a str {
    answer[key].as_str().expect("a text")
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

/// Measurements of one point: of each test, of options, of memories, with changed parameters.
fn points() -> Vec<Value> {
    let mut all = Vec::new();
    for test in [
        "write_bw",
        "read_bw",
        "send_bw",
        "write_lat",
        "read_lat",
        "send_lat",
        "atomic_bw",
        "atomic_lat",
    ] {
        let size = if test.starts_with("atomic") { 8 } else { 2048 };
        all.push(json!({
            "test": test,
            "preset": "cx6-200g@epyc-hdr",
            "set": ["units.count=3", "pcie.lanes=8"],
            "size": size,
            "options": { "iterations": "200", "fast-forward": true },
        }));
    }
    all.push(json!({
        "test": "write_bw",
        "preset": "cx5-100g@gpu-on-switch",
        "size": 65536,
        "options": {
            "iterations": "auto", "fast-forward": true, "qps": 4, "mtu": 1024, "depth": 16,
            "memory": "gpu0", "remote-memory": "gpu0", "relaxed-order": true,
        },
    }));
    all.push(json!({
        "test": "send_bw",
        "preset": "cx4-100g@edr-ud",
        "size": 64,
        "options": { "iterations": "100", "connection": "UD", "bidirectional": true, "mrs": 4 },
    }));
    all
}

/// Goal: page and command print the same figures, to the digit. Method: the command line
/// that the page shows prints the very document that the page has computed.
#[test]
fn a_point_has_the_digits_of_the_command() {
    let folder = temporary_directory("lab");
    for request in points() {
        let command = ask("command", &request);
        let expected = shown(text(&command, "command"), &["--json"], &folder);
        assert_eq!(text(&ask("point", &request), "document"), expected);
        if request["test"] == "atomic_bw" {
            continue;
        }
        let mut alone = request;
        let options = alone["options"].as_object_mut().expect("an object");
        options.remove("iterations");
        let line = format!("{} --explain", text(&ask("command", &alone), "command"));
        let expected = shown(&line, &["--json"], &folder);
        assert_eq!(text(&ask("explanation", &alone), "document"), expected);
    }
}

/// Goal: a curve has the same points as `--all` and `--sweep`.
#[test]
fn a_curve_has_the_digits_of_the_command() {
    let folder = temporary_directory("lab");
    let mut of_sizes = json!({
        "test": "write_lat",
        "preset": "irdma-10g",
        "options": { "iterations": "10", "fast-forward": true },
        "all": true,
    });
    let mut of_lanes = json!({
        "test": "read_bw",
        "preset": "cx5-100g",
        "options": { "iterations": "auto", "fast-forward": true },
        "size": 4096,
        "sweep": { "key": "pcie.lanes", "values": ["4", "8", "16"] },
    });
    for request in [&mut of_sizes, &mut of_lanes] {
        let line = ask("command", request);
        let document = parsed(&shown(text(&line, "command"), &["--json"], &folder));
        let rows = document["rows"].as_array().expect("rows");
        assert!(rows.len() >= 3, "{document}");
        for row in rows {
            if request["sweep"].is_null() {
                request["size"] = row["specification"]["size"].clone();
            } else {
                request["point"] = json!(["pcie.lanes", row["point"]["pcie.lanes"]]);
            }
            let found = parsed(text(&ask("point", request), "document"));
            assert_eq!(found["rows"][0], *row);
        }
    }
}

/// Goal: the preset file that the page shows gives the same preset. Method: hashes, of changes to
/// the card, to what the host profile states, and to the topology.
#[test]
fn the_preset_file_has_the_changes() {
    let folder = temporary_directory("lab");
    for (preset, changes) in [
        (
            "cx6-200g@epyc-hdr",
            "units.count=3 pcie.read_latency_ns=700 mac.rate_gbps=100",
        ),
        (
            "cx5-100g@gpu-on-switch",
            "cache.mtt.log_sets=2 host.translation=pages-2m",
        ),
        ("irdma-10g", "clock.core_mhz=312.5 memory.ddio=false"),
    ] {
        let changes: Vec<&str> = changes.split(' ').collect();
        let request = json!({
            "test": "write_lat",
            "preset": preset,
            "set": changes,
            "size": 64,
            "options": { "iterations": "5" },
        });
        let command = ask("command", &request);
        std::fs::write(folder.join("lab.toml"), text(&command, "toml")).expect("our own folder");
        let found = parsed(&shown(text(&command, "toml_command"), &["--json"], &folder));
        let expected = parsed(text(&ask("point", &request), "document"));
        for key in ["/rows/0/preset/hash", "/rows/0/result"] {
            assert_eq!(found.pointer(key), expected.pointer(key), "{preset}: {key}");
        }
    }
}

/// Goal: without the page, the command says how to get it.
#[test]
fn a_page_that_is_missing_can_be_built() {
    let folder = temporary_directory("lab");
    let copy = folder.join("ferroce");
    std::fs::copy(FERROCE, &copy).expect("our own folder");
    let run = || {
        let output = Command::new(&copy).args(["lab", "--print"]).output();
        output.expect("the command starts")
    };
    let missing = run();
    assert_eq!(missing.status.code(), Some(125));
    let error = String::from_utf8_lossy(&missing.stderr);
    assert!(error.contains("`make lab` builds it"), "{error}");
    let page = folder.join("share/ferroce");
    std::fs::create_dir_all(&page).expect("our own folder");
    std::fs::write(page.join("lab.html"), "").expect("our own folder");
    let found = run();
    let path = String::from_utf8_lossy(&found.stdout);
    assert!(
        found.status.success() && path.ends_with("share/ferroce/lab.html\n"),
        "{path}"
    );
}
