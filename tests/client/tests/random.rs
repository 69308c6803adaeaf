//! Random operations on all transports between two processes, and the expected memory and
//! completions. By the lowest bits of the seed, the memory of either side is on demand, and its
//! pages come and go meanwhile.
//!
//! Both processes derive the same plan from the same seed (`random/plan.rs`), so each knows the
//! operations of the other; they exchange addresses, and a byte at each barrier. The reference is
//! `plan::Operation::apply`, ten lines. `FERROCE_SEED=n` runs seed n, `FERROCE_SEEDS=n` runs n
//! seeds.

#[path = "random/paging.rs"]
mod paging;
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
/// Time limit of each process for one seed.
const TIMEOUT_PER_SEED: Duration = Duration::from_secs(1);
const TIMEOUT_BASE: Duration = Duration::from_secs(60);
/// Variable that is set in the two processes: side, first seed, last seed plus one, operations,
/// socket.
const INSIDE: &str = "FERROCE_RANDOM_SIDE";
/// Operations that succeed despite packet faults.
const SURVIVING: &str = "surviving";
/// Recovery modes with packet faults. Losses come with the adaptive timer: the last packet of a
/// message is often lost, and the local ACK timeout is long.
const FAULTS: [(&str, &str); 6] = [
    ("go-back-n+adaptive-timer", "loss=2e-2,dup=1e-2"),
    ("selective-repeat+adaptive-timer", "loss=2e-2,dup=1e-2"),
    ("adaptive-routing+adaptive-timer", "loss=2e-2,dup=1e-2"),
    ("go-back-n+adaptive-timer", "reorder=1e-2/20us,corrupt=1e-2"),
    ("selective-repeat", "reorder=8paths,dup=1e-2"),
    ("adaptive-routing", "reorder=8paths,dup=1e-2"),
];

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

/// Runs one of the two processes; does nothing when called as a test.
#[test]
fn one_side() {
    let Ok(inside) = env::var(INSIDE) else { return };
    let words: Vec<_> = inside.splitn(5, ' ').collect();
    let [which, first, end, operations, path] = words[..] else {
        panic!("{INSIDE} is {inside}");
    };
    let parse = |word: &str| word.parse::<u64>().expect("a number");
    side::run(
        parse(which) as usize,
        parse(first)..parse(end),
        operations == SURVIVING,
        Path::new(path),
    );
}

/// Goal: the seeds of `make test` cover everything. Method: every operation of every service, and
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
    // Five kinds of messages and reads, and two of atomics; services without answers have four and
    // two kinds.
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

/// Goal: for all operations, memory and completions match the reference.
#[test]
fn random_operations_between_two_processes() {
    run(&[], seeds(), "all");
}

/// Goal: the same with packet faults, in any recovery mode. Method: operations of reliable
/// services; a tenth of the seeds for each mode and plan.
#[test]
fn random_operations_survive_packet_faults() {
    let seeds = seeds();
    let seeds = seeds.start
        ..seeds
            .end
            .min(seeds.start + (seeds.end - seeds.start).div_ceil(10));
    for (mode, plan) in FAULTS {
        println!("--recovery {mode} --faults {plan}");
        run(
            &["--recovery", mode, "--faults", plan],
            seeds.clone(),
            SURVIVING,
        );
    }
}

/// Runs both processes with options of `ferroce run`.
fn run(options: &[&str], seeds: Range<u64>, operations: &str) {
    let scratch = Scratch::new();
    let program = env::current_exe().expect("this program has a path");
    let program = program.to_string_lossy();
    let socket = scratch.path("socket");
    let timeout = TIMEOUT_BASE + TIMEOUT_PER_SEED * (seeds.end - seeds.start) as u32;
    let start = |which: usize| {
        let arguments = ["one_side", "--exact", "--nocapture"];
        let mut command = scratch.run(options, &program, &arguments);
        let (first, end, socket) = (seeds.start, seeds.end, socket.display());
        let inside = format!("{which} {first} {end} {operations} {socket}");
        command.env(INSIDE, inside).env("RUST_BACKTRACE", "0");
        Process::start(command, &scratch, &format!("side-{which}"), timeout)
    };
    let (first, mut second) = (start(0), start(1));
    let first = first.wait();
    second.hurry(Duration::from_secs(30));
    let second = second.wait();
    assert!(
        first.succeeded() && second.succeeded(),
        "{options:?}: replay with FERROCE_SEED={}\nside 0: {:?}\n{}\nside 1: {:?}\n{}",
        side::failed_seed(&[&first.output, &second.output]),
        first.status,
        first.output,
        second.status,
        second.output
    );
}
