//! The library in programs of a world that only gives turns.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(
    unsafe_code,
    reason = "the programs call C, read the counter, and fail on purpose"
)]

mod common;

use std::process::Stdio;
use std::time::Duration;

use common::guest::{self, start};
use common::world::World;
use common::{Output, finish, with_library};
use ferroce_test_support::{Process, TIMEOUT};
use ferroce_timed_protocol::MOST_AHEAD_PS;
use ferroce_timed_protocol::control::Refusal;

const EPOCH_S: f64 = 1_735_689_600.0;

/// Runs a program in its own world.
fn run(name: &str) -> Output {
    let world = World::start(name);
    let output = finish(start(name, Some(&world)));
    assert_eq!(output.code, Some(0), "{output:?}");
    output
}

#[test]
fn all_clocks_are_those_of_the_world() {
    let output = run("clock");
    let clock_ns = 5_000_123_456_f64;
    assert_eq!(output.number("now_ps"), 5_000_123_456_789.0);
    for name in ["realtime_ns", "coarse_ns", "std_ns", "vdso_ns"] {
        assert_eq!(output.number(name), EPOCH_S * 1e9 + clock_ns, "{name}");
    }
    for name in ["monotonic_ns", "boottime_ns"] {
        assert_eq!(output.number(name), 1000.0 * 1e9 + clock_ns, "{name}");
    }
    assert_eq!(
        output.number("gettimeofday_us"),
        EPOCH_S * 1e6 + 5_000_123.0
    );
    assert_eq!(output.number("time_s"), EPOCH_S + 5.0);
    assert_eq!(output.number("cpu_is_real"), 1.0);
    assert_eq!(output.number("later_ps"), 7e12);
}

#[test]
fn the_counter_traps_once_for_each_site() {
    let output = run("tsc");
    assert_eq!(output.number("traps"), 2.0);
}

#[test]
fn perftest_measures_exactly_1000_mhz() {
    let output = run("mhz");
    // The first read is one of the 15 that are free.
    assert_eq!(output.number("reads"), 14.0);
    // The first sample has a few free reads. perftest uses the stated value if it is within 2 %.
    assert!((output.number("mhz") - 1000.0).abs() < 0.1, "{output:?}");
    assert_eq!(output.number("processors"), 1.0);
    assert_eq!(output.number("stated"), 1000.0);
    assert_eq!(output.number("fopen"), 1.0);
}

#[test]
fn the_state_of_the_processor_survives() {
    assert_eq!(run("state").number("traps"), 1.0);
}

#[test]
fn other_programs_have_real_time() {
    let output = run("exec");
    assert_eq!(output.number("spawned_is_real"), 1.0);
    assert_eq!(output.number("piped_is_real"), 1.0);
    assert_eq!(output.number("system"), 3.0);
    assert!(output.number("still_simulated") < 2e9);
    assert_eq!(output.number("still_armed"), 1.0);
    assert_eq!(output.number("executed"), 1.0);
}

#[test]
fn a_child_of_a_fork_has_real_time() {
    let output = run("fork");
    assert_eq!(output.number("child"), 3.0);
    assert!(output.number("parent") < 2e9);
}

#[test]
fn handlers_of_the_program_are_called() {
    let output = run("fault");
    assert_eq!(output.number("earlier_is_default"), 1.0);
    assert_eq!(output.number("faults"), 1.0);
    assert_eq!(output.number("in_handler"), 1e6);
    assert_eq!(output.number("masked"), 1e6);
}

#[test]
fn a_fault_without_handler_ends_the_program() {
    let world = World::start("crash");
    let output = finish(start("crash", Some(&world)));
    assert_eq!(output.signal, Some(libc::SIGSEGV));
}

#[test]
fn threads_take_turns() {
    let output = run("threads");
    assert_eq!(output.number("own"), 5e6);
    assert_eq!(output.number("first"), 1e9);
    assert_eq!(output.number("then"), 9e6);
    assert_eq!(output.number("outside_is_real"), 1.0);
    assert!(output.number("after") >= 12e6);
}

/// Starts a program, waits until it says that it waits, and ends the world.
fn end_world_of(name: &str) -> Output {
    let output = outlive_world(name);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(output.number("goes_on"), 1.0);
    output
}

fn outlive_world(name: &str) -> Output {
    let world = World::start(name);
    let mut child = start(name, Some(&world));
    child.expect_output("waits 1\n");
    // It begins to wait after this line, which cannot be observed.
    std::thread::sleep(Duration::from_millis(50));
    world.kill();
    finish(child)
}

#[test]
fn a_program_that_waits_survives_the_end_of_its_world() {
    let output = end_world_of("blocked");
    assert_eq!(output.number("again"), f64::from(libc::ECONNRESET));
}

#[test]
fn a_program_that_reads_the_time_survives_the_end_of_its_world() {
    end_world_of("reading");
}

/// Goal: a loop that no write ends is stopped after the end of the world, whenever it began.
#[test]
#[cfg(target_arch = "x86_64")]
fn a_loop_that_begins_after_the_world_has_ended_ends() {
    let output = outlive_world("lost");
    assert_eq!(output.code, Some(libc::EXIT_FAILURE), "{output:?}");
    assert!(output.text.contains("goes_on 1"), "{output:?}");
    assert!(output.text.contains("the world has ended"), "{output:?}");
}

