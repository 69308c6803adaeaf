//! Random programs, programs that failed once, and the coverage of all of them together.

use std::fs;
use std::path::Path;

use ferroce_seeds::{Mix, Scenario, run, run_many};

/// Seeds of a run in `make test`.
const SEEDS: u64 = 300;
/// Seeds whose runs are compared.
const COMPARED: u64 = 12;
/// Events of a run that are compared.
const EVENTS: usize = 1000;

fn seeds() -> u64 {
    let seeds = std::env::var("FERROCE_SEEDS").ok();
    seeds.map_or(SEEDS, |seeds| {
        seeds.parse().expect("FERROCE_SEEDS is a number")
    })
}

fn check(failures: &[(u64, ferroce_seeds::Failure)]) {
    let lines = failures
        .iter()
        .map(|(seed, failure)| format!("\nseed {seed} at {failure}"));
    let lines: String = lines.collect();
    assert!(
        failures.is_empty(),
        "repeat with ferroce sim --seed SEED:{lines}"
    );
}

#[test]
fn seeds_pass_and_leave_nothing_out() {
    let summary = run_many(0..seeds(), |seed| Ok(Scenario::of_seed(seed))).expect("possible");
    check(&summary.failures);
    let passed = &summary.passed;
    println!("{} seeds: {passed}\n{:?}", summary.runs, passed.kinds);
    let messages = ["Send", "SendImmediate"];
    let writes = ["Write", "WriteImmediate"];
    let others = ["Read", "CompareSwap", "FetchAdd"];
    let connected = [&messages[..], &writes[..]].concat();
    let reliable = [&connected[..], &others[..], &["WrongKey", "Fail"]].concat();
    let met = |transport: &str, kinds: &[&str]| {
        for kind in kinds {
            let name = format!("{transport} {kind}");
            assert!(passed.kinds.contains_key(&name), "no program has {name}");
        }
    };
    met("Rc", &reliable);
    met("Rc", &["SendInvalidate", "Deregister"]);
    met("Xrc", &reliable);
    met("Uc", &connected);
    met("Ud", &messages);
    let results = passed.results;
    assert!(results.failed > 0 && results.flushed > 0, "{results:?}");
    assert!(results.succeeded > 10 * results.failed, "{results:?}");
    assert!(passed.faults > summary.runs, "{passed}");
}

/// Goal: selective repeat and the adaptive timer do not change what programs see. Method: a third
/// of the seeds with one, the other or both. Adaptive routing is not included: it places WRITEs in
/// any order, which the reference refuses.
#[test]
fn seeds_pass_with_other_recovery() {
    let summary = run_many(0..seeds() / 3, |seed| {
        let set: &[&str] = match seed % 3 {
            0 => &["transport.selective_repeat=true"],
            1 => &["transport.adaptive_timer=true"],
            _ => &[
                "transport.selective_repeat=true",
                "transport.adaptive_timer=true",
            ],
        };
        let set = set.iter().map(|change| (*change).to_owned()).collect();
        Ok(Scenario {
            set,
            ..Scenario::of_seed(seed)
        })
    });
    let summary = summary.expect("possible");
    check(&summary.failures);
    assert!(summary.passed.faults > summary.runs);
}

/// Goal: simulated time does not change results. Method: long messages between two hosts without
/// faults, in the functional world and in timed ones: the reference then permits one result.
#[test]
fn seeds_pass_at_each_speed() {
    for preset in ["functional", "cx5-100g", "irdma-10g", "cx3-40g"] {
        let scenario = |seed| Scenario {
            hosts: 2,
            preset: preset.to_owned(),
            faults: None,
            connections: 6,
            operations: 500,
            scale: 8,
            mix: Mix::default(),
            ..Scenario::of_seed(seed)
        };
        let summary =
            run_many(0..seeds().div_ceil(25), |seed| Ok(scenario(seed))).expect("possible");
        check(&summary.failures);
        let passed = summary.passed;
        assert_eq!(
            (passed.results.failed, passed.recoveries),
            (0, 0),
            "{preset}"
        );
    }
}

/// Goal: a fixed bug does not return. Method: each line of the file has a seed and its story.
#[test]
fn seeds_that_have_failed_pass() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/seeds.txt");
    let text = fs::read_to_string(path).expect("the list of seeds");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let seeds: Vec<u64> = lines
        .map(|line| {
            let (seed, story) = line.split_once(' ').expect("a seed and its story");
            assert!(!story.trim().is_empty(), "{line}");
            seed.parse().expect("a seed")
        })
        .collect();
    assert!(!seeds.is_empty());
    for seed in seeds {
        let outcome = run(&Scenario::of_seed(seed), 0).expect("possible");
        assert!(outcome.is_ok(), "seed {seed}: {outcome:?}");
    }
}

/// Goal: a seed determines everything, including the events of a failing run. Method: little
/// simulated time, so that most runs end before their programs.
#[test]
fn a_seed_gives_the_same_events() {
    let mut events = 0;
    for seed in 0..COMPARED {
        let scenario = Scenario::of_seed(seed);
        let run = |scenario| run(scenario, EVENTS).expect("possible");
        assert_eq!(run(&scenario), run(&scenario), "seed {seed}");
        let short = Scenario {
            limit: ferroce_units::Duration::from_us(20),
            ..scenario.clone()
        };
        let first = run(&short);
        assert_eq!(first, run(&short), "seed {seed}");
        events += first.err().map_or(0, |failure| failure.events.len());
    }
    assert!(events > 100, "{events} events were compared");
}
