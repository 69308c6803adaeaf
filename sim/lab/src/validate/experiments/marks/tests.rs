//! The marks agree with the sources that the presets state.

use ferroce_model::preset::Preset;

use super::super::{all, basis};
use super::{Kind, MARKS};
use crate::validate::plan::{Expected, Plan, Point, Run};
use crate::validate::target::{self, Target};

/// A value whose source names a predicted target, and the reason why the target is a prediction
/// nevertheless.
struct Named {
    id: &'static str,
    key: &'static str,
    /// Not read by the tests; for people only.
    _reason: &'static str,
}

const fn named(id: &'static str, key: &'static str, reason: &'static str) -> Named {
    Named {
        id,
        key,
        _reason: reason,
    }
}

const NAMED: &[Named] = &[
    named(
        "V04a",
        "pcie.read_latency_ns",
        "chosen from READ less WRITE, and no inline WRITE waits for a read",
    ),
    named(
        "V13c",
        "transport.ack_delay_ns",
        "chosen from WRITE less READ, and no READ waits for an ACK",
    ),
];

/// Values whose limit is near a predicted rate by chance.
const NEAR_BY_CHANCE: &[Named] = &[named(
    "V13a",
    "units.message_cycles",
    "one unit does 19.5 M messages/s, but 96 threads use all units and wait for a lock of the host",
)];

/// Targets that are fitted or identities by a figure in the code, not in a preset.
const IN_THE_CODE: &[&str] = &["V20b", "V22b", "L1", "L3", "L16"];

/// The test searches sources for a difference of two figures only if it has at least this many
/// digits.
const DIGITS_OF_A_DIFFERENCE: usize = 3;

/// A limit of a card that is as near as this share to a measured rate was chosen from it, until
/// [`NEAR_BY_CHANCE`] has a reason.
const NEAR_A_LIMIT: f64 = 0.02;

/// Returns the sources of all values of a preset and its machine, with their keys.
fn sources(preset: &Preset) -> Vec<(String, String)> {
    let parameters = preset.parameters();
    let mut sources: Vec<_> = parameters
        .map(|parameter| (parameter.key, parameter.source.to_owned()))
        .collect();
    if let Some(topology) = &preset.topology {
        for element in topology.elements() {
            let values = topology.values(element).into_iter();
            sources.extend(values.map(|value| {
                let key = format!("topology.{element}.{}", value.declaration.name);
                (key, value.source.to_owned())
            }));
        }
    }
    sources
}

#[test]
fn every_point_has_a_mark_and_every_mark_a_point() {
    for plan in all() {
        for point in plan.points {
            assert!(
                basis(plan.id, point.label).is_some(),
                "{} {} has no mark: add it to marks.rs",
                plan.id,
                point.label
            );
        }
    }
    for (index, mark) in MARKS.iter().enumerate() {
        let plan = all().find(|plan| plan.id == mark.id);
        let plan = plan.unwrap_or_else(|| panic!("{}: there is no such target", mark.id));
        let has_point = plan.points.iter().any(|point| point.label == mark.point);
        let (id, point) = (mark.id, mark.point);
        assert!(point.is_empty() || has_point, "{id}: no point {point}");
        let same = |other: &super::Mark| (other.id, other.point) == (id, point);
        let is_first = MARKS.iter().position(same) == Some(index);
        assert!(is_first, "{id} {point}: two marks");
    }
}

#[test]
fn what_is_not_predicted_names_the_value_that_was_chosen() {
    for mark in MARKS {
        let has_chosen = !mark.chosen.is_empty() || IN_THE_CODE.contains(&mark.id);
        let is_predicted = mark.kind == Kind::Predicted;
        assert!(
            has_chosen != is_predicted || IN_THE_CODE.contains(&mark.id),
            "{} {}: {} with {} chosen values",
            mark.id,
            mark.point,
            mark.kind,
            mark.chosen.len()
        );
    }
}

/// Goal: when a preset no longer chooses a value from a figure, the mark has to be changed.
#[test]
fn chosen_values_say_so_in_their_source() {
    for (plan, point) in points() {
        let basis = basis(plan.id, point.label).expect("another test checks it");
        let Some(preset) = preset(&point.run) else {
            assert!(basis.chosen.is_empty(), "{}: without a preset", plan.id);
            continue;
        };
        for chosen in basis.chosen {
            let source = sources(&preset)
                .into_iter()
                .find(|(key, _)| key == chosen.key);
            let (_, source) =
                source.unwrap_or_else(|| panic!("{}: no parameter {}", plan.id, chosen.key));
            assert!(
                source.contains(chosen.words),
                "{} {} is marked as {} because the source of {} in {} has `{}`; it now says `{}`. \
                 Change the mark in marks.rs: is the target a prediction now?",
                plan.id,
                point.label,
                basis.kind,
                chosen.key,
                preset.name(),
                chosen.words,
                source
            );
        }
    }
}

