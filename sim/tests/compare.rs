//! `ferroce compare`, `validate` and `report` as a user calls them.

use std::process::{Command, Output};

use ferroce_test_support::temporary_directory;

fn ferroce(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferroce"));
    command
        .args(arguments)
        .output()
        .expect("the command of this crate")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn fixture(name: &str) -> String {
    let folder = env!("CARGO_MANIFEST_DIR");
    format!("{folder}/lab/src/reference/fixtures/{name}.txt")
}

#[test]
fn output_of_perftest_is_compared_as_it_is() {
    let file = fixture("ib_atomic_bw");
    let arguments = ["compare", "cx5-100g", "--measured", &file];
    let (first, second) = (ferroce(&arguments), ferroce(&arguments));
    let shown = text(&first.stdout);
    assert!(first.status.success(), "{}", text(&first.stderr));
    assert!(
        shown.contains("ib_atomic_bw.txt on cx5-100g") && shown.contains("median"),
        "{shown}"
    );
    assert_eq!(
        first.stdout, second.stdout,
        "the same command prints the same"
    );
}

#[test]
fn what_is_no_table_is_refused_with_its_line() {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src/main.rs");
    let refused = ferroce(&["compare", "cx5-100g", "--measured", source]);
    assert_eq!(refused.status.code(), Some(125));
    let error = text(&refused.stderr);
    assert!(
        error.contains("line ") && error.contains("#bytes"),
        "{error}"
    );
    let unknown = ferroce(&["compare", "cx5-100g", "no_such_table"]);
    assert!(text(&unknown.stderr).contains("--list"), "{unknown:?}");
}

#[test]
fn targets_that_need_no_hosts_pass() {
    let done = ferroce(&["validate", "--only", "V17,V18,V20", "--json"]);
    let shown = text(&done.stdout);
    assert!(done.status.success(), "{shown}");
    assert!(
        shown.contains("\"passed\": 6") && shown.contains("\"covered\": 6"),
        "{shown}"
    );
}

#[test]
fn a_report_of_one_plot_is_a_page_and_two_files() {
    let folder = temporary_directory("report");
    let name = folder.to_string_lossy().into_owned();
    let done = ferroce(&["report", "--out", &name, "--plot", "loss"]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    for file in ["index.html", "loss.svg", "loss.csv"] {
        let length = std::fs::metadata(folder.join(file))
            .expect("it was written")
            .len();
        assert!(length > 1000, "{file}: {length} bytes");
    }
}
