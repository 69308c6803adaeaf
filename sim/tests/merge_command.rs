//! `--shard` and `ferroce merge`: all shards together print what the command prints, byte for byte.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

/// A folder that is removed with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("ferroce-merge-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("a temporary folder");
        Self(path)
    }

    fn ferroce(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ferroce"));
        command.current_dir(&self.0).args(words);
        command.output().expect("it runs")
    }

    /// Runs shard `number` of `count` of a command line, and returns the name of its file.
    fn shard(&self, line: &str, number: usize, count: usize) -> String {
        let shard = format!("{number}/{count}");
        let words: Vec<_> = line.split(' ').chain(["--shard", &shard]).collect();
        let output = self.ferroce(&words);
        assert!(output.status.success(), "{line}: {output:?}");
        let name = format!("{number}-of-{count}.json");
        fs::write(self.0.join(&name), output.stdout).expect("our own folder");
        name
    }

    /// Runs all shards, and returns the names of their files, the last one first.
    fn shards(&self, line: &str, count: usize) -> Vec<String> {
        let numbers = (1..=count).rev();
        numbers
            .map(|number| self.shard(line, number, count))
            .collect()
    }

    fn merge(&self, files: &[String], more: &[&str]) -> Output {
        let files = files.iter().map(String::as_str);
        let words = ["merge"].into_iter().chain(files);
        self.ferroce(&Vec::from_iter(words.chain(more.iter().copied())))
    }

    /// Returns the message of a merge that is refused.
    fn refusal(&self, files: &[String]) -> String {
        const FAILURE: i32 = 125;
        let output = self.merge(files, &[]);
        assert_eq!(output.status.code(), Some(FAILURE), "{output:?}");
        assert!(output.stdout.is_empty(), "{output:?}");
        String::from_utf8(output.stderr).expect("text")
    }

    /// Fails unless the merged shards of a command line print the same as the command, as text and
    /// as JSON, and end in the same way.
    fn expect_equal(&self, line: &str, count: usize) {
        let files = self.shards(line, count);
        for json in [&[][..], &["--json"]] {
            let words: Vec<_> = line.split(' ').chain(json.iter().copied()).collect();
            let (whole, merged) = (self.ferroce(&words), self.merge(&files, json));
            assert!(!whole.stdout.is_empty(), "{line}: {whole:?}");
            let texts = [&merged, &whole].map(|output| String::from_utf8_lossy(&output.stdout));
            assert!(
                texts[0] == texts[1],
                "{line}: merged\n{}\nis not\n{}\n{:?}",
                texts[0],
                texts[1],
                String::from_utf8_lossy(&merged.stderr)
            );
            assert_eq!(merged.status, whole.status, "{line}");
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that is left does no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}

const SEEDS: &str = "sim --seeds 9 --first 3";

/// Goal: a sweep is the same, for bandwidths, latencies, and flows in a fabric, with more shards
/// than pieces, too.
#[test]
fn a_merged_sweep_is_the_sweep() {
    let folder = Folder::new("sweep");
    let bandwidth =
        "perf write_bw --preset cx5-100g -n 100 --sweep size=64,4K,64K --sweep qps=1..4";
    folder.expect_equal(bandwidth, 4);
    let latency = "perf read_lat --preset cx6-200g@epyc-hdr -n 100 --sweep size=2,64";
    folder.expect_equal(latency, 3);
    let flows = "perf write_bw --preset cx5-100g -s 64K -n 50 --pattern incast --fabric star \
                 --sweep hosts=3,5";
    folder.expect_equal(&flows.split_whitespace().collect::<Vec<_>>().join(" "), 2);
}

/// Goal: what else a sweep writes is written by the merge, and not by a shard.
#[test]
fn files_of_the_command_are_written_by_the_merge() {
    let folder = Folder::new("files");
    let line = "perf send_bw --preset irdma-10g -n 100 --sweep size=64,1K,4K \
                --csv rows.csv --json rows.json";
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    let files = folder.shards(&line, 2);
    let read = |name: &str| fs::read_to_string(folder.0.join(name)).ok();
    assert_eq!((read("rows.csv"), read("rows.json")), (None, None));
    let merged = folder.merge(&files, &[]);
    let of_merge = (merged.stdout, read("rows.csv"), read("rows.json"));
    let whole = folder.ferroce(&line.split(' ').collect::<Vec<_>>());
    let of_whole = (whole.stdout, read("rows.csv"), read("rows.json"));
    assert!(of_whole.1.is_some() && of_whole.2.is_some());
    assert!(of_merge == of_whole, "{of_merge:?}\n{of_whole:?}");
}

/// Goal: targets that pass, are fitted, excused, and missed are judged alike.
#[test]
fn a_merged_validation_is_the_validation() {
    let folder = Folder::new("validate");
    folder.expect_equal("validate --only V04,V17,V20,V22", 3);
    folder.expect_equal("validate --only V04a,V04c --perturb", 2);
}

#[test]
fn merged_seeds_are_the_seeds() {
    let folder = Folder::new("seeds");
    folder.expect_equal(SEEDS, 4);
}

/// Goal: a seed that fails is shortened by the merge as by the command. Method: packets take longer
/// than a round may.
#[test]
fn a_failing_seed_is_the_same_merged() {
    let folder = Folder::new("failing");
    let scenario = "hosts = 2\nrounds = 1\noperations = 9\nlimit_ms = 1\nfaults = \"delay=5ms\"\n";
    fs::write(folder.0.join("slow.toml"), scenario).expect("our own folder");
    let line = "sim --seeds 3 --scenario slow.toml";
    folder.expect_equal(line, 2);
    let output = folder.ferroce(&line.split(' ').collect::<Vec<_>>());
    assert_eq!(output.status.code(), Some(1), "{output:?}");
}

/// Goal: the message about a missing shard has the command that runs it: with its output the merge
/// is complete.
#[test]
fn a_missing_shard_is_named_and_can_be_run_alone() {
    let folder = Folder::new("missing");
    let mut files = folder.shards(SEEDS, 3);
    let second = files.remove(1);
    let error = folder.refusal(&files);
    let command = "ferroce sim --seeds 9 --first 3 --shard 2/3";
    assert!(error.contains("shard 2/3 is missing"), "{error}");
    assert!(error.contains(command), "{error}");
    // A shard that died has left the file empty, or the beginning of it.
    fs::write(folder.0.join(&second), "").expect("our own folder");
    files.push(second.clone());
    let error = folder.refusal(&files);
    for words in ["2-of-3.json: it is empty", command] {
        assert!(error.contains(words), "{error}");
    }
    assert_eq!(folder.shard(SEEDS, 2, 3), second);
    // The same file twice does no harm.
    files.push(second);
    let merged = folder.merge(&files, &[]);
    let whole = folder.ferroce(&SEEDS.split(' ').collect::<Vec<_>>());
    assert_eq!(merged.stdout, whole.stdout);
}

#[test]
fn shards_of_other_runs_are_refused() {
    let folder = Folder::new("other");
    let shard = |line, number, count| folder.shard(line, number, count);
    let first = shard(SEEDS, 1, 2);
    let other = shard("sim --seeds 9 --first 4", 2, 2);
    let error = folder.refusal(&[first.clone(), other]);
    assert!(error.contains("different runs"), "{error}");
    let third = shard(SEEDS, 3, 3);
    let error = folder.refusal(&[first.clone(), third]);
    assert!(error.contains("the same N"), "{error}");
    let changed = fs::read_to_string(folder.0.join(&first)).expect("it is there");
    let changed = changed.replace("\"frames\":", "\"frames\":1");
    fs::write(folder.0.join("changed.json"), changed).expect("our own folder");
    let error = folder.refusal(&[first, "changed.json".to_owned()]);
    assert!(error.contains("both shard 1/2"), "{error}");
}

/// Goal: a file that the command line names is the same for all shards and for the merge.
#[test]
fn a_changed_preset_is_refused() {
    let folder = Folder::new("preset");
    let line = "perf write_bw --preset mine.toml -n 50 --sweep size=64,128";
    let write = |rate: u32| {
        let value = format!("{{ value = {rate}.0, origin = \"design\", source = \"a test\" }}");
        let text = format!("inherits = \"cx5-100g\"\n[mac]\nrate_gbps = {value}\n");
        fs::write(folder.0.join("mine.toml"), text).expect("our own folder");
    };
    write(100);
    let first = folder.shard(line, 1, 2);
    write(50);
    let second = folder.shard(line, 2, 2);
    let error = folder.refusal(&[first.clone(), second]);
    assert!(error.contains("different inputs"), "{error}");
    write(100);
    let second = folder.shard(line, 2, 2);
    write(50);
    let error = folder.refusal(&[first, second]);
    assert!(error.contains("from other inputs"), "{error}");
}

#[test]
fn impossible_shards_are_refused() {
    const USAGE: i32 = 2;
    let folder = Folder::new("impossible");
    for (line, code, words) in [
        ("sim --seeds 2 --shard 0/0", USAGE, "N is 1 to 100000"),
        ("sim --seeds 2 --shard 3/2", USAGE, "1/2 to 2/2"),
        ("sim --seed 2 --shard 1/2", 125, "only --seeds has parts"),
        ("compare --list --shard 1/2", 125, "only --all has parts"),
        (
            "validate --blind x --shard 1/2",
            125,
            "--blind has no parts",
        ),
        (
            "perf write_bw --preset cx5-100g -s 64 --explain --shard 1/2",
            125,
            "one size",
        ),
    ] {
        let output = folder.ferroce(&line.split(' ').collect::<Vec<_>>());
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{line}: {error}");
        assert!(error.contains(words), "{line}: {error}");
        assert!(output.stdout.is_empty(), "{line}");
    }
}
