//! Tools that find errors in programs: sanitizers, valgrind, gdb, strace.

use ferroce_tests::{Ended, Scratch, free_port, run_pair};

const SANITIZED: &[&str] = &["-fsanitize=address", "-fno-omit-frame-pointer"];
/// A warning of GCC 12 and newer about the intended error of the program.
const USES_FREED_MEMORY: &str = "-Wno-error=use-after-free";

/// Fails the test unless the program ended with an error status and printed all of `words`.
fn expect_report(ended: &Ended, words: &[&str]) {
    let (what, output) = (&ended.what, &ended.output);
    assert!(!ended.expect_end().success(), "{what}: {output}");
    for word in words {
        assert!(output.contains(word), "{what}: no {word:?} in:\n{output}");
    }
}

/// Compiles `debugged` for a sanitizer.
fn debugged(scratch: &Scratch, options: &[&str]) -> String {
    let all: Vec<&str> = options.iter().copied().chain([USES_FREED_MEMORY]).collect();
    scratch.compile_with("debugged", &all)
}

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

/// Goal: the sanitizer still finds errors.
#[test]
fn the_sanitizer_finds_errors_of_the_program() {
    let scratch = Scratch::new();
    let program = scratch.compile_with("overflow", SANITIZED);
    let ended = scratch.finish(scratch.run(&[], &program, &[]));
    expect_report(&ended, &["heap-buffer-overflow"]);
}

/// Goal: each sanitizer runs, however it is linked, reports nothing about a correct program, and
/// finds its kind of error. Method: the same program with and without an error.
#[test]
fn each_sanitizer_finds_its_errors_and_no_others() {
    let races = ("race", "ThreadSanitizer: data race", "debugged.c");
    let freed = ("use-after-free", "heap-use-after-free", "use_after_free");
    for (options, (error, report, place)) in [
        (&["-fsanitize=address"][..], freed),
        (&["-fsanitize=address", "-static-libasan"], freed),
        (&["-fsanitize=address,undefined"], freed),
        (&["-fsanitize=thread"], races),
        (&["-fsanitize=thread", "-static-libtsan"], races),
        (&["-fsanitize=thread"], freed),
    ] {
        let scratch = Scratch::new();
        let program = debugged(&scratch, options);
        let clean = scratch.finish(scratch.run(&[], &program, &[]));
        assert_eq!(clean.expect_success(), "0 failures\n", "{options:?}");
        let ended = scratch.finish(scratch.run(&[], &program, &[error]));
        expect_report(&ended, &[report, place]);
    }
}

/// Goal: the thread sanitizer has nothing to report about a program that reads and acknowledges
/// events of every kind of object.
#[test]
fn the_thread_sanitizer_has_nothing_to_report() {
    const OPTION: &str = "-fsanitize=thread";
    let scratch = Scratch::new();
    let empty = scratch.path("empty.c");
    std::fs::write(&empty, "int main(void) { return 0; }\n").expect("our own folder");
    let mut compiler = scratch.program("cc".as_ref());
    let binary = scratch.path("empty");
    compiler.arg(OPTION).arg("-o").arg(&binary).arg(&empty);
    let runs = scratch.finish(compiler).succeeded() && {
        let empty = scratch.program(&binary);
        scratch.finish(empty).succeeded()
    };
    if !runs {
        eprintln!("NOT TESTED: the compiler has no thread sanitizer, or its programs do not run");
        return;
    }
    let program = scratch.compile_with("sanitized", &[OPTION]);
    let output = scratch.finish(scratch.run(&[], &program, &[]));
    assert_eq!(output.expect_success(), "0 failures\n");
}

/// Goal: leaks of the program are found, and only those. Method: LSan's exit code.
#[test]
fn leaks_of_the_program_are_found() {
    let scratch = Scratch::new();
    let program = debugged(&scratch, &["-fsanitize=leak"]);
    let clean = scratch.finish(scratch.run(&[], &program, &[]));
    assert_eq!(clean.expect_success(), "0 failures\n");
    let ended = scratch.finish(scratch.run(&[], &program, &["leak"]));
    expect_report(&ended, &["321 byte(s) leaked in 1 allocation(s)"]);
}

