//! Finds targets that depend on a single value: moves each value by 10 %, and measures the targets
//! again.
//!
//! A prediction that holds only because of one value is a fit that its author has not noticed.
//!
//! For a fitted target and an identity, the values that were chosen from its figure are moved. For
//! a prediction, every guessed or derived value of card and host is moved, except values that no
//! target uses ([`UNUSED`]). Targets on lossy links have long runs; they are examined only on
//! request, with the values of link, MAC and transport. Flags, and values that permit only powers
//! of two or an enumeration, have no neighbour at 10 %. A base-2 logarithm moves by one, which
//! halves or doubles the value that it encodes.
//!
//! Runs are deterministic. So all values of a section are first moved together, up and then down:
//! if no digit of a figure changes, none of them affects it, and they are not moved one by one.
//!
//! [`listing`]: the result as text, CSV and JSON.

pub mod listing;

use std::collections::BTreeSet;

use ferroce_model::preset::{Origin, Parameter, Preset, Value};

use super::basis::Kind;
use super::changes::{Changes, Move, moved};
use super::outcome::{self, Checked, Figures};
use super::plan::{Plan, Run};
use super::target::Target;
use super::{experiments, parallel};
use crate::cache::Cache;
use crate::reference::experiment::Simulator;

/// Parameters or sections that no target uses: interrupts, RDMA CM, sizes of tables.
const UNUSED: &[&str] = &[
    "identity.",
    "interrupt.",
    "limits.",
    "host.cm_command_ns",
    "host.cm_mad_ns",
    "host.interrupt_ns",
    "host.syscall_ns",
];

/// Sections that are moved for targets on lossy links.
const LOSSY: &[&str] = &["link.", "mac.", "transport."];

/// Receives the progress of the work.
pub trait Listener: Sync {
    /// Reports that this many steps of `what` begin.
    fn begin(&self, what: &str, count: usize);
    /// Reports that one step is done.
    fn advance(&self);
}

/// A value that was moved, and a point that passes with the old value but not with the new one.
#[derive(Clone, Debug, PartialEq)]
pub struct Flip {
    /// The target.
    pub id: String,
    /// The point with the moved value.
    pub point: Checked,
    /// The parameter.
    pub key: String,
    /// Origin of its value.
    pub origin: Origin,
    /// The value in the preset.
    pub from: Value,
    /// The value that it was moved to.
    pub to: Value,
}

/// A target, and the result of its moves.
#[derive(Clone, Debug, PartialEq)]
pub struct Examined {
    /// The target.
    pub id: String,
    /// The kinds of its points.
    pub kinds: Vec<Kind>,
    /// Parameters whose values were moved.
    pub parameters: usize,
    /// Number of parameters whose move changes one of its figures.
    pub effective: usize,
    /// Points that pass with the unchanged preset; only these can flip.
    pub passing: usize,
    /// All points.
    pub points: usize,
    /// Moves with which no run was possible, with the reason.
    pub refused: Vec<String>,
}

/// Result of [`sum_up`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Perturbation {
    /// By target.
    pub examined: Vec<Examined>,
    /// By target and parameter.
    pub flips: Vec<Flip>,
}

impl Perturbation {
    /// Returns the predictions that depend on a single value: target and parameter.
    pub fn fragile(&self) -> Vec<(&str, &str)> {
        let flips = self.flips.iter();
        let mut fragile: Vec<_> = flips
            .filter(|flip| flip.point.basis.kind == Kind::Predicted)
            .map(|flip| (flip.id.as_str(), flip.key.as_str()))
            .collect();
        fragile.dedup();
        fragile
    }
}

/// What the moves of one target have shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Figures with unchanged presets.
    pub base: Vec<f64>,
    /// The moves of single values that change a figure, and the changed figures, or the reason why
    /// no run is possible.
    pub moves: Vec<(Move, Figures)>,
}

/// One target with its results before any move.
struct Subject {
    plan: &'static Plan,
    target: Target,
    /// Its points with unchanged presets.
    base: Vec<Checked>,
    keys: Vec<String>,
}

impl Subject {
    fn new(target: &Target, base: &[f64]) -> Result<Self, String> {
        let plan = plan(target)?;
        Ok(Self {
            plan,
            target: target.clone(),
            base: outcome::check_all(target, plan, base)?,
            keys: keys(plan)?,
        })
    }

    /// Returns the groups of parameters that are moved at once: one for each section.
    fn sections(&self) -> Vec<Vec<String>> {
        let mut sections: Vec<Vec<String>> = Vec::new();
        let section = |key: &str| key.rsplit_once('.').map(|(section, _)| section.to_owned());
        for key in &self.keys {
            let same = |group: &&mut Vec<String>| section(&group[0]) == section(key);
            match sections.iter_mut().find(same) {
                Some(group) => group.push(key.clone()),
                None => sections.push(vec![key.clone()]),
            }
        }
        sections
    }

