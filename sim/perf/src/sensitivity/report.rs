//! The sensitivity of a figure as a table, JSON and CSV.

use std::fmt::Write;

use ferroce_model::preset::Value;
use serde_json::json;

use super::{Effect, LEAST_EFFECT, Moved, Sensitivity};
use crate::json::parameter_value;

/// Maximum number of parameters that a line names.
const MOST_NAMES: usize = 8;

/// Returns a table, the largest effect first, and a line for the parameters without an effect.
pub fn text(found: &Sensitivity) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write_text(&mut out, found);
    out
}

fn write_text(out: &mut String, found: &Sensitivity) -> std::fmt::Result {
    writeln!(
        out,
        " {}: {:.4}; {} runs",
        found.name, found.figure, found.runs
    )?;
    if !found.effects.is_empty() {
        writeln!(
            out,
            " {:<40} {:>14} {:>12} {:>9} {:>12} {:>9} {:>10}",
            "parameter", "value", "lower", "change", "higher", "change", "elasticity"
        )?;
    }
    for effect in &found.effects {
        let (value, unit) = (short(effect.value), effect.unit);
        let elasticity = effect.elasticity(found.figure);
        let elasticity = elasticity.map_or("-".to_owned(), |it| format!("{it:+.3}"));
        writeln!(
            out,
            " {:<40} {:>14} {:>12} {:>9} {:>12} {:>9} {elasticity:>10}",
            effect.key,
            format!("{value} {unit}").trim_end(),
            value_of(effect.down),
            change_of(effect.down),
            value_of(effect.up),
            change_of(effect.up),
        )?;
    }
    if !found.flags.is_empty() {
        writeln!(out, " Flags, flipped:")?;
    }
    for flag in &found.flags {
        let (key, value) = (&flag.key, flag.value);
        writeln!(out, " {key:<40} {value:>14} {:>9}", change_of(flag.up))?;
    }
    let least = LEAST_EFFECT * 100.0;
    let without = found.without_effect.len();
    writeln!(out, " {without} have no effect (less than {least} %).")?;
    if !found.zero.is_empty() {
        let names = names(&found.zero);
        writeln!(
            out,
            " {} are 0, and were not moved: {names}",
            found.zero.len()
        )?;
    }
    for refused in &found.refused {
        writeln!(out, " Not moved: {}: {}", refused.what, refused.reason)?;
    }
    Ok(())
}

fn names(all: &[String]) -> String {
    let more = all.len().saturating_sub(MOST_NAMES);
    let first = all[..all.len() - more].join(", ");
    match more {
        0 => first,
        more => format!("{first}, and {more} more"),
    }
}

/// Returns a value with at most four decimals.
fn short(value: Value) -> String {
    match value {
        Value::Real(real) => ((real * 1e4).round() / 1e4).to_string(),
        other => other.to_string(),
    }
}

fn value_of(moved: Option<Moved>) -> String {
    moved.map_or("-".to_owned(), |moved| short(moved.value))
}

fn change_of(moved: Option<Moved>) -> String {
    moved.map_or("-".to_owned(), |moved| {
        format!("{:+.2} %", moved.change * 100.0)
    })
}

/// Returns everything as JSON.
pub fn json(found: &Sensitivity) -> serde_json::Value {
    let all = |effects: &[Effect]| -> serde_json::Value {
        effects.iter().map(|it| effect(it, found.figure)).collect()
    };
    let refused = found
        .refused
        .iter()
        .map(|refused| json!({ "what": refused.what, "reason": refused.reason }));
    json!({
        "figure": found.name,
        "value": found.figure,
        "runs": found.runs,
        "effects": all(&found.effects),
        "flags": all(&found.flags),
        "without_effect": found.without_effect,
        "zero": found.zero,
        "refused": refused.collect::<serde_json::Value>(),
    })
}

fn effect(effect: &Effect, figure: f64) -> serde_json::Value {
    let moved = |moved: Option<Moved>| {
        moved.map(|moved| {
            json!({
                "value": parameter_value(moved.value),
                "figure": moved.figure,
                "change": moved.change,
            })
        })
    };
    json!({
        "parameter": effect.key,
        "unit": effect.unit,
        "value": parameter_value(effect.value),
        "lower": moved(effect.down),
        "higher": moved(effect.up),
        "elasticity": effect.elasticity(figure),
    })
}

/// Returns a line for each parameter with an effect.
///
/// # Errors
/// The errors of the CSV writer; it writes to memory only.
pub fn csv(found: &Sensitivity) -> Result<String, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record([
        "parameter",
        "unit",
        "value",
        "lower",
        "lower_figure",
        "higher",
        "higher_figure",
        "elasticity",
    ])?;
    for effect in found.effects.iter().chain(&found.flags) {
        let text = |moved: Option<Moved>| match moved {
            Some(moved) => [short(moved.value), moved.figure.to_string()],
            None => Default::default(),
        };
        let ([lower, lower_figure], [higher, higher_figure]) = (text(effect.down), text(effect.up));
        let elasticity = effect.elasticity(found.figure);
        writer.write_record([
            effect.key.clone(),
            effect.unit.to_owned(),
            short(effect.value),
            lower,
            lower_figure,
            higher,
            higher_figure,
            elasticity.map_or(String::new(), |it| format!("{it:.4}")),
        ])?;
    }
    let bytes = writer.into_inner().map_err(|error| error.into_error())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
