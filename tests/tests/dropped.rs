//! Programs that give up root after they have opened the device, as daemons do:
//! `tests/c/dropped.c`.

use ferroce_tests::{Scratch, is_root};

/// Returns what the program printed with these arguments, or `None` where nothing can be tested.
fn run(options: &[&str], arguments: &[&str]) -> Option<String> {
    if !is_root() {
        eprintln!("NOT TESTED: only root can give up root");
        return None;
    }
    let scratch = Scratch::new();
    let program = scratch.compile("dropped");
    let command = scratch.run(options, &program, arguments);
    let output = scratch.finish(command).expect_success();
    assert!(output.contains("0 failures\n"), "{arguments:?}: {output}");
    Some(output)
}

/// Goal: what a process needs, it has since it opened the device. Method: every pair of one that
/// drops root with one that does the same, before or after, or stays root.
#[test]
fn data_moves_after_both_ends_or_one_have_dropped_root() {
    for pair in ["dd", "dk", "kd", "ed", "ek", "kk"] {
        let output = run(&[], &[pair]);
        assert!(
            output.is_none_or(|output| output == "0 failures\n"),
            "{pair}"
        );
    }
}

/// Goal: the same without any path to the directory in which programs meet.
#[test]
fn data_moves_after_a_change_of_the_root_directory() {
    for pair in ["rr", "rk", "kr"] {
        let output = run(&[], &[pair]);
        assert!(
            output.is_none_or(|output| output == "0 failures\n"),
            "{pair}"
        );
    }
}

/// Goal: failures of such a program are counted, although it cannot create files any more.
#[test]
fn what_fails_after_that_is_explained() {
    let Some(output) = run(&["--explain-errors"], &["dd", "failing"]) else {
        return;
    };
    assert!(output.contains("failed completions"), "{output}");
    assert!(!output.contains("no verb was refused"), "{output}");
}
