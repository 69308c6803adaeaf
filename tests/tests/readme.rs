//! The README says what is true.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn readme() -> String {
    fs::read_to_string(root().join("README.md")).expect("the README is at the root")
}

/// Everything between backquotes that names a function as `path/file.rs::function`.
fn named_functions(text: &str) -> Vec<(&str, &str)> {
    text.split('`')
        .skip(1)
        .step_by(2)
        .filter_map(|code| code.split_once(".rs::"))
        .collect()
}

/// Goal: a reader who follows the life of an RDMA WRITE finds every function where it is said to
/// be. Method: each `file::function` of the README is looked up in the sources.
#[test]
fn functions_that_the_readme_names_exist() {
    let text = readme();
    let named = named_functions(&text);
    assert!(
        named.len() >= 20,
        "the story names only {} functions",
        named.len()
    );
    find_all("README", &named);
}

/// Goal: whoever checks what SECURITY.md claims finds where it is done.
#[test]
fn functions_that_the_page_on_security_names_exist() {
    let path = root().join("SECURITY.md");
    let text = fs::read_to_string(path).expect("the page is at the root");
    let named = named_functions(&text);
    assert!(named.len() >= 15, "it names only {}", named.len());
    find_all("SECURITY", &named);
}

/// Fails the test unless each function is in its file.
fn find_all(page: &str, named: &[(&str, &str)]) {
    for (file, function) in named {
        let path = root().join(format!("{file}.rs"));
        let source = fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{page} names {file}.rs: {error}"));
        let definition = format!("fn {function}");
        let found = source
            .match_indices(&definition)
            .any(|(at, _)| source[at + definition.len()..].starts_with(['(', '<']));
        assert!(
            found,
            "{page} names {file}.rs::{function}, which is not there"
        );
    }
}

/// Goal: the map of the folders is complete. Method: every crate of the workspace is in it.
#[test]
fn folders_of_the_map_are_those_of_the_workspace() {
    let text = readme();
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("the workspace manifest");
    let members = manifest
        .split("members = [")
        .nth(1)
        .and_then(|rest| rest.split(']').next());
    for member in members
        .expect("the workspace has members")
        .split('"')
        .skip(1)
        .step_by(2)
    {
        assert!(
            text.contains(&format!("`{member}/`")),
            "the map lacks {member}/"
        );
    }
}

/// Goal: no dependency without a reason. Method: each line of `[workspace.dependencies]` that is
/// not one of our crates carries a comment.
#[test]
fn every_dependency_says_why() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("the workspace manifest");
    let dependencies = manifest
        .split("[workspace.dependencies]")
        .nth(1)
        .and_then(|rest| rest.split("\n[").next())
        .expect("the workspace declares its dependencies");
    for line in dependencies.lines().filter(|line| line.contains(" = ")) {
        let ours = line.starts_with("ferroce-");
        assert!(ours || line.contains(" # "), "no reason beside: {line}");
    }
}
