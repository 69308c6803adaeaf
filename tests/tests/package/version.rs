//! `ferroce -V`, and how the build finds the revision.

#[path = "../../../sim/build/revision.rs"]
mod revision;

use std::fs;
use std::path::Path;
use std::process::Command;

use ferroce_tests::Scratch;

use super::{output, project};

const HASH: &str = "0123456789abcdef0123456789abcdef01234567";
/// The file before `git archive` fills it in.
const TEMPLATE: &str = "$Format:%H$\n";

fn git(scratch: &Scratch, folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    let name = ["-c", "user.name=tests", "-c", "user.email=tests@localhost"];
    command.arg("-C").arg(folder).args(name).args(arguments);
    scratch.finish(command).expect_success().trim().to_owned()
}

/// Makes sources with the files that the revision depends on, without git.
fn sources(scratch: &Scratch, name: &str) -> std::path::PathBuf {
    let root = scratch.path(name);
    fs::create_dir_all(root.join("sim/build")).expect("our own folder");
    fs::write(root.join(revision::FILE), TEMPLATE).expect("our own folder");
    fs::copy(project(".gitattributes"), root.join(".gitattributes")).expect("a file of ours");
    root
}

/// Goal: the command prints name, version and revision. Method: the revision is the commit of this
/// repository from which the sources come.
#[test]
fn the_command_names_its_revision() {
    let scratch = Scratch::new();
    let said = scratch.finish(scratch.ferroce(&["-V"])).expect_success();
    let rest = said
        .trim()
        .strip_prefix(concat!("ferroce ", env!("CARGO_PKG_VERSION"), " ("));
    let found = rest.and_then(|rest| rest.strip_suffix(')'));
    let found = found.unwrap_or_else(|| panic!("no revision: {said}"));
    if !project(".git").exists() {
        return;
    }
    let ancestor = ["merge-base", "--is-ancestor", found, "HEAD"];
    git(&scratch, &project(""), &ancestor);
}

#[test]
fn the_revision_is_that_of_git() {
    let scratch = Scratch::new();
    let root = sources(&scratch, "sources");
    git(&scratch, &root, &["init", "-q", "-b", "main"]);
    git(&scratch, &root, &["add", "."]);
    git(&scratch, &root, &["commit", "-q", "-m", "first"]);
    let first = git(&scratch, &root, &["rev-parse", "HEAD"]);
    assert_eq!(revision::find(&root, None).as_deref(), Ok(&first[..12]));
    // Each commit changes one of the files that cargo watches.
    let branch = root.join(".git/refs/heads/main");
    let is_watched = |path: &std::path::PathBuf| path.ends_with(".git/refs/heads/main");
    assert!(revision::depends_on(&root).iter().any(is_watched) && branch.exists());
    git(
        &scratch,
        &root,
        &["commit", "-q", "--allow-empty", "-m", "second"],
    );
    let second = git(&scratch, &root, &["rev-parse", "HEAD"]);
    assert_ne!(first, second);
    assert_eq!(revision::find(&root, None).as_deref(), Ok(&second[..12]));
    // In a worktree, `.git` is a file.
    let other = scratch.path("worktree");
    git(
        &scratch,
        &root,
        &["worktree", "add", "-q", &other.to_string_lossy()],
    );
    assert_eq!(revision::find(&other, None).as_deref(), Ok(&second[..12]));
}

/// Goal: an archive of the sources knows its commit. Method: `git archive`, unpacked into a folder
/// of a repository with a different commit.
#[test]
fn an_archive_has_the_revision_in_a_file() {
    let scratch = Scratch::new();
    let root = sources(&scratch, "sources");
    git(&scratch, &root, &["init", "-q"]);
    git(&scratch, &root, &["add", "."]);
    git(&scratch, &root, &["commit", "-q", "-m", "archived"]);
    let archived = git(&scratch, &root, &["rev-parse", "HEAD"]);
    let archive = scratch.path("archive.tar");
    let archive = archive.to_string_lossy();
    git(&scratch, &root, &["archive", "-o", &archive, "HEAD"]);
    let other = scratch.path("other");
    let unpacked = other.join("unpacked");
    fs::create_dir_all(&unpacked).expect("our own folder");
    git(&scratch, &other, &["init", "-q"]);
    git(
        &scratch,
        &other,
        &["commit", "-q", "--allow-empty", "-m", "of other sources"],
    );
    output(
        &scratch,
        "tar",
        &["-xf", &archive, "-C", &unpacked.to_string_lossy()],
    );
    assert_eq!(
        revision::find(&unpacked, None).as_deref(),
        Ok(&archived[..12])
    );
}

#[test]
fn without_git_and_archive_the_builder_names_it() {
    let scratch = Scratch::new();
    let root = sources(&scratch, "sources");
    assert_eq!(
        revision::find(&root, None).as_deref(),
        Ok(revision::UNKNOWN)
    );
    assert_eq!(
        revision::find(&root, Some("")).as_deref(),
        Ok(revision::UNKNOWN)
    );
    assert_eq!(
        revision::find(&root, Some(HASH)).as_deref(),
        Ok(&HASH[..12])
    );
    assert_eq!(
        revision::find(&root, Some("0123ABC")).as_deref(),
        Ok("0123abc")
    );
    for wrong in ["main", "0123ab", "v0.1.0"] {
        let error = revision::find(&root, Some(wrong)).expect_err("not a hash");
        assert!(
            error.contains(wrong) && error.contains(revision::VARIABLE),
            "{error}"
        );
    }
}