#[test]
fn without_a_world_nothing_is_simulated() {
    let output = finish(start("no_world", None));
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(output.number("join"), f64::from(libc::ENODEV));
    assert_eq!(output.number("is_real"), 1.0);
    assert_eq!(output.number("now_ps"), 0.0);
    assert_eq!(output.number("program"), 0.0);
}

#[test]
fn a_refused_program_has_real_time() {
    for (refusal, errno) in [
        (Refusal::Version, libc::EPROTO),
        (Refusal::NoHost, libc::EUSERS),
        (Refusal::NoThread, libc::EAGAIN),
        (Refusal::NoSuchHost { hosts: 2 }, libc::EADDRNOTAVAIL),
        (Refusal::Taken { pid: 7 }, libc::EADDRINUSE),
    ] {
        let world = World::start_with("refused", Some(refusal));
        let output = finish(start("refused", Some(&world)));
        assert_eq!(output.code, Some(0), "{output:?}");
        assert_eq!(output.number("join"), f64::from(errno));
        assert_eq!(output.number("again"), f64::from(errno));
        assert_eq!(output.number("is_real"), 1.0);
    }
}

/// Goal: a program that was given a host, and runs in real time nevertheless, says so at once.
#[test]
fn a_program_that_cannot_have_its_host_says_why() {
    for host in [".0", "n0"] {
        let mut program = with_library("true");
        program.env("FERROCE_WORLD", "/nonexistent/world");
        program.env("FERROCE_HOST", host);
        let output = finish(Process::alone(program, TIMEOUT));
        assert_eq!(output.code, Some(0), "{output:?}");
        let said = format!("ferroce: true could not join its world (FERROCE_HOST={host})");
        assert!(output.text.starts_with(&said), "{output:?}");
    }
}

#[test]
fn stores_come_with_their_times_and_not_far_ahead() {
    let world = World::start("stores");
    let output = finish(start("stores", Some(&world)));
    assert_eq!(output.code, Some(0), "{output:?}");
    let ahead_ps = MOST_AHEAD_PS;
    assert_eq!(output.number("now_ps"), (ahead_ps + 1) as f64);
    let seen = world.seen();
    let first: Vec<_> = seen.stores[..3]
        .iter()
        .map(|(turn, begun_ps, store)| (*turn, *begun_ps, store.slot, store.at_ps))
        .collect();
    let expected = [
        (1, 0, 1, 0),
        (1, 0, 2, ahead_ps),
        (2, ahead_ps + 1, 3, ahead_ps + 1),
    ];
    assert_eq!(first, expected);
    // The list holds 128 doorbells.
    let turns = (3..203).map(|number| if number < 3 + 128 { 3 } else { 4 });
    let others = seen.stores[3..].iter().map(|(turn, _, _)| *turn);
    assert!(others.eq(turns), "{:?}", seen.stores);
    let slots = seen.stores[3..]
        .iter()
        .map(|(_, _, store)| (store.slot, store.words[0]));
    assert!(slots.eq((0..200).map(|slot| (100 + slot, u64::from(slot)))));
    // One turn for the store too far ahead, one for each flush, one for the full list; the world
    // may see the end of the program before its last turn.
    assert!((4..=5).contains(&seen.turns), "{} turns", seen.turns);
}

#[test]
fn reading_only_the_time_catches_up_now_and_then() {
    let world = World::start("checks");
    let output = finish(start("checks", Some(&world)));
    assert_eq!(output.code, Some(0), "{output:?}");
    // Each millisecond, and more often at the beginning.
    let turns = world.seen().turns;
    assert!((1000..1100).contains(&turns), "{turns} turns");
}

#[test]
fn signals_come_at_any_moment() {
    let output = run("storm");
    assert!(output.number("signals") > 100.0, "{output:?}");
    assert_eq!(output.number("backwards"), 0.0, "{output:?}");
}

#[test]
fn a_small_stack_for_signals_is_enough() {
    let used = run("small_stack").number("used");
    // C libraries have long recommended 8192 (`SIGSTKSZ`); the kernel uses most of it.
    assert!(used > 0.0 && used < 8192.0, "{used} bytes");
}

#[test]
fn any_program_runs_with_the_library() {
    let mut shell = with_library("sh");
    shell.args([
        "-c",
        "ls / | head -n 3 && date +%s && sleep 0.01 && echo $((6 * 7))",
    ]);
    shell.stderr(Stdio::inherit());
    let output = shell.output().expect("started");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.ends_with("42\n"),
        "{output:?}"
    );
}

/// Goal: programs see the same time whichever way they read it. Method: reads with work in between
/// are free; of many consecutive reads, all but the first 15 cost a microsecond each.
#[test]
fn reads_of_the_time_cost_the_same_by_each_way() {
    let output = run("costs");
    for way in ["rdtsc", "clock_gettime", "gettimeofday", "vdso"] {
        assert_eq!(output.number(&format!("{way}_apart_ps")), 0.0, "{way}");
        let in_a_row_ps = f64::from(guest::READS - 15) * 1e6;
        let name = format!("{way}_in_a_row_ps");
        assert_eq!(output.number(&name), in_a_row_ps, "{way}");
    }
    assert_eq!(output.number("traps"), 1.0, "the counter's only site");
}
