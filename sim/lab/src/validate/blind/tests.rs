//! A folder of one output of perftest and one file of targets, of a made-up card.

use std::fs;

use ferroce_perf::{Operation, Test};
use ferroce_test_support::{TemporaryDirectory, temporary_directory};

use super::*;
use crate::reference::experiment::tests::Constant;

const MODEL: Constant = Constant {
    rate_mpps: 4.0,
    latency_us: 1.5,
};

const CARD: &str = "about = \"Our card\"\ninherits = \"fpga-100g\"\n";
const TARGETS_FILE: &str = "# our lab\n\
    id,preset,test,sizes,options,statistic,low,reference,high,unit,tolerance\n\
    T1,card.toml,ib_write_lat,2,--direct,typical,,1.52,,us,10 %\n\
    T2,card.toml@switched,write_bw,64,-q 4,rate,,8.0,,Mops,10%\n\
    T3,card.toml,write_bw,64 4K 1M,,knee,,1048576,,,1 octave\n\
    T4,card.toml,read_lat,64,,typical,1,,2,us,\n";
const INDEX_FILE: &str = "about = \"A card that does not exist\"\n\n[[table]]\n\
    file = \"write_bw.txt\"\npreset = \"card.toml\"\ntolerance_percent = 20\n";
const PERFTEST: &str = "                    RDMA_Write BW Test\n\
    \x20#bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n\
    \x2064         5000             250.00             244.14             4.000000\n\
    \x20128        5000             500.00             488.28             4.000000\n\
    \x204096       5000             15800.00           15625.00           4.000000\n";

/// Reads the options that the tests use; the command has all of them.
fn command_line(words: &[String]) -> Result<PerfSpec, String> {
    let preset = Preset::load(&words[2]).map_err(|error| error.to_string())?;
    let (operation, test) = match words[0].as_str() {
        "write_lat" => (Operation::Write, Test::Latency),
        "read_lat" => (Operation::Read, Test::Latency),
        "write_bw" => (Operation::Write, Test::Bandwidth),
        other => return Err(format!("no test {other}")),
    };
    let mut spec = PerfSpec::new(preset, operation, test);
    if words.contains(&"-q".to_owned()) {
        spec.qps = 4;
    }
    Ok(spec)
}

fn folder(files: &[(&str, &str)]) -> TemporaryDirectory {
    let folder = temporary_directory("blind");
    for (name, text) in files {
        fs::write(folder.join(name), text).expect("a file in a temporary folder");
    }
    folder
}

fn files() -> Vec<(&'static str, &'static str)> {
    vec![
        ("card.toml", CARD),
        (TARGETS, TARGETS_FILE),
        (INDEX, INDEX_FILE),
        ("write_bw.txt", PERFTEST),
    ]
}

/// Returns the error for a folder in which one file has another text.
fn refused(name: &str, text: &str) -> String {
    let mut files = files();
    files.retain(|(other, _)| *other != name);
    files.push((name, text));
    let folder = folder(&files);
    let error = Folder::read(&folder, &command_line).expect_err("refused");
    error.replace(&*folder.to_string_lossy(), "DIR")
}

