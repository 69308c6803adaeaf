//! Runs every command of README and book, as a reader who pastes it.
//!
//! A fence marked `sh` holds commands. All commands of a page run in one shell, in a folder that
//! contains the project's folders. Background processes are stopped at the end of their block. A
//! comment before a fence changes that:
//!
//! - `<!-- not run: REASON -->`: one of [`REASONS`];
//! - `<!-- slow -->`: only `make soak` runs it;
//! - `<!-- file: NAME -->`: the fence, of whatever language, is a file that the page uses.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use ferroce_tests::{Ended, Process, Scratch, ferroce};

/// Time limit of a page without its slow blocks.
const PAGE_TIMEOUT: Duration = Duration::from_secs(120);
/// Time limit of a page with its slow blocks.
const SLOW_PAGE_TIMEOUT: Duration = Duration::from_secs(1800);
/// Pages that run at the same time.
const SIDE_BY_SIDE: usize = 2;

/// Why a block is not run.
const REASONS: [&str; 10] = [
    "builds and tests everything",
    "needs a card",
    "needs a package of make package",
    "needs Docker",
    "needs a virtual machine",
    "needs make rtl",
    "needs the network",
    "needs two machines",
    "needs root",
    "needs the kernel's permission",
];
/// Number of blocks that are not run. A commit that raises it has to give a reason.
const NOT_RUN_MAX: usize = 29;

/// Use of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Use {
    Run,
    Slow,
    NotRun(String),
    File(String),
    /// No commands, but the output of a program, or a drawing.
    Shown,
}

/// A fence of a page.
#[derive(Debug, PartialEq, Eq)]
struct Block {
    /// Line of the fence, from 1.
    line: usize,
    language: String,
    text: String,
    usage: Use,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// README and the pages of the book, by their paths from the root.
fn pages() -> Vec<String> {
    let entries = fs::read_dir(root().join("docs/src")).expect("the book has a folder");
    let names = entries.map(|entry| entry.expect("a page").file_name());
    let book = names.map(|name| format!("docs/src/{}", name.to_str().expect("a plain name")));
    let mut pages: Vec<_> = book.chain(["README.md".to_owned()]).collect();
    pages.sort();
    pages
}

/// Returns what a comment before a fence says.
fn marked(comment: &str, language: &str) -> Use {
    let inner = comment
        .strip_prefix("<!--")
        .and_then(|rest| rest.strip_suffix("-->"));
    let inner = inner.unwrap_or_default().trim();
    let is_shell = language == "sh";
    match inner.split_once(':') {
        Some(("not run", reason)) => Use::NotRun(reason.trim().to_owned()),
        Some(("file", name)) => Use::File(name.trim().to_owned()),
        _ if inner == "slow" => Use::Slow,
        _ if is_shell => Use::Run,
        _ => Use::Shown,
    }
}

/// Returns the fences of a page.
fn blocks(text: &str) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    let mut open: Option<(Block, usize)> = None;
    let mut before = "";
    for (line, number) in text.lines().zip(1..) {
        let trimmed = line.trim_start();
        let indent = line.len() - trimmed.len();
        open = match (open, trimmed.strip_prefix("```")) {
            (None, Some(language)) => {
                let usage = marked(before.trim(), language);
                let (language, text) = (language.to_owned(), String::new());
                let block = Block {
                    line: number,
                    language,
                    text,
                    usage,
                };
                Some((block, indent))
            }
            (Some((block, _)), Some(_)) => {
                found.push(block);
                None
            }
            (Some((mut block, indent)), None) => {
                let content = line.get(indent..).unwrap_or_default();
                writeln!(block.text, "{content}").expect("a string takes everything");
                Some((block, indent))
            }
            (None, None) => None,
        };
        before = line;
    }
    assert_eq!(open, None, "a fence has no end");
    found
}

