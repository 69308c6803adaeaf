//! Finds the git revision of the sources: what the builder says, what git says, what the file
//! `revision.txt` of a source archive says, or `unknown`, in this order.
//!
//! The revision is that of the last commit. Changes that are not committed have no name.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Variable by which a builder without git names the revision.
pub const VARIABLE: &str = "FERROCE_GIT_HASH";
/// File, below the root, in which `git archive` writes the revision (`.gitattributes`).
pub const FILE: &str = "sim/build/revision.txt";
/// Revision of sources whose origin is not known.
pub const UNKNOWN: &str = "unknown";
/// Digits of a revision as it is shown.
const DIGITS: usize = 12;
/// Digits of a revision of which at least this many are given.
const DIGITS_MIN: usize = 7;

/// Returns the revision of the sources below `root`. `given` is the value of [`VARIABLE`].
///
/// # Errors
/// If `given` is not a revision.
pub fn find(root: &Path, given: Option<&str>) -> Result<String, String> {
    if let Some(given) = given.filter(|given| !given.is_empty()) {
        return shortened(given).ok_or_else(|| {
            format!("{VARIABLE}={given}: a git hash has {DIGITS_MIN} or more hexadecimal digits")
        });
    }
    let found = of_git(root).or_else(|| of_file(root));
    Ok(found.unwrap_or_else(|| UNKNOWN.to_owned()))
}

/// Returns the files whose change changes the result of [`find`].
pub fn depends_on(root: &Path) -> Vec<PathBuf> {
    let mut paths = vec![root.join(FILE)];
    let branch = git(root, &["rev-parse", "--symbolic-full-name", "HEAD"]);
    let names = ["HEAD".to_owned(), "packed-refs".to_owned()];
    for name in names.into_iter().chain(branch) {
        let path = git(root, &["rev-parse", "--git-path", &name]);
        paths.extend(
            path.map(|path| root.join(path))
                .filter(|path| path.exists()),
        );
    }
    paths
}

/// Returns the last commit, if the root is that of a repository: not if the sources are a folder
/// of a different repository.
fn of_git(root: &Path) -> Option<String> {
    shortened(&git(root, &["rev-parse", "--verify", "HEAD"])?)
}

/// Returns what `git archive` has written.
fn of_file(root: &Path) -> Option<String> {
    shortened(fs::read_to_string(root.join(FILE)).ok()?.trim())
}

/// Returns what git prints for the repository whose root is `root`.
fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    if !root.join(".git").exists() {
        return None;
    }
    let mut command = Command::new("git");
    // A builder is often root and the sources another user's; only names are read.
    command
        .args(["-c", "safe.directory=*", "-C"])
        .arg(root)
        .args(arguments);
    for variable in [
        "GIT_DIR",
        "GIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_COMMON_DIR",
    ] {
        command.env_remove(variable);
    }
    let output = command
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

fn shortened(hash: &str) -> Option<String> {
    let is_hash = hash.len() >= DIGITS_MIN && hash.chars().all(|c| c.is_ascii_hexdigit());
    is_hash.then(|| hash.chars().take(DIGITS).collect::<String>().to_lowercase())
}
