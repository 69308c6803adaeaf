//! Validation of the model against the targets of `validation_targets.csv`.
//!
//! - [`target`]: the file. [`plan`]: how a target is measured, as data, and [`experiments`]: the
//!   table of all plans. [`measure`](mod@measure): executes them. [`outcome`]: compares target and
//!   model; [`listing`] and [`markdown`]: as a table; [`tally`]: the number of passed targets.
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

use changes::Changes;
pub use outcome::{Figures, Outcome, Verdict};
pub use target::Target;

use crate::cache::Cache;
use crate::reference::experiment::Simulator;

/// Measures and judges the targets whose id begins with one of `only` (all, if there is none).
pub fn run(simulator: &dyn Simulator, only: &[String]) -> Vec<Outcome> {
    let targets = chosen(only);
    let figures = measure(simulator, &targets, || ());
    let pairs = targets.iter().zip(&figures);
    pairs.map(|(target, it)| Outcome::of(target, it)).collect()
}

/// Returns the targets whose id begins with one of `only` (all, if there is none), in the order of
/// the file.
pub fn chosen(only: &[String]) -> Vec<Target> {
    let targets = target::all().into_iter();
    targets.filter(|target| is_chosen(target, only)).collect()
}

/// Measures targets in parallel; calls `done` after each. A target without a plan has no figures.
pub fn measure(
    simulator: &dyn Simulator,
    targets: &[Target],
    done: impl Fn() + Sync,
) -> Vec<Figures> {
    // Points of several targets share runs.
    let cache = Cache::new(simulator);
    parallel::map(targets, |target| {
        let plan = experiments::plan(&target.id);
        let figures = plan.map(|plan| outcome::figures(&cache, plan, &Changes::default()));
        done();
        figures.unwrap_or(Ok(Vec::new()))
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
