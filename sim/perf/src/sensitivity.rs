//! Sensitivity: moves each parameter alone, down and up, and measures the change of a figure.
//!
//! A quantity is moved by [`STEP`] of itself, a count by at least one, a power of two by a factor
//! of two, and an enumerated value to its neighbours. Flags are flipped. Values that are not
//! permitted, or contradict another parameter, are skipped and listed.

pub mod report;

use std::sync::atomic::AtomicBool;

use ferroce_model::preset::{Preset, Range, Value};

use crate::error::Error;
use crate::result::PerfRow;
use crate::spec::{PerfSpec, Test};
use crate::sweep::{self, Job};

/// Fraction by which a quantity is moved.
pub const STEP: f64 = 0.1;
/// Relative change of the figure below which a parameter has no effect. A parameter that changes
/// only the order of random numbers moves a figure by less.
pub const LEAST_EFFECT: f64 = 5e-4;
/// Maximum number of runs: two for each parameter, and one without a change.
pub const MOST_RUNS: usize = 512;
/// This parameter does not affect the model's time: only software reads it.
const NOT_MOVED: &str = "identity.part_id";

/// A parameter moved to a value, and the figure with it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moved {
    /// The value.
    pub value: Value,
    /// The figure.
    pub figure: f64,
    /// Change relative to the figure without a move.
    pub change: f64,
}

/// A parameter, and the effect of moving it.
#[derive(Debug, Clone, PartialEq)]
pub struct Effect {
    /// The parameter.
    pub key: String,
    /// Its unit.
    pub unit: &'static str,
    /// Its value.
    pub value: Value,
    /// Moved down; flags are only moved up.
    pub down: Option<Moved>,
    /// Moved up; or a flag, flipped.
    pub up: Option<Moved>,
}

/// A move that was not made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The parameter, and the value.
    pub what: String,
    /// The reason.
    pub reason: String,
}

/// The sensitivity of a figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Sensitivity {
    /// Name and unit of the figure.
    pub name: &'static str,
    /// The figure without a change.
    pub figure: f64,
    /// Parameters with an effect, the largest elasticity first.
    pub effects: Vec<Effect>,
    /// Flags with an effect, the largest first.
    pub flags: Vec<Effect>,
    /// Parameters without an effect.
    pub without_effect: Vec<String>,
    /// Parameters whose value is 0: a fraction of it is 0.
    pub zero: Vec<String>,
    /// Moves that were not made.
    pub refused: Vec<Refused>,
    /// Runs.
    pub runs: usize,
}

/// A run: the parameter by its index in the list, and where it is moved.
struct Trial {
    parameter: usize,
    is_up: bool,
    value: Value,
    spec: PerfSpec,
}

/// The moves of all parameters.
struct Trials {
    effects: Vec<Effect>,
    trials: Vec<Trial>,
    zero: Vec<String>,
    refused: Vec<Refused>,
}

impl Effect {
    /// Returns the largest change.
    pub fn most(&self) -> f64 {
        let changes = [self.down, self.up].into_iter().flatten();
        changes.map(|moved| moved.change.abs()).fold(0.0, f64::max)
    }

    /// Returns the change of the figure by one per cent for each per cent of the parameter, between
    /// the outermost values; `None` for flags, and where the figure or the parameter is 0.
    pub fn elasticity(&self, figure: f64) -> Option<f64> {
        let here = (number(self.value)?, figure);
        let point = |moved: Moved| Some((number(moved.value)?, moved.figure));
        let low = self.down.map_or(Some(here), point)?;
        let high = self.up.map_or(Some(here), point)?;
        let elasticity = (high.1 / low.1).ln() / (high.0 / low.0).ln();
        elasticity.is_finite().then_some(elasticity)
    }

    fn is_flag(&self) -> bool {
        matches!(self.value, Value::Flag(_))
    }
}

fn number(value: Value) -> Option<f64> {
    match value {
        Value::Real(real) => Some(real),
        Value::Count(count) => Some(f64::from(count)),
        Value::Flag(_) | Value::Name(_) => None,
    }
}

/// Returns the values to which a parameter is moved: down, up.
fn neighbours(value: Value, range: &Range) -> [Option<Value>; 2] {
    let permitted = |value: Value| Some(value).filter(|value| range.contains(*value));
    match (value, range) {
        (Value::Flag(flag), _) => [None, Some(Value::Flag(!flag))],
        (Value::Name(_), _) => [None, None],
        (Value::Count(count), Range::PowerOfTwo(..)) => [
            permitted(Value::Count(count / 2)),
            count
                .checked_mul(2)
                .and_then(|twice| permitted(Value::Count(twice))),
        ],
        (Value::Count(count), Range::OneOf(choices)) => {
            let below = choices.iter().filter(|choice| **choice < count).max();
            let above = choices.iter().filter(|choice| **choice > count).min();
            [below, above].map(|choice| choice.map(|choice| Value::Count(*choice)))
        }
        (Value::Count(count), _) => {
            let step = ((f64::from(count) * STEP).round() as u32).max(1);
            let moved = [count.checked_sub(step), count.checked_add(step)];
            moved.map(|moved| moved.and_then(|moved| permitted(Value::Count(moved))))
        }
        (Value::Real(real), _) => {
            [1.0 - STEP, 1.0 + STEP].map(|factor| permitted(Value::Real(real * factor)))
        }
    }
}

fn is_zero(value: Value) -> bool {
    value == Value::Real(0.0)
}

