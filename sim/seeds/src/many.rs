//! Many scenarios on all cores.

use std::num::NonZero;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::run::{Failure, Report, run};
use crate::scenario::{Scenario, ScenarioError};

/// The results of many runs, the same whatever the number of cores.
#[derive(Debug, Default)]
pub struct Summary {
    /// Runs.
    pub runs: u64,
    /// The sum over passing runs.
    pub passed: Report,
    /// Failing seeds, in order.
    pub failures: Vec<(u64, Failure)>,
}

/// Runs the scenario of each seed, each in its own world.
///
/// # Errors
/// The error of the first scenario that is not possible.
pub fn run_many(
    seeds: Range<u64>,
    scenario: impl Fn(u64) -> Result<Scenario, ScenarioError> + Sync,
) -> Result<Summary, ScenarioError> {
    let next = AtomicU64::new(seeds.start);
    let results = Mutex::new(Vec::new());
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if !seeds.contains(&seed) {
                return;
            }
            let result = scenario(seed).and_then(|scenario| run(&scenario, 0));
            let mut results = results.lock().expect("no thread panics with it locked");
            results.push((seed, result));
        }
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let mut results = results
        .into_inner()
        .expect("no thread panics with it locked");
    results.sort_by_key(|(seed, _)| *seed);
    let mut summary = Summary::default();
    for (seed, result) in results {
        summary.runs += 1;
        match result? {
            Ok(report) => summary.passed.add(&report),
            Err(failure) => summary.failures.push((seed, failure)),
        }
    }
    Ok(summary)
}