/// Returns the lines of a page that are code by their indentation, and so would not be run.
fn indented(text: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let (mut is_fenced, mut follows_blank, mut is_list) = (false, true, false);
    for (line, number) in text.lines().zip(1..) {
        let trimmed = line.trim_start();
        if trimmed.starts_with("```") {
            is_fenced = !is_fenced;
        } else if !is_fenced && !trimmed.is_empty() {
            let starts_item = trimmed.starts_with("- ")
                || trimmed
                    .split_once(". ")
                    .is_some_and(|(head, _)| head.parse::<u32>().is_ok());
            is_list = starts_item || (is_list && line.starts_with(' '));
            if follows_blank && !is_list && line.starts_with("    ") {
                found.push(number);
            }
        }
        follows_blank = trimmed.is_empty();
    }
    found
}

/// Ends a block: waits a moment for its background processes, and then stops them.
const END_OF_BLOCK: &str = "\
end_of_block() {
    local job
    for job in $(jobs -p); do
        for _ in $(seq 20); do kill -0 \"$job\" 2>/dev/null || break; sleep 0.1; done
        kill \"$job\" 2>/dev/null || true
    done
    wait
}
";

/// Returns the commands of a page as one script for bash. Each block prints its line number.
fn script(page: &str, blocks: &[Block], with_slow: bool) -> String {
    let mut script = format!("set -euo pipefail\n{END_OF_BLOCK}");
    for block in blocks {
        let (line, text) = (block.line, &block.text);
        let commands = match &block.usage {
            Use::Run => text.clone(),
            Use::Slow if with_slow => text.clone(),
            Use::File(name) => format!("cat >'{name}' <<'END OF FILE'\n{text}END OF FILE\n"),
            _ => continue,
        };
        write!(
            script,
            "echo \"=== {page}:{line} after $SECONDS s\"\n{commands}end_of_block\n"
        )
        .expect("a string takes everything");
    }
    script
}

/// Returns `true` if programs can have a separate network here, whose ports are all free.
fn has_own_network(scratch: &Scratch) -> bool {
    let mut command = Command::new("unshare");
    command.args(["-rn", "ip", "link", "set", "lo", "up"]);
    scratch.finish(command).succeeded()
}

/// Runs the script of a page in a folder that contains the project's folders.
fn run(script: &str, limit: Duration) -> Ended {
    let scratch = Scratch::new();
    let folder = scratch.path("page");
    fs::create_dir_all(folder.join("target")).expect("a new folder");
    for name in [
        "docs",
        "driver",
        "examples",
        "hw-model",
        "packaging",
        "provider",
        "sim",
        "tests",
    ] {
        symlink(root().join(name), folder.join(name)).expect("a new folder");
    }
    let binaries = ferroce()
        .parent()
        .expect("a file is in a folder")
        .to_owned();
    let binaries = binaries.canonicalize().expect("it is there");
    symlink(&binaries, folder.join("target/release")).expect("a new folder");
    fs::write(scratch.path("script"), script).expect("our own folder");
    let path = std::env::var("PATH").unwrap_or_default();
    let network: &[&str] = if has_own_network(&scratch) {
        &[
            "unshare",
            "-rn",
            "sh",
            "-c",
            "ip link set lo up && exec \"$@\"",
            "sh",
        ]
    } else {
        &["env"]
    };
    let mut command = scratch.program(Path::new(network[0]));
    command
        .args(&network[1..])
        .arg("bash")
        .arg(scratch.path("script"))
        .current_dir(&folder)
        .env("PATH", format!("{}:{path}", binaries.display()));
    Process::start(command, &scratch, "output", limit).wait()
}

