//! Loops that wait without a waiting call: in simulated time they end when their condition holds,
//! and after the same time in every run. `tests/c/progress.c` has the loops. Also waiting calls
//! that signals end.

use ferroce_tests::Scratch;

const PRESET: &str = "cx5-100g";
/// When the other thread of the program acts, in nanoseconds.
const DELAY_NS: u64 = 1_000_000;
/// Tolerance of a loop: the measured time includes the program's set-up, and a thread that tries a
/// lock makes longer pauses with time.
const SLACK_NS: u64 = DELAY_NS / 50;

/// Returns the duration of a loop, in nanoseconds of simulated time.
fn measured(scratch: &Scratch, program: &str, name: &str) -> u64 {
    let command = scratch.run(&["--timed", PRESET], program, &[name]);
    let output = scratch.finish(command).expect_success();
    let line = output.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|number| number.trim().parse().ok());
    number.unwrap_or_else(|| panic!("{name}: {output}"))
}

/// Runs loops that take between `least` and `most` nanoseconds, each of them twice.
fn take(names: &[&str], least: u64, most: u64) {
    let scratch = Scratch::new();
    let program = scratch.compile("progress");
    for name in names {
        let times = [(); 2].map(|()| measured(&scratch, &program, name));
        assert_eq!(times[0], times[1], "{name}: not the same");
        assert!((least..=most).contains(&times[0]), "{name}: {times:?} ns");
    }
}

/// Loops that end when the other thread acts.
fn end_in_time(names: &[&str]) {
    take(names, DELAY_NS - SLACK_NS, DELAY_NS + SLACK_NS);
}

#[test]
fn a_thread_that_yields_lets_others_run() {
    end_in_time(&["sched_yield", "thrd_yield", "usleep", "exchange-yield"]);
}

/// Locks that a program builds itself, with exchanges and with comparisons.
#[test]
fn a_thread_that_tries_a_program_lock_yields_to_its_owner() {
    end_in_time(&["exchange", "compare"]);
}

#[test]
fn a_thread_that_tries_a_lock_lets_its_owner_run() {
    end_in_time(&["spin-lock", "spin-trylock", "mutex-trylock"]);
    end_in_time(&["rwlock-trylock", "mtx-trylock", "sem-trywait"]);
}

/// A thread that waits for an eventfd which another thread of its program writes, as the event
/// loops of libevent do.
#[test]
fn a_write_to_an_eventfd_wakes_its_reader() {
    end_in_time(&["notice-epoll", "notice-poll", "notice-read"]);
}

#[test]
fn calls_that_return_at_once_take_time() {
    end_in_time(&["epoll", "write"]);
}

#[test]
fn a_polling_thread_sees_what_another_one_does() {
    end_in_time(&["poll-flag"]);
}

/// Goal: a loop that counts its polls makes all of them. Method: 10,000 polls of an empty CQ, 12 ns
/// each (`host.poll_miss_ns`), with the count in the stack frame that polls or in its caller's
/// frame.
#[test]
fn a_counting_loop_makes_all_its_polls() {
    take(&["poll-count", "poll-count-deep"], 120_000, 123_000);
}

/// The same with 1,000 polls and the count in memory, which the world does not check: the first
/// wait takes 1,024 iterations, and nothing else happens in that time.
#[test]
fn a_loop_that_counts_in_memory_ends() {
    take(&["poll-count-memory"], 12_000, 30_000);
}

/// Two threads with 1,000 polls each under one lock: one may end before the other has begun.
#[test]
fn a_thread_that_polls_under_a_lock_releases_it() {
    take(&["poll-lock"], 12_000, 1_000_000);
}

/// Goal: in real and in simulated time, a signal ends a wait for an event, unless its handler has
/// `SA_RESTART`.
#[test]
fn a_signal_ends_a_wait_for_an_event() {
    let scratch = Scratch::new();
    let program = scratch.compile("interrupted");
    for options in [&[][..], &["--timed", PRESET]] {
        let output = scratch
            .finish(scratch.run(options, &program, &[]))
            .expect_success();
        assert!(output.ends_with("0 failures\n"), "{options:?}: {output}");
    }
}