    fn changed(&self, simulator: &dyn Simulator, keys: &[String], up: bool) -> Effect {
        let moves = keys.iter().map(|key| Move {
            key: key.clone(),
            up,
        });
        let changes = Changes(moves.collect());
        let figures = outcome::figures(simulator, self.plan, &changes).and_then(|figures| {
            let points = outcome::check_all(&self.target, self.plan, &figures)?;
            Ok((figures, points))
        });
        match figures {
            Ok((_, points)) if self.is_same(&points) => Effect::None,
            Ok((figures, _)) => Effect::Some(figures),
            Err(error) => Effect::Refused(error.lines().next().unwrap_or("").to_owned()),
        }
    }

    fn is_same(&self, points: &[Checked]) -> bool {
        let bits = |points: &[Checked]| -> Vec<u64> {
            points.iter().map(|point| point.model.to_bits()).collect()
        };
        bits(&self.base) == bits(points)
    }

    /// Returns the first preset of the target that has the parameter, to report the move.
    fn parameter(&self, key: &str, up: bool) -> Option<(Origin, Value, Value)> {
        presets(self.plan).into_iter().find_map(|preset| {
            let mut parameters = preset.parameters();
            let parameter = parameters.find(|parameter| parameter.key == key)?;
            let to = moved(&parameter, up)?;
            Some((parameter.origin, parameter.value, to))
        })
    }
}

/// The effect of a move on a target.
enum Effect {
    /// Its figures are the same, digit by digit.
    None,
    /// Its figures.
    Some(Vec<f64>),
    /// It cannot be run.
    Refused(String),
}

/// Returns the targets whose id begins with one of `only` (if empty: all except those on lossy
/// links).
pub fn targets(only: &[String]) -> Vec<Target> {
    let mut targets = super::chosen(only);
    if only.is_empty() {
        targets.retain(|target| !is_on_lossy_link(&target.id));
    }
    targets
}

/// Measures targets with each value moved.
///
/// # Errors
/// A target cannot be run with unchanged presets.
pub fn measure(
    simulator: &dyn Simulator,
    targets: &[Target],
    listener: &dyn Listener,
) -> Result<Vec<Record>, String> {
    let cache = Cache::new(simulator);
    listener.begin("targets as they are", targets.len());
    let bases = parallel::map(targets, |target| {
        let figures = outcome::figures(&cache, plan(target)?, &Changes::default());
        listener.advance();
        figures
    });
    let bases = bases.into_iter().collect::<Result<Vec<_>, _>>()?;
    let subjects = subjects(targets, &bases)?;
    let mut jobs = effective(&cache, &subjects, listener);
    // Equal runs are adjacent, so that each thread finds them in the cache.
    jobs.sort_by(|a, b| (&a.1, a.2, a.0).cmp(&(&b.1, b.2, b.0)));
    listener.begin("values moved", jobs.len());
    let effects = parallel::map(&jobs, |(subject, key, up)| {
        let effect = subjects[*subject].changed(&cache, std::slice::from_ref(key), *up);
        listener.advance();
        effect
    });
    let mut results: Vec<_> = jobs.into_iter().zip(effects).collect();
    results.sort_by(|(a, _), (b, _)| a.cmp(b));
    let record = |base| Record {
        base,
        moves: Vec::new(),
    };
    let mut records: Vec<_> = bases.into_iter().map(record).collect();
    for ((subject, key, up), effect) in results {
        let figures = match effect {
            Effect::None => continue,
            Effect::Some(figures) => Ok(figures),
            Effect::Refused(why) => Err(why),
        };
        records[subject].moves.push((Move { key, up }, figures));
    }
    Ok(records)
}

/// Sums up the records of these targets.
///
/// # Errors
/// A record does not belong to its target.
pub fn sum_up(targets: &[Target], records: &[Record]) -> Result<Perturbation, String> {
    let bases: Vec<_> = records.iter().map(|record| record.base.clone()).collect();
    let mut perturbation = Perturbation::default();
    for (subject, record) in subjects(targets, &bases)?.iter().zip(records) {
        add(&mut perturbation, subject, &record.moves)?;
    }
    Ok(perturbation)
}

fn subjects(targets: &[Target], bases: &[Vec<f64>]) -> Result<Vec<Subject>, String> {
    let pairs = targets.iter().zip(bases);
    pairs
        .map(|(target, base)| Subject::new(target, base))
        .collect()
}

fn plan(target: &Target) -> Result<&'static Plan, String> {
    let plan = experiments::plan(&target.id);
    plan.ok_or_else(|| format!("{}: no experiment is planned", target.id))
}

