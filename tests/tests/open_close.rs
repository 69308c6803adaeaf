//! What a device costs while it is open, and what is left of it.

use ferroce_tests::Scratch;

/// Goal: opening touches little memory, and closing gives every descriptor back, whatever the
/// program has not destroyed. Method: page faults, resident memory and descriptors are counted in
/// `tests/c/open_close.c`.
#[test]
fn opening_is_cheap_and_closing_leaves_no_descriptor() {
    let scratch = Scratch::new();
    let program = scratch.compile("open_close");
    let output = scratch.finish(scratch.run(&[], &program, &[]));
    let output = output.expect_success();
    assert!(output.ends_with("0 failures\n"), "{output}");
}

/// Goal: a program may use verbs in a fiber. Method: all of them, opening and closing included, on
/// 16 KiB of stack; one more page ends the program.
#[test]
fn verbs_need_no_more_than_16_kib_of_stack() {
    let scratch = Scratch::new();
    let program = scratch.compile("small_stack");
    let output = scratch.finish(scratch.run(&[], &program, &[]));
    let output = output.expect_success();
    assert!(output.ends_with("0 failures\n"), "{output}");
}

/// Goal: each context has a function for itself while there are enough, and contexts on different
/// functions talk to each other as those of different programs do. Method: QPNs name the function.
#[test]
fn contexts_are_spread_over_functions() {
    let scratch = Scratch::new();
    let program = scratch.compile("functions");
    for count in ["1", "3", "8"] {
        let command = scratch.run(&["--functions", count], &program, &[count]);
        let output = scratch.finish(command).expect_success();
        assert!(output.ends_with("0 failures\n"), "{count}: {output}");
    }
    let left = scratch.devices();
    assert!(!left.contains("pid "), "{left}");
}

/// Goal: a device that can have one function only says so. Method: the number is in the environment
/// beside a wire, where `ferroce run` does not see the contradiction.
#[test]
fn a_device_with_a_wire_has_one_function() {
    let scratch = Scratch::new();
    let wire = "udp:127.0.0.1:4792,127.0.0.1:4793";
    let mut command = scratch.run(&["--port", wire], "ibv_devinfo", &[]);
    command.env("FERROCE_FUNCTIONS", "2");
    let ended = scratch.finish(command);
    assert!(!ended.expect_end().success());
    let output = ended.output;
    assert!(output.contains("FERROCE_FUNCTIONS=2"), "{output}");
}
