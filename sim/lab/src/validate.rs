//! Validation of the model against the targets of `validation_targets.csv`.
//!
//! - [`target`]: the file. [`plan`]: how a target is measured, as data, and [`experiments`]: the
//!   table of all plans. [`measure`]: executes them. [`outcome`]: compares target and model;
//!   [`listing`] and [`markdown`]: as a table; [`tally`]: the number of passed targets.
//! - [`blind`]: targets and tables from a folder that is not part of the project.
//! - [`perturb`]: finds targets that depend on a single value; [`changes`]: moves a value.
//! - [`basis`]: relation of a target to the model: predicted, fitted or identity.
//! - [`datagram_echo`]: frames between two MACs, for the targets of the FPGA card.

pub mod basis;
pub mod blind;
pub mod changes;
pub mod datagram_echo;
pub mod experiments;
pub mod listing;
pub mod markdown;
pub mod measure;
pub mod outcome;
pub mod parallel;
pub mod perturb;
pub mod plan;
pub mod tally;
pub mod target;

pub use outcome::{Outcome, Verdict};
pub use target::Target;

use crate::cache::Cache;
use crate::reference::experiment::Simulator;

/// Measures the targets whose id begins with one of `only` (all, if there is none), in parallel;
/// calls `done` after each. Outcomes are in the order of the file.
pub fn run(
    simulator: &dyn Simulator,
    only: &[String],
    done: impl Fn(&Outcome) + Sync,
) -> Vec<Outcome> {
    let targets = target::all();
    let chosen: Vec<_> = targets.iter().filter(|t| is_chosen(t, only)).collect();
    // Points of several targets share runs.
    let cache = Cache::new(simulator);
    parallel::map(&chosen, |target| {
        let outcome = Outcome::of(&cache, target);
        done(&outcome);
        outcome
    })
}

/// Checks that each of `only` is the beginning of a target's id.
///
/// # Errors
/// The first one that is not, and the numbers that there are.
pub fn check_only(only: &[String]) -> Result<(), String> {
    let targets = target::all();
    let is_known = |begin: &String| targets.iter().any(|target| begins_with(&target.id, begin));
    let Some(unknown) = only.iter().find(|begin| !is_known(begin)) else {
        return Ok(());
    };
    let mut numbers: Vec<&str> = Vec::new();
    for target in &targets {
        let number = target.id.trim_end_matches(|c: char| c.is_ascii_lowercase());
        if !numbers.contains(&number) {
            numbers.push(number);
        }
    }
    Err(format!(
        "{unknown:?} is the beginning of no target's number; there are {}",
        numbers.join(", ")
    ))
}

/// Returns the number of targets that [`run`] would measure.
pub fn count(only: &[String]) -> usize {
    let targets = target::all().into_iter();
    targets.filter(|target| is_chosen(target, only)).count()
}

fn is_chosen(target: &Target, only: &[String]) -> bool {
    only.is_empty() || only.iter().any(|begin| begins_with(&target.id, begin))
}

/// Returns true if an identifier begins with `begin`, and no digit of a number follows: L1 is not
/// the beginning of L11.
fn begins_with(id: &str, begin: &str) -> bool {
    let is_digit = |text: char| text.is_ascii_digit();
    id.strip_prefix(begin)
        .is_some_and(|rest| !(begin.ends_with(is_digit) && rest.starts_with(is_digit)))
}