/// Goal: when a preset begins to choose a value from a predicted figure, the mark has to change.
#[test]
fn no_source_names_a_prediction() {
    let targets = target::all();
    let mut found = Vec::new();
    for (plan, point) in points() {
        let is_predicted =
            |own: &Point| basis(plan.id, own.label).is_some_and(|b| b.kind == Kind::Predicted);
        let Some(preset) = preset(&point.run).filter(|_| is_predicted(point)) else {
            continue;
        };
        let target = targets.iter().find(|target| target.id == plan.id);
        let figures = figures(target.expect("a target of the file"), point, &targets);
        for (key, source) in sources(&preset) {
            let quantities = quantities(&source);
            let same = figures
                .iter()
                .find(|(figure, _)| quantities.iter().any(|quantity| quantity.is(figure)));
            let why = match (same, mentions(&source, plan.id)) {
                (Some((_, what)), _) => what.clone(),
                (None, true) => format!("`{}`", plan.id),
                (None, false) => continue,
            };
            found.push((plan.id, key, why, source));
        }
    }
    let is_known =
        |id: &str, key: &str| NAMED.iter().any(|named| (named.id, named.key) == (id, key));
    let unknown: Vec<_> = found
        .iter()
        .filter(|(id, key, ..)| !is_known(id, key))
        .map(|(id, key, why, source)| format!("{id} is predicted, {key} has {why}: {source}"))
        .collect();
    assert!(
        unknown.is_empty(),
        "mark them as fitted in marks.rs, or say in NAMED why not:\n{}",
        unknown.join("\n")
    );
    for named in NAMED {
        let is_used = found
            .iter()
            .any(|(id, key, ..)| (*id, key.as_str()) == (named.id, named.key));
        assert!(
            is_used,
            "{} {}: no source names it any more",
            named.id, named.key
        );
    }
}

/// Goal: when cycles of a preset are changed until a limit of the card is a predicted rate, the
/// mark has to change, whatever the source of the value says.
#[test]
fn no_limit_of_a_card_is_a_predicted_rate() {
    let targets = target::all();
    let mut found = Vec::new();
    for (plan, point) in points() {
        let is_predicted = basis(plan.id, point.label).is_some_and(|b| b.kind == Kind::Predicted);
        let Some(preset) = preset(&point.run).filter(|_| is_predicted) else {
            continue;
        };
        let target = targets.iter().find(|target| target.id == plan.id);
        let target = target.expect("a target of the file");
        let figure = reference(target, point).and_then(|value| Figure::new(value, &target.unit));
        let Some(figure) = figure.filter(|figure| figure.dimension == "M/s") else {
            continue;
        };
        let is_known = |key: &str| {
            let mut known = NEAR_BY_CHANCE.iter();
            known.any(|named| (named.id, named.key) == (plan.id, key))
        };
        for (key, limit) in limits(&preset) {
            if (limit / figure.value - 1.0).abs() < NEAR_A_LIMIT && !is_known(&key) {
                found.push((plan.id, point.label, key, limit));
            }
        }
    }
    assert!(
        found.is_empty(),
        "mark them as fitted in marks.rs, or say in NEAR_BY_CHANCE why not: {found:?}"
    );
}

/// Returns the rates, in M/s, at which single blocks of a card limit it: the rate of each value in
/// cycles, and for processing units the rate of one and of all.
fn limits(preset: &Preset) -> Vec<(String, f64)> {
    let value = |key: &str| {
        let mut parameters = preset.parameters();
        let parameter = parameters.find(|parameter| parameter.key == key);
        let value = parameter.expect("a parameter of each preset").value;
        value.to_string().parse::<f64>().expect("a number")
    };
    let (core_mhz, units) = (value("clock.core_mhz"), value("units.count"));
    let in_cycles = preset.parameters().filter(|p| p.key.ends_with("_cycles"));
    let mut limits = Vec::new();
    for key in in_cycles.map(|parameter| parameter.key) {
        let cycles = value(&key);
        if cycles > 0.0 && key.starts_with("units.") {
            limits.push((key.clone(), units * core_mhz / cycles));
        }
        if cycles > 0.0 {
            limits.push((key, core_mhz / cycles));
        }
    }
    limits
}

#[test]
fn sources_are_read_as_quantities() {
    let quantities = quantities("host A: 143 ns per post (7.0 M/s), 1.17 M READs/s; 2 to 128 B");
    let is = |value, unit| {
        let figure = Figure::new(value, unit).expect("a unit");
        quantities.iter().any(|quantity| quantity.is(&figure))
    };
    assert!(is(0.143, "us") && is(7.0, "Mpps") && is(1.17, "Mops") && is(143.0, "ns"));
    assert!(!is(0.144, "us") && !is(1.2, "Mops") && !is(143.0, "Mops"));
    assert!(mentions("fitted to V12 (SMART)", "V12a") && !mentions("V12b", "V12a"));
    assert!(!mentions("V120", "V12a") && mentions("L1: 2 ms", "L1"));
}

