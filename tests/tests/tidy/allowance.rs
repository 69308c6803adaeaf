//! Allowances: the number of lines in a folder that may break a rule because they are older than
//! it. The numbers only shrink.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Mutex;

use super::root;

/// A line that breaks a rule.
pub(crate) struct Finding {
    folder: String,
    text: String,
}

impl Finding {
    /// Line `index` (the first is 0) of `file`, a path from the root, and the error there.
    pub(crate) fn new(file: &str, index: usize, what: impl std::fmt::Display) -> Self {
        Self {
            folder: folder_of(file),
            text: format!("{file}:{}: {what}", index + 1),
        }
    }
}

/// The crate to which a file belongs, or the folder at the top level; `.` for the root itself.
fn folder_of(file: &str) -> String {
    let mut folder = file;
    while let Some((above, _)) = folder.rsplit_once('/') {
        if root().join(above).join("Cargo.toml").exists() {
            return above.to_owned();
        }
        folder = above;
    }
    if folder == file { "." } else { folder }.to_owned()
}

type Table = BTreeMap<(String, String), usize>;

fn path() -> PathBuf {
    root().join("tests/expected/tidy.txt")
}

/// Lines `RULE FOLDER NUMBER`. A folder that is not named has none.
fn read() -> Table {
    let text = std::fs::read_to_string(path()).expect("the allowances are in the tree");
    let row = |line: &str| {
        let mut fields = line.split(' ').map(str::to_owned);
        let key = (fields.next()?, fields.next()?);
        Some((key, fields.next()?.parse().ok()?))
    };
    let rows = text.lines().map(|line| row(line).expect("three fields"));
    rows.collect()
}

/// The tests of one program run at the same time, and each may write.
static WRITING: Mutex<()> = Mutex::new(());

/// Writes the rows of `rule` that have become smaller. It raises none.
fn shrink(rule: &str, counts: &BTreeMap<&str, usize>) {
    let _alone = WRITING.lock();
    let mut table = read();
    table.retain(|(of, folder), allowed| {
        if of == rule {
            *allowed = (*allowed).min(counts.get(folder.as_str()).copied().unwrap_or(0));
        }
        *allowed > 0
    });
    let mut text = String::new();
    for ((rule, folder), allowed) in table {
        writeln!(text, "{rule} {folder} {allowed}").expect("a string grows");
    }
    std::fs::write(path(), text).expect("the allowances can be written");
}

/// Fails if a folder breaks `rule` in more lines than it may.
pub(crate) fn check(rule: &str, findings: &[Finding]) {
    let mut counts = BTreeMap::new();
    for finding in findings {
        *counts.entry(finding.folder.as_str()).or_insert(0) += 1;
    }
    if std::env::var_os("FERROCE_UPDATE").is_some() {
        shrink(rule, &counts);
    }
    let allowances = read();
    let mut report = String::new();
    for (folder, count) in counts {
        let key = (rule.to_owned(), folder.to_owned());
        let allowed = allowances.get(&key).copied().unwrap_or(0);
        if count > allowed {
            writeln!(
                report,
                "{folder} has {count} lines, of which {allowed} are allowed:"
            )
            .expect("a string grows");
            for finding in findings.iter().filter(|finding| finding.folder == folder) {
                writeln!(report, "  {}", finding.text).expect("a string grows");
            }
        }
    }
    assert!(report.is_empty(), "{rule}:\n{report}");
}
