//! Many scenarios on all cores.

use std::num::NonZero;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
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

impl Summary {
    /// Adds the result of a seed; seeds come in order.
    pub fn add(&mut self, seed: u64, result: Result<Report, Failure>) {
        self.runs += 1;
        match result {
            Ok(report) => self.passed.add(&report),
            Err(failure) => self.failures.push((seed, failure)),
        }
    }
}

/// Runs the scenario of each seed, each in its own world.
///
/// # Errors
/// The error of the first scenario that is not possible.
pub fn run_many(
    seeds: Range<u64>,
    scenario: impl Fn(u64) -> Result<Scenario, ScenarioError> + Sync,
) -> Result<Summary, ScenarioError> {
    let seeds: Vec<u64> = seeds.collect();
    let results = run_each(&seeds, scenario)?;
    let mut summary = Summary::default();
    for (seed, result) in seeds.into_iter().zip(results) {
        summary.add(seed, result);
    }
    Ok(summary)
}

/// Does as [`run_many`] for any seeds; returns the result of each, in their order.
///
/// # Errors
/// The error of the first scenario that is not possible.
pub fn run_each(
    seeds: &[u64],
    scenario: impl Fn(u64) -> Result<Scenario, ScenarioError> + Sync,
) -> Result<Vec<Result<Report, Failure>>, ScenarioError> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(&seed) = seeds.get(index) else {
                return;
            };
            let result = scenario(seed).and_then(|scenario| run(&scenario, 0));
            let mut results = results.lock().expect("no thread panics with it locked");
            results.push((index, result));
        }
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let mut results = results
        .into_inner()
        .expect("no thread panics with it locked");
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}