/// A subject, a parameter and a direction.
type Job = (usize, String, bool);

/// Returns the moves of single values that can have an effect: the values of sections with an
/// effect.
fn effective(cache: &Cache<'_>, subjects: &[Subject], listener: &dyn Listener) -> Vec<Job> {
    let mut groups = Vec::new();
    for (index, subject) in subjects.iter().enumerate() {
        groups.extend(subject.sections().into_iter().map(|keys| (index, keys)));
    }
    listener.begin("sections moved", groups.len());
    let has_effect = parallel::map(&groups, |(subject, keys)| {
        // A section of one value is moved in the next step anyway.
        let is_moved = |up| !matches!(subjects[*subject].changed(cache, keys, up), Effect::None);
        let has_effect = keys.len() == 1 || is_moved(true) || is_moved(false);
        listener.advance();
        has_effect
    });
    let groups = groups.into_iter().zip(has_effect);
    groups
        .filter(|(_, has_effect)| *has_effect)
        .flat_map(|((subject, keys), _)| {
            let directions = |key: String| [true, false].map(|up| (subject, key.clone(), up));
            keys.into_iter().flat_map(directions).collect::<Vec<_>>()
        })
        .filter(|(subject, key, up)| subjects[*subject].parameter(key, *up).is_some())
        .collect()
}

fn add(
    perturbation: &mut Perturbation,
    subject: &Subject,
    moves: &[(Move, Figures)],
) -> Result<(), String> {
    let mut effective = BTreeSet::new();
    let mut refused = Vec::new();
    for (Move { key, up }, figures) in moves {
        match figures {
            Err(why) => {
                let direction = if *up { "up" } else { "down" };
                refused.push(format!("{key} {direction}: {why}"));
            }
            Ok(figures) => {
                effective.insert(key);
                let points = outcome::check_all(&subject.target, subject.plan, figures)?;
                perturbation.flips.extend(flips(subject, key, *up, &points));
            }
        }
    }
    let mut kinds: Vec<_> = subject.base.iter().map(|point| point.basis.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    perturbation.examined.push(Examined {
        id: subject.target.id.clone(),
        kinds,
        parameters: subject.keys.len(),
        effective: effective.len(),
        passing: subject.base.iter().filter(|point| point.is_within).count(),
        points: subject.base.len(),
        refused,
    });
    Ok(())
}

fn flips(subject: &Subject, key: &str, up: bool, points: &[Checked]) -> Vec<Flip> {
    let Some((origin, from, to)) = subject.parameter(key, up) else {
        return Vec::new();
    };
    let pairs = subject.base.iter().zip(points);
    let flipped = pairs.filter(|(base, point)| base.is_within && !point.is_within);
    flipped
        .map(|(_, point)| Flip {
            id: subject.target.id.clone(),
            point: point.clone(),
            key: key.to_owned(),
            origin,
            from,
            to,
        })
        .collect()
}

/// Returns the parameters that are moved for a target, each once.
fn keys(plan: &Plan) -> Result<Vec<String>, String> {
    let mut keys: Vec<String> = Vec::new();
    for point in plan.points {
        let basis = experiments::basis(plan.id, point.label);
        let basis = basis.ok_or_else(|| format!("{} has no basis", plan.id))?;
        let Some(preset) = preset(&point.run) else {
            continue;
        };
        let is_lossy = is_lossy(&point.run);
        let is_wanted = |parameter: &Parameter<'_>| match basis.kind {
            Kind::Predicted => is_uncertain(parameter, is_lossy),
            Kind::Fitted | Kind::Identity => basis
                .chosen
                .iter()
                .any(|chosen| chosen.key == parameter.key),
        };
        for parameter in preset.parameters().filter(is_wanted) {
            let is_movable = [true, false]
                .iter()
                .any(|up| moved(&parameter, *up).is_some());
            if is_movable && !keys.contains(&parameter.key) {
                keys.push(parameter.key);
            }
        }
    }
    Ok(keys)
}

/// Returns true if a target is about loss: its runs are long.
fn is_on_lossy_link(id: &str) -> bool {
    let plan = experiments::plan(id);
    plan.is_some_and(|plan| plan.points.iter().any(|point| is_lossy(&point.run)))
}

fn is_lossy(run: &Run) -> bool {
    matches!(
        run,
        Run::Faulty(..) | Run::Incast(..) | Run::Resends(..) | Run::DeadPeer(..)
    )
}

fn is_uncertain(parameter: &Parameter<'_>, is_lossy: bool) -> bool {
    let is_in = |list: &[&str]| list.iter().any(|begin| parameter.key.starts_with(begin));
    matches!(parameter.origin, Origin::Guess | Origin::Derived)
        && !is_in(UNUSED)
        && (!is_lossy || is_in(LOSSY))
}

