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
