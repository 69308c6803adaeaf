//! Makes a failing scenario shorter.

use ferroce_faults::Plan;
use ferroce_units::shrink::shrunk;

use crate::run::{Failure, run};
use crate::scenario::{HOSTS, Scenario};

/// Maximum number of runs for shrinking.
const MAX_RUNS: usize = 400;

/// A shorter scenario that fails, and its failure.
#[derive(Debug)]
pub struct Shrunk {
    /// The scenario.
    pub scenario: Scenario,
    /// Its failure, which may differ from the original one.
    pub failure: Failure,
    /// Number of runs.
    pub runs: usize,
}

/// Returns a short scenario that still fails: fewer hosts, operations, faults and rounds.
pub fn shrink(scenario: &Scenario, failure: Failure) -> Shrunk {
    let mut shrunk = Shrunk {
        scenario: scenario.clone(),
        failure,
        runs: 0,
    };
    shrunk.fewer_hosts();
    shrunk.fewer_operations();
    shrunk.fewer_faults();
    shrunk.fewer_operations();
    shrunk
}

impl Shrunk {
    /// Keeps a changed scenario if it fails.
    fn try_with(&mut self, change: impl FnOnce(&mut Scenario)) -> bool {
        let mut scenario = self.scenario.clone();
        change(&mut scenario);
        if scenario == self.scenario || self.runs == MAX_RUNS {
            return false;
        }
        self.runs += 1;
        let Ok(Err(failure)) = run(&scenario, 0) else {
            return false;
        };
        self.scenario = scenario;
        self.failure = failure;
        true
    }

    fn fewer_hosts(&mut self) {
        for hosts in *HOSTS.start()..self.scenario.hosts {
            if self.try_with(|scenario| scenario.hosts = hosts) {
                return;
            }
        }
    }

    fn fewer_operations(&mut self) {
        let all = || (0..self.scenario.operations).collect();
        let left: Vec<usize> = self.scenario.only.clone().unwrap_or_else(all);
        shrunk(&left, |rest| {
            self.try_with(|scenario| scenario.only = Some(rest.to_vec()))
        });
    }

    fn fewer_faults(&mut self) {
        if self.try_with(|scenario| scenario.faults = None) {
            return;
        }
        let count = |scenario: &Scenario| scenario.faults.as_ref().map_or(0, |p| p.faults.len());
        for number in (0..count(&self.scenario)).rev() {
            self.try_with(|scenario| remove_fault(&mut scenario.faults, number));
        }
    }
}

/// Removes a fault from a plan that has others.
fn remove_fault(plan: &mut Option<Plan>, number: usize) {
    if let Some(plan) = plan.as_mut().filter(|plan| plan.faults.len() > 1) {
        plan.faults.remove(number);
    }
}