/// Runs all pages; fails the test with the output of those that fail.
fn run_pages(with_slow: bool, limit: Duration) {
    let queue = Mutex::new(pages());
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE {
            scope.spawn(|| {
                loop {
                    let Some(page) = queue.lock().expect("no test panics here").pop() else {
                        return;
                    };
                    let blocks = blocks(&fs::read_to_string(root().join(&page)).expect("UTF-8"));
                    let ended = run(&script(&page, &blocks, with_slow), limit);
                    let times = ended.output.lines().filter(|line| line.starts_with("=== "));
                    times.for_each(|line| println!("{line}"));
                    if !ended.succeeded() {
                        let failure = format!("{page}: {}\n{}", ended.how(), ended.output);
                        failures.lock().expect("no test panics here").push(failure);
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().expect("no test panics here");
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// Goal: every command in README and book works. Method: run them.
#[test]
fn the_commands_of_the_documents_work() {
    run_pages(false, PAGE_TIMEOUT);
}

/// The same with the slow blocks.
#[test]
#[ignore = "takes minutes: make soak"]
fn the_slow_commands_of_the_documents_work() {
    run_pages(true, SLOW_PAGE_TIMEOUT);
}

/// Goal: no commands escape the test. Method: refuse indented code, and fences that begin like a
/// command but are not marked `sh`.
#[test]
fn every_command_is_in_a_fence_that_says_so() {
    let commands = [
        "ferroce ",
        "target/release/",
        "make ",
        "cargo ",
        "$ ",
        "apt ",
        "sudo ",
    ];
    let mut wrong = Vec::new();
    let mut count = 0;
    for page in pages() {
        let text = fs::read_to_string(root().join(&page)).expect("UTF-8");
        let lines = indented(&text).into_iter();
        wrong.extend(lines.map(|line| format!("{page}:{line}: code by indentation")));
        for block in blocks(&text) {
            count += usize::from(block.language == "sh");
            let is_command = commands.iter().any(|begin| block.text.starts_with(begin));
            if block.usage == Use::Shown && is_command {
                wrong.push(format!("{page}:{}: commands without `sh`", block.line));
            }
        }
    }
    assert!(count > 50, "only {count} blocks");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Goal: few blocks are left out, each for a reason that no test can remove.
#[test]
fn blocks_that_are_not_run_have_a_reason() {
    let mut count = 0;
    let mut wrong = Vec::new();
    for page in pages() {
        let text = fs::read_to_string(root().join(&page)).expect("UTF-8");
        for block in blocks(&text) {
            let Use::NotRun(reason) = &block.usage else {
                continue;
            };
            count += 1;
            if !REASONS.contains(&reason.as_str()) {
                wrong.push(format!("{page}:{}: {reason}", block.line));
            }
        }
    }
    assert!(wrong.is_empty(), "no reasons of the list: {wrong:#?}");
    assert!(count <= NOT_RUN_MAX, "{count} blocks are not run");
}

/// Goal: the parser finds every block. Method: a page with one block of each kind.
#[test]
fn blocks_are_found_with_what_is_said_of_them() {
    let page = "\
Text.

```sh
one
  two
```

1. An item:

   ```sh
   three
   ```

<!-- not run: needs a card -->
```sh
four
```
<!-- file: a.toml -->
```toml
five
```
```
six
```
";
    let found = blocks(page);
    let seen: Vec<_> = found
        .iter()
        .map(|block| (block.line, block.text.as_str(), block.usage.clone()))
        .collect();
    assert_eq!(
        seen,
        [
            (3, "one\n  two\n", Use::Run),
            (10, "three\n", Use::Run),
            (15, "four\n", Use::NotRun("needs a card".into())),
            (19, "five\n", Use::File("a.toml".into())),
            (22, "six\n", Use::Shown),
        ]
    );
    let script = script("p", &found, false);
    assert!(script.contains("\nthree\nend_of_block\n"), "{script}");
    assert!(script.contains("cat >'a.toml' <<"), "{script}");
    assert!(!script.contains("four"), "{script}");
    assert_eq!(indented("a\n\n    b\n\n- c\n\n    d\n"), [3]);
}

/// Goal: a command that fails is found. Method: one in the middle of a page, and a missing program.
#[test]
fn a_command_that_fails_is_found() {
    for bad in [
        "false",
        "no-such-program-anywhere | cat",
        "ferroce run --nothing",
    ] {
        let page = format!("```sh\necho before\n{bad}\necho behind\n```\n");
        let ended = run(&script("p", &blocks(&page), false), PAGE_TIMEOUT);
        assert!(!ended.succeeded(), "{bad}: {}", ended.output);
        assert!(ended.output.contains("before"), "{}", ended.output);
        assert!(!ended.output.contains("behind"), "{}", ended.output);
    }
}
