//! Goal: the checks of the seeded world find a bug. Method: responders acknowledge a packet that
//! they have not received, which is never retransmitted if it is lost.

use ferroce_seeds::{Scenario, run, shrink};
use ferroce_transport::canary;

/// Seeds in which the bug must be found.
const SEEDS: u64 = 100;
/// Maximum number of operations of the program that shows it.
const SHORT: usize = 6;

#[test]
fn a_responder_that_acknowledges_too_much_is_found() {
    canary::acknowledge_too_much(true);
    let found = (0..SEEDS).find_map(|seed| {
        let scenario = Scenario::of_seed(seed);
        let failure = run(&scenario, 0).expect("a possible scenario").err()?;
        Some((seed, shrink(&scenario, failure)))
    });
    let (seed, shrunk) = found.expect("the defect is found");
    println!("seed {seed}: {}", shrunk.failure);
    let left = shrunk.scenario.only.as_ref().expect("it is shorter");
    assert!(left.len() <= SHORT, "{}", shrunk.scenario);
    let again = run(&shrunk.scenario, 0).expect("a possible scenario");
    assert_eq!(
        again.err(),
        Some(shrunk.failure),
        "it fails the same way again"
    );
    canary::acknowledge_too_much(false);
    let fixed = run(&shrunk.scenario, 0).expect("a possible scenario");
    assert!(fixed.is_ok(), "{fixed:?}");
}