fn points() -> impl Iterator<Item = (&'static Plan, &'static Point)> {
    all().flat_map(|plan| plan.points.iter().map(move |point| (plan, point)))
}

fn preset(run: &Run) -> Option<Preset> {
    let is_link = run.preset() == "a link alone";
    (!is_link).then(|| Preset::load(run.preset()).expect("a built-in preset"))
}

/// A time in us, a rate in M/s or a bandwidth in Gb/s.
#[derive(Clone, Copy, Debug)]
struct Figure {
    dimension: &'static str,
    value: f64,
}

impl Figure {
    fn new(value: f64, unit: &str) -> Option<Self> {
        let (dimension, factor) = match unit {
            "us" => ("us", 1.0),
            "ns" => ("us", 1e-3),
            "ms" => ("us", 1e3),
            "Mops" | "Mpps" | "M/s" => ("M/s", 1.0),
            "Gb/s" => ("Gb/s", 1.0),
            _ => return None,
        };
        let value = value * factor;
        Some(Self { dimension, value })
    }
}

/// A number with a unit in a text.
#[derive(Clone, Copy, Debug)]
struct Quantity {
    figure: Figure,
    /// Half of the last digit, in the figure's unit.
    rounding: f64,
}

impl Quantity {
    fn is(&self, figure: &Figure) -> bool {
        let distance = (self.figure.value - figure.value).abs();
        self.figure.dimension == figure.dimension && distance <= self.rounding * 0.2
    }
}

/// Returns the numbers of `text` that have a unit. `M` is a rate if the next word ends with `/s`,
/// as in `1.17 M READs/s`.
fn quantities(text: &str) -> Vec<Quantity> {
    let trimmed = |word: &str| word.trim_matches(|c: char| !c.is_alphanumeric()).to_owned();
    let words: Vec<_> = text.split_whitespace().map(trimmed).collect();
    let mut found = Vec::new();
    for (index, word) in words.iter().enumerate() {
        let (Ok(value), Some(next)) = (word.parse::<f64>(), words.get(index + 1)) else {
            continue;
        };
        let behind = words.get(index + 2).map_or("", String::as_str);
        let unit = match next.as_str() {
            "M" if behind.ends_with("/s") => "M/s",
            unit => unit,
        };
        let decimals = word
            .split_once('.')
            .map_or(0, |(_, decimals)| decimals.len());
        let rounding = 0.5 * 10.0_f64.powi(-(decimals as i32));
        let figure = Figure::new(value, unit).zip(Figure::new(rounding, unit));
        found.extend(figure.map(|(figure, rounding)| Quantity {
            figure,
            rounding: rounding.value,
        }));
    }
    found
}

/// Returns true if `text` has the number of the target or of its group.
fn mentions(text: &str, id: &str) -> bool {
    let group = id.trim_end_matches(|c: char| c.is_ascii_lowercase());
    let mut words = text.split(|c: char| !c.is_alphanumeric());
    words.any(|word| word == id || word == group)
}

/// Returns the figures of a point: its reference, and its differences to the references of other
/// targets that are measured with the same preset.
fn figures(target: &Target, point: &Point, targets: &[Target]) -> Vec<(Figure, String)> {
    let mut figures = Vec::new();
    let Some(own) = reference(target, point) else {
        return figures;
    };
    figures.extend(Figure::new(own, &target.unit).map(|f| (f, "its figure".to_owned())));
    for (plan, other) in points().filter(|(_, other)| other.run.preset() == point.run.preset()) {
        let other_target = targets.iter().find(|target| target.id == plan.id);
        let other_target = other_target.filter(|other| other.unit == target.unit);
        let value = other_target.and_then(|target| reference(target, other));
        let difference = value.map_or(0.0, |value| (own - value).abs());
        let digits = format!("{:.0}", difference * 1000.0)
            .trim_end_matches('0')
            .len();
        if digits >= DIGITS_OF_A_DIFFERENCE {
            let what = format!("its difference to {}", plan.id);
            figures.extend(Figure::new(difference, &target.unit).map(|f| (f, what)));
        }
    }
    figures
}

fn reference(target: &Target, point: &Point) -> Option<f64> {
    match point.expected {
        Expected::Near(index, _) | Expected::Octaves(index, _) => {
            target.values().get(index).copied()
        }
        Expected::Value(value, _) => Some(value),
        _ => None,
    }
}
