//! Threads and processes that wait for one another, in simulated time: each wait ends when the
//! other one acts, to the digit in every run. `tests/c/waits.c` and `tests/c/children.c` have the
//! kinds of waiting. Also what a program says that has left simulated time.

use std::process::Output;

use ferroce_tests::Scratch;

const STRICT: [&str; 3] = ["--timed", "cx5-100g", "--strict"];
/// When the other thread acts, in nanoseconds.
const DELAY_NS: u64 = 1_000_000;
/// Largest difference: the waiting thread begins a moment later, and an event wakes it after
/// `host.wake_up_ns`.
const SLACK_NS: u64 = DELAY_NS / 100;
/// Kinds of waiting of `waits.c`.
const KINDS: usize = 21;
/// Kinds of waiting of `children.c`.
const KINDS_OF_CHILDREN: usize = 23;

#[test]
fn threads_wait_for_one_another_in_simulated_time() {
    check_waits("waits", KINDS);
}

#[test]
fn parents_wait_for_children_in_simulated_time() {
    check_waits("children", KINDS_OF_CHILDREN);
}

/// Runs a program twice that prints how long each wait took.
fn check_waits(name: &str, expected_kinds: usize) {
    let scratch = Scratch::new();
    let program = scratch.compile(name);
    let run = || {
        scratch
            .finish(scratch.run(&STRICT, &program, &[]))
            .expect_success()
    };
    let output = run();
    let times = output.lines().filter_map(|line| {
        let (kind, time) = line.split_once(' ')?;
        Some((kind, time.parse::<u64>().ok()?))
    });
    let mut kinds = 0;
    for (kind, time_ns) in times {
        assert!(
            time_ns.abs_diff(DELAY_NS) <= SLACK_NS,
            "{kind}: {time_ns} ns"
        );
        kinds += 1;
    }
    assert_eq!(kinds, expected_kinds, "{output}");
    assert_eq!(output, run(), "the same in every run");
}

/// Runs a kind of loop of `tests/c/progress.c` that has to let time pass in steps.
fn run_strict(name: &str) -> Output {
    let scratch = Scratch::new();
    let program = scratch.compile("progress");
    let mut command = scratch.run(&STRICT, &program, &[name]);
    command.output().expect("started")
}

/// Goal: a loop that cannot be proven to wait goes on, and its figure is not taken for a result.
/// Method: a loop that counts in memory, and one that makes a system call that is not simulated.
#[test]
fn a_loop_that_counts_goes_on_and_the_run_is_not_repeatable() {
    for name in ["count", "system-call"] {
        let output = run_strict(name);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(3), "{name}: {errors}");
        assert!(errors.contains("repeatable: no"), "{name}: {errors}");
        assert!(errors.contains("a loop without a call"), "{name}: {errors}");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let time_ns = text
            .strip_prefix(name)
            .and_then(|text| text.trim().parse::<u64>().ok());
        assert!(
            time_ns.is_some_and(|time_ns| time_ns >= DELAY_NS - SLACK_NS),
            "{name}: {text}"
        );
    }
}

#[test]
fn a_run_that_stays_in_simulated_time_is_repeatable() {
    let output = run_strict("sched_yield");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{errors}");
    assert!(errors.contains("ferroce: repeatable: yes"), "{errors}");
}
