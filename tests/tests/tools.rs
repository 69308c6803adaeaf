//! Tools with which people look for errors in their programs: the address sanitizer, valgrind.

use ferroce_tests::{Scratch, free_port, run_pair};

const SANITIZED: &[&str] = &["-fsanitize=address", "-fno-omit-frame-pointer"];

/// Goal: a sanitized program runs, finds nothing in this library, and keeps its own handlers.
#[test]
fn sanitized_programs_run() {
    let scratch = Scratch::new();
    for (name, arguments) in [
        ("vanishing", &["munmap"][..]),
        ("vanishing", &["handlers"]),
        ("completions", &[]),
    ] {
        let program = scratch.compile_with(name, SANITIZED);
        let output = scratch.finish(scratch.run(&[], &program, arguments));
        let output = output.expect_success();
        assert!(output.ends_with("0 failures\n"), "{name}: {output}");
    }
}

/// Goal: the sanitizer still finds what it is there for.
#[test]
fn the_sanitizer_finds_errors_of_the_program() {
    let scratch = Scratch::new();
    let program = scratch.compile_with("overflow", SANITIZED);
    let ended = scratch.finish(scratch.run(&[], &program, &[]));
    assert!(
        ended.status.is_some_and(|status| !status.success()),
        "{}",
        ended.output
    );
    let found = ended.output.contains("heap-buffer-overflow");
    assert!(found, "{}", ended.output);
}

/// Goal: valgrind has nothing to report. Method: it ends the program with a separate code if it
/// has; a sum of what it found is in the output.
#[test]
fn valgrind_has_nothing_to_report() {
    let scratch = Scratch::new();
    let port = free_port();
    let port_text = port.to_string();
    let mut arguments = vec!["--error-exitcode=9", "--num-callers=20", "ibv_rc_pingpong"];
    arguments.extend("-g 1 -c -n 50 -s 9000 -p".split_whitespace());
    arguments.push(&port_text);
    let server = scratch.run(&[], "valgrind", &arguments);
    arguments.push("127.0.0.1");
    let client = scratch.run(&[], "valgrind", &arguments);
    let (server, client) = run_pair(&scratch, port, server, client);
    for output in [server, client] {
        assert!(output.contains("ERROR SUMMARY: 0 errors"), "{output}");
    }
}
