//! Registered memory, in simulated and in real time: data arrives, and after deregistration the
//! memory is normal again.

use ferroce_tests::Scratch;

fn run(options: &[&str], arguments: &[&str]) {
    let scratch = Scratch::new();
    let program = scratch.compile("registered");
    let command = scratch.run(options, &program, arguments);
    let output = scratch.finish(command).expect_success();
    assert!(output.ends_with("0 failures\n"), "{output}");
}

#[test]
fn registered_memory() {
    run(&[], &[]);
}

#[test]
fn registered_memory_in_simulated_time() {
    run(&["--timed", "cx5-100g"], &["shared"]);
}
