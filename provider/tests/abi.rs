//! Compares every mirrored struct with the installed verbs headers, by compiling a C program.
//!
//! The mirrors are newer than most headers: a field that the header lacks must be marked with the
//! release that introduced it. Without any header the test reports that and passes.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use ferroce_provider::abi::{StructLayout, layouts};

/// One line of the C program: the measured expression, and its value in Rust.
struct Check {
    name: String,
    expression: String,
    expected: usize,
    since: u32,
}

/// `r#type` is called `type` in C.
fn c_name(name: &str) -> &str {
    name.strip_prefix("r#").unwrap_or(name)
}

fn checks_of(layout: &StructLayout, partly_missing: bool) -> Vec<Check> {
    let c_type = format!("{} {}", layout.keyword, layout.name);
    let mut checks = Vec::new();
    if !partly_missing {
        checks.push(Check {
            name: format!("sizeof({c_type})"),
            expression: format!("sizeof({c_type})"),
            expected: layout.size,
            since: layout.since,
        });
    }
    for field in layout.fields {
        let name = c_name(field.name);
        let offset = format!("offsetof({c_type}, {name})");
        let (expression, expected) = if layout.grows_up {
            (
                format!("sizeof({c_type}) - {offset}"),
                layout.size - field.offset,
            )
        } else {
            (offset, field.offset)
        };
        let since = field.since.max(layout.since);
        checks.push(Check {
            name: format!("{c_type}.{name}"),
            expression,
            expected,
            since,
        });
        checks.push(Check {
            name: format!("sizeof({c_type}.{name})"),
            expression: format!("sizeof((({c_type} *)0)->{name})"),
            expected: field.size,
            since,
        });
    }
    checks
}

/// Returns the C program with one check per line, so that a compiler's message identifies the check
/// by its line.
fn program(checks: &[Check], left_out: &BTreeSet<usize>) -> String {
    let headers: BTreeSet<&str> = layouts().iter().map(|layout| layout.header).collect();
    let mut text = String::from("#include <stddef.h>\n#include <stdio.h>\n");
    for header in &headers {
        let _ = writeln!(text, "#include <{header}>");
    }
    text.push_str("int main(void) {\n");
    for (index, check) in checks.iter().enumerate() {
        if left_out.contains(&index) {
            text.push('\n');
        } else {
            let _ = writeln!(
                text,
                "printf(\"{index} %zu\\n\", (size_t)({}));",
                check.expression
            );
        }
    }
    text.push_str("return 0; }\n");
    text
}

/// Returns the line of the first check in [`program`].
fn first_line() -> usize {
    let headers: BTreeSet<&str> = layouts().iter().map(|layout| layout.header).collect();
    2 + headers.len() + 1 + 1
}

fn compile(source: &Path, program: &Path) -> (bool, String) {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let output = Command::new(compiler)
        .env("LC_ALL", "C")
        .args(["-w", "-O0", "-o"])
        .args([program, source])
        .output()
        .expect("a C compiler");
    (
        output.status.success(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

/// Returns the indices of the checks that the compiler's messages name.
fn refused(messages: &str, source: &Path) -> BTreeSet<usize> {
    let prefix = format!("{}:", source.display());
    messages
        .lines()
        .filter(|line| line.contains(" error: "))
        .filter_map(|line| {
            line.strip_prefix(&prefix)?
                .split(':')
                .next()?
                .parse::<usize>()
                .ok()
        })
        .map(|line| line - first_line())
        .collect()
}

fn scratch() -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("abi");
    std::fs::create_dir_all(&directory).expect("a scratch directory");
    directory
}

#[test]
fn layouts_equal_those_of_the_installed_header() {
    if !Path::new("/usr/include/infiniband/verbs.h").exists() {
        eprintln!("skipped: no <infiniband/verbs.h>; install libibverbs-dev");
        return;
    }
    let (source, binary) = (scratch().join("layout.c"), scratch().join("layout"));

    // First pass: finds the fields that this header has.
    let all: Vec<Check> = layouts()
        .iter()
        .flat_map(|layout| checks_of(layout, false))
        .collect();
    std::fs::write(&source, program(&all, &BTreeSet::new())).expect("write");
    let (compiled, messages) = compile(&source, &binary);
    let missing = refused(&messages, &source);
    assert!(
        compiled || !missing.is_empty(),
        "the header does not compile:\n{messages}"
    );
    let missing_names: BTreeSet<&str> = missing
        .iter()
        .map(|&index| all[index].name.as_str())
        .collect();
    for &index in &missing {
        let check = &all[index];
        assert!(
            check.since != 0,
            "{} is in no header of this release:\n{messages}",
            check.name
        );
    }

    // Second pass: without the missing fields, and without the sizes of structs that lack some.
    let lacks = |layout: &StructLayout| {
        checks_of(layout, false)
            .iter()
            .any(|check| missing_names.contains(check.name.as_str()))
    };
    let checks: Vec<Check> = layouts()
        .iter()
        .flat_map(|layout| checks_of(layout, lacks(layout)))
        .collect();
    let left_out = checks
        .iter()
        .enumerate()
        .filter(|(_, check)| missing_names.contains(check.name.as_str()))
        .map(|(index, _)| index)
        .collect();
    std::fs::write(&source, program(&checks, &left_out)).expect("write");
    let (compiled, messages) = compile(&source, &binary);
    assert!(compiled, "{messages}");
    let output = Command::new(&binary).output().expect("the program runs");
    let text = String::from_utf8(output.stdout).expect("numbers");
    let mut compared = 0;
    for line in text.lines() {
        let (index, measured) = line.split_once(' ').expect("two numbers");
        let check = &checks[index.parse::<usize>().expect("an index")];
        assert_eq!(
            check.expected,
            measured.parse::<usize>().expect("a size"),
            "{}",
            check.name
        );
        compared += 1;
    }
    assert_eq!(compared, checks.len() - left_out.len());
    println!(
        "{compared} sizes and offsets compared, {} newer than this header",
        left_out.len()
    );
}