/// Returns `spec` with a parameter moved, if no other parameter contradicts.
fn moved(spec: &PerfSpec, key: &str, value: Value) -> Result<PerfSpec, Refused> {
    let mut moved = spec.clone();
    let set = moved.preset.set(key, &value.to_string());
    let checked = set.and_then(|()| moved.preset.check());
    match checked {
        Ok(()) => Ok(moved),
        Err(error) => Err(Refused {
            what: format!("{key} = {value}"),
            reason: error.to_string(),
        }),
    }
}

impl Trials {
    fn new(spec: &PerfSpec) -> Self {
        let mut all = Self {
            effects: Vec::new(),
            trials: Vec::new(),
            zero: Vec::new(),
            refused: Vec::new(),
        };
        let preset: &Preset = &spec.preset;
        for parameter in preset.parameters() {
            if parameter.key == NOT_MOVED {
                continue;
            }
            if is_zero(parameter.value) {
                all.zero.push(parameter.key);
                continue;
            }
            let places = neighbours(parameter.value, &parameter.declaration.range);
            for (value, is_up) in places.into_iter().zip([false, true]) {
                let Some(value) = value else {
                    continue;
                };
                match moved(spec, &parameter.key, value) {
                    Err(refused) => all.refused.push(refused),
                    Ok(spec) => all.trials.push(Trial {
                        parameter: all.effects.len(),
                        is_up,
                        value,
                        spec,
                    }),
                }
            }
            all.effects.push(Effect {
                key: parameter.key,
                unit: parameter.declaration.unit,
                value: parameter.value,
                down: None,
                up: None,
            });
        }
        all
    }

    /// Records the result of a trial.
    fn note(&mut self, index: usize, base: f64, test: Test, result: Result<PerfRow, Error>) {
        let trial = &self.trials[index];
        let effect = &mut self.effects[trial.parameter];
        let figure = result.and_then(|row| figure(test, &row));
        match figure {
            Err(error) => self.refused.push(Refused {
                what: format!("{} = {}", effect.key, trial.value),
                reason: error.to_string(),
            }),
            Ok(figure) => {
                let place = if trial.is_up {
                    &mut effect.up
                } else {
                    &mut effect.down
                };
                *place = Some(Moved {
                    value: trial.value,
                    figure,
                    change: figure / base - 1.0,
                });
            }
        }
    }
}

/// Returns the name of the figure of a test.
fn name(test: Test) -> &'static str {
    match test {
        Test::Bandwidth => "message rate in Mpps",
        Test::Latency => "typical latency in us",
    }
}

fn figure(test: Test, row: &PerfRow) -> Result<f64, Error> {
    let figure = match test {
        Test::Bandwidth => row.bandwidth.as_ref().map(|row| row.message_rate_mpps),
        Test::Latency => row.latency.as_ref().map(|row| row.typical_us),
    };
    figure.filter(|figure| *figure > 0.0).ok_or(Error::NoFigure)
}

/// Returns the number of runs that [`run`] takes.
pub fn runs(spec: &PerfSpec) -> usize {
    Trials::new(spec).trials.len() + 1
}

/// Measures `spec` for messages of `size` bytes with each parameter moved, `workers` runs in
/// parallel, until `stop` is set. Calls `progress` after each run.
///
/// # Errors
/// The error of the run without a change; [`Error::Interrupted`].
pub fn run(
    spec: &PerfSpec,
    size: u32,
    workers: usize,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(),
) -> Result<Sensitivity, Error> {
    let mut all = Trials::new(spec);
    let runs = all.trials.len() + 1;
    if runs > MOST_RUNS {
        return Err(Error::Invalid {
            what: "--sensitivity",
            value: format!("of {runs} runs"),
            reason: format!("at most {MOST_RUNS}"),
        });
    }
    let base = figure(spec.test, &crate::runner::run(spec, size, stop, None)?)?;
    progress();
    let job = |trial: &Trial| Job {
        spec: trial.spec.clone(),
        size,
        point: Vec::new(),
    };
    let jobs: Vec<Job> = all.trials.iter().map(job).collect();
    let mut results = Vec::new();
    sweep::run_each(&jobs, workers, stop, &mut |index, result| {
        progress();
        results.push((index, result));
    });
    results.sort_by_key(|(index, _)| *index);
    for (index, result) in results {
        if matches!(result, Err(Error::Interrupted)) {
            return Err(Error::Interrupted);
        }
        all.note(index, base, spec.test, result);
    }
    Ok(ranked(all, base, spec.test, runs))
}

/// Sorts parameters by their elasticity, because steps of whole numbers differ in size; those
/// without an elasticity by the largest change.
fn ranked(all: Trials, figure: f64, test: Test, runs: usize) -> Sensitivity {
    let Trials {
        mut effects,
        zero,
        refused,
        ..
    } = all;
    let weight = |effect: &Effect| {
        let elasticity = effect.elasticity(figure).map_or(0.0, f64::abs);
        (elasticity, effect.most())
    };
    effects.sort_by(|one, other| {
        let (one, other) = (weight(one), weight(other));
        other.0.total_cmp(&one.0).then(other.1.total_cmp(&one.1))
    });
    let has_effect = |effect: &Effect| effect.most() >= LEAST_EFFECT;
    let (with, without): (Vec<_>, Vec<_>) = effects.into_iter().partition(has_effect);
    let (flags, effects) = with.into_iter().partition(Effect::is_flag);
    let mut without_effect: Vec<String> = without.into_iter().map(|effect| effect.key).collect();
    without_effect.sort();
    Sensitivity {
        name: name(test),
        figure,
        effects,
        flags,
        without_effect,
        zero,
        refused,
        runs,
    }
}

#[cfg(test)]
mod tests;
