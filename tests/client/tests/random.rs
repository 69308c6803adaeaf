//! Random operations on all transports between two processes, and what memory and completions must
//! be afterwards.
//!
//! Both processes make the same plan of the same seed (`random/plan.rs`): each knows what the other
//! does; they exchange addresses, and a byte at each barrier. The reference is
//! `plan::Operation::apply`, ten lines. `FERROCE_SEED=n` runs one seed, `FERROCE_SEEDS=n` so many.

#[path = "random/plan.rs"]
mod plan;
#[path = "random/side.rs"]
mod side;

use std::collections::BTreeSet;
use std::env;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use ferroce_tests::{Process, Scratch};

/// Seeds of a run in `make test`.
const SEEDS: u64 = 200;
/// How long each process may take for one seed.
const TIMEOUT_PER_SEED: Duration = Duration::from_secs(1);
const TIMEOUT_BASE: Duration = Duration::from_secs(60);
/// Set in the two processes: side, first seed, number behind the last, path of the socket.
const INSIDE: &str = "FERROCE_RANDOM_SIDE";

fn number(variable: &str) -> Option<u64> {
    let value = env::var(variable).ok()?;
    Some(value.parse().expect("a number"))
}

fn seeds() -> Range<u64> {
    match number("FERROCE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("FERROCE_SEEDS").unwrap_or(SEEDS),
    }
}

/// Runs one of the two processes; does nothing if it is called as a test.
#[test]
fn one_side() {
    let Ok(inside) = env::var(INSIDE) else { return };
    let words: Vec<_> = inside.splitn(4, ' ').collect();
    let [which, first, end, path] = words[..] else {
        panic!("{INSIDE} is {inside}");
    };
    let parse = |word: &str| word.parse::<u64>().expect("a number");
    side::run(
        parse(which) as usize,
        parse(first)..parse(end),
        Path::new(path),
    );
}

/// Goal: the seeds of `make test` leave nothing out. Method: every operation of every service, and
/// every fault, is in some plan.
#[test]
fn plans_contain_everything() {
    let operations = (0..SEEDS).flat_map(plan::rounds).flatten();
    let seen: BTreeSet<_> = operations
        .map(|o| {
            (
                format!("{:?}", o.service),
                o.opcode,
                format!("{:?}", o.fault),
            )
        })
        .collect();
    let count = |service: &str, fault: &str| {
        let is = |(s, _, f): &&(String, u32, String)| s == service && f == fault;
        seen.iter().filter(is).count()
    };
    // Five of messages and reads, two of atomics; four, and two, of those without answers.
    let kinds = ["Rc", "Xrc", "Uc", "Ud"].map(|service| count(service, "None"));
    assert_eq!(kinds, [7, 7, 4, 2]);
    let faults = ["Rc", "Xrc", "Uc", "Ud"].map(|service| {
        ["RKey", "LKey", "ShortReceive", "Deregistered"].map(|fault| count(service, fault))
    });
    assert_eq!(
        faults,
        [[4, 6, 2, 4], [4, 6, 2, 4], [1, 3, 2, 0], [0, 2, 0, 0]]
    );
}

/// Goal: whatever is asked for, memory and completions are those of the reference.
#[test]
fn random_operations_between_two_processes() {
    let seeds = seeds();
    let scratch = Scratch::new();
    let program = env::current_exe().expect("this program has a path");
    let program = program.to_string_lossy();
    let socket = scratch.path("socket");
    let timeout = TIMEOUT_BASE + TIMEOUT_PER_SEED * (seeds.end - seeds.start) as u32;
    let start = |which: usize| {
        let arguments = ["one_side", "--exact", "--nocapture"];
        let mut command = scratch.run(&[], &program, &arguments);
        let inside = format!("{which} {} {} {}", seeds.start, seeds.end, socket.display());
        command.env(INSIDE, inside).env("RUST_BACKTRACE", "0");
        Process::start(command, &scratch, &format!("side-{which}"), timeout)
    };
    let (first, mut second) = (start(0), start(1));
    let first = first.wait();
    second.hurry(Duration::from_secs(30));
    let second = second.wait();
    assert!(
        first.succeeded() && second.succeeded(),
        "replay with FERROCE_SEED={}\nside 0: {:?}\n{}\nside 1: {:?}\n{}",
        side::failed_seed(&[&first.output, &second.output]),
        first.status,
        first.output,
        second.status,
        second.output
    );
}