#[test]
fn a_made_up_card_is_judged() {
    let folder = folder(&files());
    let read = Folder::read(&folder, &command_line).expect("all is well");
    assert_eq!(read.count(), 5);
    let judgement = run(&MODEL, &read, || {});
    let words: Vec<_> = judgement
        .outcomes
        .iter()
        .map(|o| o.verdict.word())
        .collect();
    assert_eq!(words, ["pass", "FAIL", "pass", "pass"]);
    assert!(judgement.outcomes[1].preset == "card.toml@switched");
    let table = &judgement.tables[0];
    assert_eq!(table.verdict(), "pass, within 20 %");
    assert!(judgement.is_failure(), "T2 is missed");
    let text = judgement.text();
    for part in [
        "A card that does not exist\n",
        "write_bw.txt on ",
        "small    64 to 4 KiB: 3 sizes, median 0.0 %",
        "predicted 3 of 4 targets within tolerance",
        "FAIL: T2",
        "tables    1 of 1 within tolerance, 0 without one",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let json = judgement.json();
    assert_eq!(json["summary"]["by_basis"]["predicted"]["passed"], 3);
    assert_eq!(json["tables"][0]["comparison"]["sizes"][2]["bytes"], 4096);
    assert_eq!(json["failure"], true);
}

#[test]
fn a_table_beyond_its_tolerance_fails_by_class() {
    let folder = folder(&files());
    let read = Folder::read(&folder, &command_line).expect("all is well");
    let slow = Constant {
        rate_mpps: 3.0,
        ..MODEL
    };
    let table = &run(&slow, &read, || {}).tables[0];
    assert_eq!(table.verdict(), "FAIL: not within 20 %: small (25.0 %)");
    assert!(table.is_failure());
}

#[test]
fn what_is_wrong_in_targets_is_named_with_its_line() {
    let with = |from: &str, to: &str| refused(TARGETS, &TARGETS_FILE.replace(from, to));
    for (error, line, words) in [
        (with("-q 4,rate", "-q 4,speed"), 4, "one of typical, mean"),
        (with(",us,10 %", ",ns,10 %"), 3, "it is in us"),
        (with("10 %", "close"), 3, "write `10 %`"),
        (with("1.52", "1,52"), 3, "the columns are 11"),
        (with("1.52", "fast"), 3, "a number or nothing is expected"),
        (with("64 4K 1M", "64 4K"), 5, "3 at least"),
        (with("64 4K 1M", "many"), 5, "64 4K 1M"),
        (with("ib_write_lat", "ib_lat"), 3, "no test lat"),
        (with("T2,", "T1,"), 4, "each target has another one"),
        (
            with("read_lat,64,,typical,1,,2,us", "read_lat,64,,rate,1,,2,"),
            6,
            "of this test there are typical",
        ),
        (with(",1,,2,", ",,,,"), 6, "low, high or both are needed"),
        (with(",1,,2,", ",2,,1,"), 6, "low comes first"),
        (with("sizes", "size"), 2, "the columns are id, preset"),
        (with(",statistic", ",metric"), 2, "are needed"),
        (with("card.toml@switched", "card.toml@moon"), 4, "moon"),
    ] {
        assert!(
            error.starts_with(&format!("DIR/targets.csv: line {line}: ")),
            "{error}"
        );
        assert!(error.contains(words), "{words}: {error}");
    }
}

#[test]
fn what_is_wrong_in_the_index_is_named_with_its_line() {
    let with = |from: &str, to: &str| refused(INDEX, &INDEX_FILE.replace(from, to));
    for (error, line, words) in [
        (
            with("file =", "name ="),
            4,
            "file, preset and tolerance_percent",
        ),
        (with("preset = \"card.toml\"\n", ""), 3, "without `preset`"),
        (with("card.toml", "cx9"), 5, "cx9"),
        (with("write_bw.txt", "none.txt"), 4, "a file of this folder"),
        (with("= 20", "= \"20\""), 6, "a number of percent"),
        (with("about =", "title ="), 1, "`about` and `[[table]]`"),
        (with("[[table]]", "[[table"), 3, "TOML"),
    ] {
        assert!(
            error.starts_with(&format!("DIR/tables.toml: line {line}: ")),
            "{error}"
        );
        assert!(error.contains(words), "{words}: {error}");
    }
}

#[test]
fn no_file_is_left_out_in_silence() {
    let error = refused("read_bw.txt", PERFTEST);
    assert!(
        error.starts_with("DIR/read_bw.txt: tables.toml does not name it")
            && error.contains("file = \"read_bw.txt\""),
        "{error}"
    );
    let error = refused("write_bw.txt", "figures to come\n");
    assert!(error.starts_with("DIR/write_bw.txt: line 1: "), "{error}");
    let empty = folder(&[("card.toml", CARD)]);
    let error = Folder::read(&empty, &command_line).expect_err("nothing to judge");
    assert!(
        error.contains("neither targets.csv nor tables.toml"),
        "{error}"
    );
}
