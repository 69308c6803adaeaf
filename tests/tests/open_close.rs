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
