//! Programs that give up root after they have opened the device, as daemons do:
//! `tests/c/dropped.c`.

use ferroce_tests::{Scratch, is_root};

/// Returns the output of the program with these arguments, or `None` if this cannot be tested here.
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

/// Goal: a process needs no more rights after it has opened the device. Method: one process drops
/// root; its peer drops root before it, after it, or never. All pairs are tested.
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
