//! The cost of an open device, and the resources that remain after it is closed.

use ferroce_tests::Scratch;

/// Goal: opening touches little memory, and closing returns every descriptor, even if the program
/// has not destroyed its objects. Method: `tests/c/open_close.c` counts page faults, resident
/// memory and descriptors.
#[test]
fn opening_is_cheap_and_closing_leaves_no_descriptor() {
    let scratch = Scratch::new();
    let program = scratch.compile("open_close");
    let output = scratch.finish(scratch.run(&[], &program, &[]));
    let output = output.expect_success();
    assert!(output.ends_with("0 failures\n"), "{output}");
}

/// Goal: a program may use verbs in a fiber. Method: call all verbs, including opening and closing,
/// on 16 KiB of stack; using one more page ends the program.
#[test]
fn verbs_need_no_more_than_16_kib_of_stack() {
    let scratch = Scratch::new();
    let program = scratch.compile("small_stack");
    let output = scratch.finish(scratch.run(&[], &program, &[]));
    let output = output.expect_success();
    assert!(output.ends_with("0 failures\n"), "{output}");
}

/// Goal: each context has its own function while there are enough, and contexts on different
/// functions communicate like contexts of different programs. Method: QPNs show the function.
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

/// Goal: a device that can have only one function reports it. Method: the environment requests
/// several functions and a wire, so `ferroce run` does not see the contradiction.
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