/// Returns the presets of a target's points, each once.
fn presets(plan: &Plan) -> Vec<Preset> {
    let mut presets: Vec<Preset> = Vec::new();
    for point in plan.points {
        let preset = preset(&point.run);
        let is_new = |preset: &Preset| presets.iter().all(|own| own.name() != preset.name());
        presets.extend(preset.filter(is_new));
    }
    presets
}

/// Returns the preset of a run, if it has one.
fn preset(run: &Run) -> Option<Preset> {
    Preset::load(run.preset()).ok()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use ferroce_perf::{PerfResult, PerfSpec};

    use super::*;
    use crate::reference::experiment::tests::Constant;

    /// A model that uses only two parameters of the preset.
    struct Sum;

    impl Simulator for Sum {
        fn run(&self, spec: &PerfSpec) -> Result<PerfResult, String> {
            let preset = &spec.preset;
            let us = (preset.pcie.read_latency_ns + preset.mac.transmit_ns) / 1000.0;
            Constant {
                rate_mpps: 1.0,
                latency_us: us + 1.331,
            }
            .run(spec)
        }
    }

    #[derive(Default)]
    struct Steps {
        begun: AtomicUsize,
        done: AtomicUsize,
    }

    impl Listener for Steps {
        fn begin(&self, _: &str, count: usize) {
            self.begun.fetch_add(count, Ordering::Relaxed);
        }

        fn advance(&self) {
            self.done.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn perturbed(ids: &[&str]) -> (Perturbation, Steps) {
        let steps = Steps::default();
        let ids: Vec<_> = ids.iter().map(|id| (*id).to_owned()).collect();
        let targets = targets(&ids);
        let records = measure(&Sum, &targets, &steps).expect("it can be run");
        (sum_up(&targets, &records).expect("their own"), steps)
    }

    fn value(key: &str, up: bool) -> Option<Value> {
        let preset = Preset::load("cx5-100g").expect("built in");
        let mut parameters = preset.parameters();
        let parameter = parameters.find(|parameter| parameter.key == key);
        moved(&parameter.expect("a parameter"), up)
    }

    #[test]
    fn values_move_by_a_tenth_or_by_one() {
        let expected = 90.0 * 1.1;
        assert_eq!(value("mac.transmit_ns", true), Some(Value::Real(expected)));
        assert_eq!(value("host.cpus", true), Some(Value::Count(26)));
        assert_eq!(value("units.receive_cycles", false), Some(Value::Count(5)));
        assert_eq!(value("cache.qpc.log_sets", true), Some(Value::Count(9)));
        assert_eq!(
            value("datapath.doorbell_interval_cycles", false),
            Some(Value::Count(0))
        );
        for key in [
            "transport.ack_delay_ns",
            "datapath.width_bits",
            "pcie.lanes",
        ] {
            assert_eq!(value(key, true), None, "{key}");
        }
        assert_eq!(value("datapath.cut_through", true), None);
    }

    /// Goal: a prediction near its tolerance is found, with the value that moves it out of
    /// tolerance.
    #[test]
    fn the_value_that_carries_a_target_over_its_tolerance_is_named() {
        // 1.331 + 0.300 + 0.09 = 1.721 us: 8.9 % above V04a's 1.58. 10 % more of the read miss.
        let (perturbation, steps) = perturbed(&["V04a"]);
        assert_eq!(perturbation.fragile(), [("V04a", "pcie.read_latency_ns")]);
        let flip = &perturbation.flips[0];
        assert_eq!(
            (flip.from, flip.origin),
            (Value::Real(300.0), Origin::Derived)
        );
        let examined = &perturbation.examined[0];
        assert_eq!((examined.effective, examined.refused.len()), (2, 0));
        assert!(examined.parameters > 40, "{examined:?}");
        let (begun, done) = (steps.begun.into_inner(), steps.done.into_inner());
        assert!(begun == done && done > 10, "{done} of {begun}");
    }

    #[test]
    fn targets_of_loss_are_examined_when_they_are_asked_for() {
        let lossy = |id: &&str| is_on_lossy_link(id);
        let ids = ["V04a", "V18", "V21", "L1", "L5"];
        let found: Vec<_> = ids.iter().filter(|id| lossy(id)).collect();
        assert_eq!(found, [&"V21", &"L1", &"L5"]);
    }

    #[test]
    fn what_is_not_predicted_moves_with_what_was_chosen_from_it() {
        let (perturbation, _) = perturbed(&["V04c", "V22a", "L3"]);
        let parameters: Vec<_> = perturbation.examined.iter().map(|e| e.parameters).collect();
        assert_eq!(parameters, [3, 1, 0]);
        assert!(perturbation.fragile().is_empty());
    }
}
