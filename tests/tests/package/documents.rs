//! Man pages and completions.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use ferroce_tests::Scratch;

use super::{is_here, output};

/// Returns the subcommands that the help of a command lists.
fn subcommands(scratch: &Scratch, path: &[&str]) -> Vec<String> {
    let mut command = scratch.ferroce(path);
    command.arg("--help");
    let help = scratch.finish(command).expect_success();
    let Some(listed) = help.split("\nCommands:\n").nth(1) else {
        return Vec::new();
    };
    let lines = listed.lines().take_while(|line| !line.is_empty());
    let names = lines.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    names
        .filter(|name| !name.is_empty() && *name != "help")
        .map(str::to_owned)
        .collect()
}

/// Returns the names of the expected pages.
fn expected_pages(scratch: &Scratch) -> BTreeSet<String> {
    let mut pages = BTreeSet::from(["ferroce.1".to_owned()]);
    let commands = subcommands(scratch, &[]);
    assert!(commands.len() > 20, "only {commands:?}");
    for command in commands {
        for below in subcommands(scratch, &[&command]) {
            pages.insert(format!("ferroce-{command}-{below}.1"));
        }
        pages.insert(format!("ferroce-{command}.1"));
    }
    pages
}

fn write_pages(scratch: &Scratch, folder: &str) -> BTreeSet<String> {
    let path = scratch.path(folder);
    let mut command = scratch.ferroce(&["man"]);
    command.arg(&path);
    scratch.finish(command).expect_success();
    let entries = fs::read_dir(path).expect("a folder of pages");
    let names = entries.map(|entry| entry.expect("a page").file_name());
    names
        .map(|name| name.into_string().expect("a plain name"))
        .collect()
}

/// Goal: `man` finds a page for each command. Method: the lists of the commands' help.
#[test]
fn every_command_has_a_page() {
    let scratch = Scratch::new();
    let expected = expected_pages(&scratch);
    assert_eq!(write_pages(&scratch, "man"), expected);
    for page in expected {
        let text = fs::read_to_string(scratch.path("man").join(&page)).expect("a page");
        for section in [".TH ", ".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION"] {
            assert!(text.contains(section), "{page} has no {section}");
        }
    }
}

/// Goal: the pages are well-formed. Method: groff formats each with all warnings enabled; each line
/// of an example is a line of the page.
#[test]
fn groff_has_no_warnings() {
    let scratch = Scratch::new();
    if !is_here("groff", "man pages in groff") {
        return;
    }
    for page in write_pages(&scratch, "man") {
        let mut command = Command::new("groff");
        let options = ["-man", "-ww", "-Tutf8", "-K", "utf8", "-rLL=100n", "-P-c"];
        command.args(options).arg(scratch.path("man").join(&page));
        let output = command.output().expect("groff runs");
        let warnings = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && warnings.is_empty(),
            "{page}: {warnings}"
        );
        let text = String::from_utf8_lossy(&output.stdout);
        if page == "ferroce.1" {
            let example = "ferroce run -- ib_write_bw 127.0.0.1        the client";
            assert!(text.contains(example), "{text}");
        }
    }
}

/// Goal: if a folder cannot be created, the error names it.
#[test]
fn pages_need_a_folder() {
    let scratch = Scratch::new();
    let file = scratch.path("file");
    fs::write(&file, "").expect("our own folder");
    let mut command = scratch.ferroce(&["man"]);
    command.arg(file.join("below"));
    let ended = scratch.finish(command);
    assert!(!ended.succeeded(), "{ended:?}");
    assert!(
        ended.output.contains("file/below cannot be created"),
        "{ended:?}"
    );
}

fn completions(scratch: &Scratch, shell: &str) -> String {
    let command = scratch.ferroce(&["completions", shell]);
    let text = scratch.finish(command).expect_success();
    let path = scratch.path(shell);
    fs::write(&path, text).expect("our own folder");
    path.to_string_lossy().into_owned()
}

#[test]
fn bash_completes_commands_and_options() {
    let scratch = Scratch::new();
    let file = completions(&scratch, "bash");
    let complete = r#"
        source "$1" && complete -p ferroce >&2 || exit 1
        COMP_WORDS=(ferroce "${@:2}") COMP_CWORD=$(($# - 1))
        _ferroce ferroce "${!#}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}""#;
    for (words, expected) in [
        (&["selft"] as &[&str], "selftest"),
        (&["perf", "--pres"], "--preset"),
        (&["completions", "fi"], "fish"),
    ] {
        let mut command = Command::new("bash");
        command
            .args(["--norc", "-c", complete, "bash", &file])
            .args(words);
        let output = command.output().expect("bash runs");
        let found = String::from_utf8_lossy(&output.stdout);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {said}");
        assert_eq!(found.trim(), expected, "{words:?}: {said}");
    }
}

#[test]
fn zsh_loads_the_completions() {
    let scratch = Scratch::new();
    let file = completions(&scratch, "zsh");
    if !is_here("zsh", "completions in zsh") {
        return;
    }
    let load = "autoload -U compinit && compinit -D -u && source $1 && print ${_comps[ferroce]}";
    assert_eq!(
        output(&scratch, "zsh", &["-f", "-c", load, "zsh", &file]).trim(),
        "_ferroce"
    );
}

#[test]
fn fish_completes_commands() {
    let scratch = Scratch::new();
    let file = completions(&scratch, "fish");
    if !is_here("fish", "completions in fish") {
        return;
    }
    let home = scratch.path("home");
    let mut command = Command::new("fish");
    let ask = format!("source {file}; complete --do-complete 'ferroce selft'");
    command.args(["--no-config", "-c", &ask]).env("HOME", home);
    let found = scratch.finish(command).expect_success();
    assert!(found.starts_with("selftest\t"), "{found}");
}