/// Goal: a sanitizer that the user has preloaded comes first, and works. Method: enable its check
/// of the order, with which it ends the program if it is not first.
#[test]
fn a_preloaded_sanitizer_stays_first() {
    let scratch = Scratch::new();
    let program = debugged(&scratch, SANITIZED);
    let run = |preloaded: Option<&str>, arguments: &[&str]| {
        let mut command = scratch.run(&[], &program, arguments);
        command.env("ASAN_OPTIONS", "verify_asan_link_order=1");
        if let Some(name) = preloaded {
            command.env("LD_PRELOAD", name);
        }
        scratch.finish(command)
    };
    let runtime = scratch.needed(&program, "libasan.so");
    let clean = run(Some(&runtime), &[]);
    assert_eq!(clean.expect_success(), "0 failures\n");
    expect_report(
        &run(Some(&runtime), &["use-after-free"]),
        &["heap-use-after-free"],
    );
    expect_report(&run(None, &[]), &["does not come first"]);
}

/// Goal: valgrind has nothing to report. Method: it ends the program with a separate exit code if
/// it finds errors, and its output has a summary.
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

/// Goal: valgrind shows only the leaks and errors of the program. Method: all kinds of leaks count
/// as errors, and have an exit code.
#[test]
fn valgrind_finds_errors_of_the_program_alone() {
    let scratch = Scratch::new();
    let program = debugged(&scratch, &[]);
    let run = |arguments: &[&str]| {
        let mut all = "--leak-check=full --show-leak-kinds=all --errors-for-leak-kinds=all"
            .split_whitespace()
            .chain(["--error-exitcode=9", &program])
            .collect::<Vec<_>>();
        all.extend(arguments);
        scratch.finish(scratch.run(&[], "valgrind", &all))
    };
    let output = run(&[]).expect_success();
    assert!(output.contains("ERROR SUMMARY: 0 errors"), "{output}");
    expect_report(&run(&["use-after-free"]), &["Invalid read of size 1"]);
    expect_report(&run(&["leak"]), &["321 bytes in 1 blocks are definitely"]);
}

/// Goal: gdb stops in the program and in the verbs library, and the program continues. Method: a
/// transcript.
#[test]
fn gdb_stops_in_program_and_library() {
    let scratch = Scratch::new();
    let program = debugged(&scratch, &[]);
    let commands = [
        "set width 0",
        "set debuginfod enabled off",
        "break send_round",
        "run",
        "backtrace 2",
        "print round",
        "delete 1",
        "break ibv_dereg_mr",
        "continue",
        "backtrace",
        "continue",
    ];
    let mut arguments = vec!["-nx", "-batch"];
    arguments.extend(commands.iter().flat_map(|command| ["-ex", command]));
    arguments.extend(["--args", &program]);
    let ended = scratch.finish(scratch.run(&[], "gdb", &arguments));
    let transcript = ended.expect_success();
    let mut rest = transcript.as_str();
    for expected in [
        "hit Breakpoint 1",
        "send_round (round=",
        "in write_and_poll ()",
        "$1 = 0",
        "hit Breakpoint 2",
        "ibv_dereg_mr",
        "in close_bench (",
        "0 failures",
        "exited normally",
    ] {
        let at = rest.find(expected);
        let at = at.unwrap_or_else(|| panic!("no {expected:?} in order:\n{transcript}"));
        rest = &rest[at + expected.len()..];
    }
}

/// Goal: a program that a debugger has stopped is not treated as a failed peer. Method: one end of
/// a connection stops at a breakpoint for longer than the 1.9 s of its 7 retries of 4 x 67 ms.
#[test]
fn a_peer_at_a_breakpoint_is_waited_for() {
    let scratch = Scratch::new();
    let port = free_port();
    let port_text = port.to_string();
    let mut ping = "-g 1 -n 50 -p".split_whitespace().collect::<Vec<_>>();
    ping.push(&port_text);
    let mut gdb = "-nx -batch -ex".split_whitespace().collect::<Vec<_>>();
    gdb.extend(["break ibv_get_cq_event"]);
    gdb.extend(["-ex", "run", "-ex", "shell sleep 3", "-ex", "delete"]);
    gdb.extend(["-ex", "continue", "--args", "ibv_rc_pingpong", "-e"]);
    gdb.extend(&ping);
    let server = scratch.run(&[], "gdb", &gdb);
    ping.push("127.0.0.1");
    let client = scratch.run(&[], "ibv_rc_pingpong", &ping);
    let (server, client) = run_pair(&scratch, port, server, client);
    assert!(server.contains("hit Breakpoint"), "{server}");
    assert!(client.contains("50 iters in"), "{client}");
}
