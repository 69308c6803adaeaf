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
    format!("{folder}/perf/fixtures/{name}.txt")
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

/// Goal: a user hears that the host of the profile is not the own one, and which measured table is
/// nearest. Method: a table of the project under another name, on the profile that was derived from
/// it.
#[test]
fn a_users_table_has_another_host() {
    let folder = temporary_directory("compare");
    let mine = folder.join("mine.csv");
    let table = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/lab/reference/perftest_cx6_hdr200_ib_write_lat.csv"
    );
    std::fs::copy(table, &mine).expect("a copy");
    let mine = mine.display().to_string();
    let shown = ferroce(&["compare", "cx6-200g@epyc-hdr", "--measured", &mine]);
    let shown = text(&shown.stdout);
    assert!(
        shown.contains("nearest built-in table is cx6_hdr200_ib_write_lat, 0.0 % away"),
        "{shown}"
    );
    assert!(shown.contains("host uncalibrated"), "{shown}");
    let own = ferroce(&["compare", "cx6-200g@epyc-hdr", "cx6_hdr200_ib_write_lat"]);
    let own = text(&own.stdout);
    assert!(
        !own.contains("nearest") && !own.contains("uncalibrated"),
        "{own}"
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
        shown.contains("\"predicted\": {\n") && shown.contains("\"failures\": []"),
        "{shown}"
    );
    let csv = text(&ferroce(&["validate", "--only", "V17c", "--csv"]).stdout);
    assert!(
        csv.lines().count() == 4 && csv.contains(",identity,"),
        "{csv}"
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

/// Returns a folder with measurements of a made-up card.
fn blind_folder(targets: &str) -> ferroce_test_support::TemporaryDirectory {
    let folder = temporary_directory("blind");
    let perftest = std::fs::read_to_string(fixture("ib_atomic_bw")).expect("a fixture");
    let files = [
        (
            "card.toml",
            "about = \"A made-up card\"\ninherits = \"fpga-100g\"\n\n[mac]\n\
             transmit_ns = { value = 100.0, origin = \"measured\", source = \"our lab\" }\n",
        ),
        ("targets.csv", targets),
        (
            "tables.toml",
            "about = \"Our lab\"\n\n[[table]]\nfile = \"atomic.txt\"\npreset = \"card.toml\"\n",
        ),
        ("atomic.txt", &perftest),
    ];
    for (name, text) in files {
        std::fs::write(folder.join(name), text).expect("a file in a temporary folder");
    }
    folder
}

const COLUMNS: &str = "id,preset,test,sizes,options,statistic,low,reference,high,unit,tolerance\n";

#[test]
fn a_blind_folder_is_judged_and_reported() {
    let line = "T1,card.toml@switched,write_lat,2,-c UC --set host.post_ns=70,typical,0.5,,9,us,\n";
    let folder = blind_folder(&format!("{COLUMNS}{line}"));
    let name = folder.to_string_lossy().into_owned();
    let done = ferroce(&["validate", "--blind", &name]);
    let shown = text(&done.stdout);
    assert!(done.status.success(), "{shown}{}", text(&done.stderr));
    for part in ["Our lab", "atomic.txt on ", "predicted 1 of 1 targets"] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    let missed = blind_folder(&format!("{COLUMNS}{}", line.replace("0.5,,9", "8,,9")));
    let name = missed.to_string_lossy().into_owned();
    let done = ferroce(&["validate", "--blind", &name, "--json"]);
    assert_eq!(done.status.code(), Some(1), "{done:?}");
    assert!(text(&done.stdout).contains("\"failure\": true"), "{done:?}");
    let page = folder.join("page");
    let page = page.to_string_lossy().into_owned();
    let done = ferroce(&["report", "--out", &page, "--blind", &name]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    let html = std::fs::read_to_string(format!("{page}/index.html")).expect("it was written");
    assert!(html.contains("Our lab") && html.contains(">T1<"), "{html}");
}

#[test]
fn options_of_a_blind_target_are_those_of_perf() {
    for (options, words) in [
        ("--speed 9", "--speed"),
        ("-s 64", "sizes stand in column sizes"),
        ("--sweep qps=1..4", "do not say what is run"),
        ("--set host.post=7", "host.post"),
    ] {
        let line = format!("T1,card.toml,write_lat,2,{options},typical,,1,,us,10 %\n");
        let folder = blind_folder(&format!("{COLUMNS}{line}"));
        let refused = ferroce(&["validate", "--blind", &folder.to_string_lossy()]);
        let error = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(125), "{error}");
        assert!(error.contains("targets.csv: line 2: "), "{error}");
        assert!(error.contains(words), "{words}: {error}");
    }
}

#[test]
fn moved_values_are_examined() {
    let done = ferroce(&["validate", "--perturb", "--only", "V17", "--json"]);
    let shown = text(&done.stdout);
    assert!(done.status.success(), "{shown}");
    assert!(
        shown.contains("\"parameters\": 2") && shown.contains("\"effective\": 2"),
        "{shown}"
    );
}
