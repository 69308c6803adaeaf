//! C programs against the installed `<infiniband/verbs.h>`, under `ferroce run`: errno, states,
//! statuses, events. `tests/c/` has the checks; each program prints its failures, and their number
//! in its last line.

use ferroce_tests::Scratch;

fn run(name: &str) {
    let scratch = Scratch::new();
    let program = scratch.compile(name);
    let command = scratch.run(&[], &program, &[]);
    let output = scratch.finish(command).expect_success();
    assert!(output.ends_with("0 failures\n"), "{output}");
}

#[test]
fn states_and_transitions_of_a_qp() {
    run("qp_states");
}

#[test]
fn refused_posts_and_statuses_of_completions() {
    run("completions");
}

/// Goal: a refused post does not wait for a lock while it holds another. Method: another thread
/// holds the lock of the QP's state at the same time.
#[test]
fn refused_posts_beside_a_thread_that_modifies_the_qp() {
    run("refused_and_modified");
}

#[test]
fn the_new_send_api_beside_the_old_one() {
    run("new_send");
}

#[test]
fn flush_and_atomic_write() {
    run("flush");
}

/// Goal: a receiver that looks at the last byte of a message is found if its region permits relaxed
/// ordering, and no other is. Method: the same program with and without the right and the option,
/// and one that waits for the completion.
#[test]
fn a_receiver_that_looks_at_the_last_byte_is_found() {
    let scratch = Scratch::new();
    let program = scratch.compile("canary");
    let incomplete = |options: &[&str], mode| {
        let output = scratch.finish(scratch.run(options, &program, &[mode]));
        let output = output.expect_success();
        let last = output.lines().last().and_then(|line| line.split_once(' '));
        let (count, _) = last.unwrap_or_else(|| panic!("{output}"));
        count.parse::<u32>().expect("a number")
    };
    let seed = ["--relaxed-order", "7"];
    assert!(incomplete(&seed, "relaxed") > 0);
    assert_eq!(incomplete(&seed, "strict"), 0);
    assert_eq!(incomplete(&seed, "correct"), 0);
    assert_eq!(incomplete(&[], "relaxed"), 0);
}

/// Goal: threads can be cancelled in calls of libc that pass through this library.
#[test]
fn cancellation_in_calls_of_libc() {
    let scratch = Scratch::new();
    let program = scratch.compile("cancelled");
    let fifo = scratch.path("fifo").to_string_lossy().into_owned();
    let output = scratch
        .finish(scratch.run(&[], &program, &[&fifo]))
        .expect_success();
    assert!(output.ends_with("0 failures\n"), "{output}");
}

#[test]
fn events_cancellation_fork_and_dlopen() {
    run("events");
}
