//! The perturbation as a table for a terminal, as CSV and as JSON.

use std::fmt::Write as _;

use ferroce_perf::number_text::short;
use serde_json::{Value, json};

use super::{Flip, Perturbation};
use crate::validate::basis::Kind;

/// Returns the table for a terminal: the flips, the examined targets, and the conclusion.
pub fn text(perturbation: &Perturbation) -> String {
    let mut text = String::new();
    if !perturbation.flips.is_empty() {
        let _ = writeln!(
            text,
            "{:<5} {:<22} {:<9} {:<32} {:<10} {:>20} {:>10} {:>10}",
            "", "point", "basis", "parameter", "origin", "value", "target", "error"
        );
    }
    for flip in &perturbation.flips {
        let point = &flip.point;
        let row = format!(
            "{:<5} {:<22} {:<9} {:<32} {:<10} {:>20} {:>10} {:>10}  FAIL",
            flip.id,
            point.label,
            point.basis.kind,
            flip.key,
            flip.origin,
            values(flip),
            point.expected,
            point.error
        );
        let _ = writeln!(text, "{row}");
    }
    for examined in &perturbation.examined {
        for refused in &examined.refused {
            let _ = writeln!(text, "{}: cannot be run with {refused}", examined.id);
        }
    }
    let missed: Vec<_> = missed(perturbation).collect();
    if !missed.is_empty() {
        let _ = writeln!(
            text,
            "points missed with the presets as they are, which cannot flip: {}",
            missed.join(", ")
        );
    }
    text.push_str(&summary(perturbation));
    text
}

/// Returns a line for each kind, and the predictions that depend on one value.
fn summary(perturbation: &Perturbation) -> String {
    let mut text = String::new();
    for kind in Kind::ALL {
        let own = perturbation.examined.iter();
        let own = own.filter(|examined| examined.kinds.contains(&kind));
        let all = own.clone().count();
        let holding = own
            .filter(|examined| flips_of(perturbation, &examined.id, kind).next().is_none())
            .count();
        if all > 0 {
            let _ = writeln!(
                text,
                "{kind:<9} {holding} of {all} targets hold when any one value moves by 10 %"
            );
        }
    }
    let fragile = perturbation.fragile();
    for (id, key) in &fragile {
        let _ = writeln!(text, "FAIL: the prediction {id} depends on {key}");
    }
    text
}

/// Returns the result as CSV: a line for each flip.
pub fn csv(perturbation: &Perturbation) -> String {
    let mut rows = csv::Writer::from_writer(Vec::new());
    let mut add = |row: &[&str]| rows.write_record(row).expect("a vector takes any bytes");
    add(&[
        "id",
        "point",
        "basis",
        "parameter",
        "origin",
        "value",
        "moved_to",
        "target",
        "model",
        "error",
    ]);
    for flip in &perturbation.flips {
        let point = &flip.point;
        add(&[
            &flip.id,
            &point.label,
            point.basis.kind.word(),
            &flip.key,
            &flip.origin.to_string(),
            &flip.from.to_string(),
            &flip.to.to_string(),
            &point.expected,
            &short(point.model),
            &point.error,
        ]);
    }
    let text = rows.into_inner().expect("a vector takes any bytes");
    String::from_utf8(text).expect("labels and numbers are UTF-8")
}

/// Returns the result as JSON.
pub fn json(perturbation: &Perturbation) -> Value {
    let flips = perturbation.flips.iter().map(|flip| {
        json!({
            "id": flip.id,
            "point": flip.point.label,
            "basis": flip.point.basis.kind.word(),
            "parameter": flip.key,
            "origin": flip.origin.to_string(),
            "value": flip.from.to_string(),
            "moved_to": flip.to.to_string(),
            "model": flip.point.model,
            "error": flip.point.error,
        })
    });
    let examined = perturbation.examined.iter().map(|examined| {
        json!({
            "id": examined.id,
            "basis": examined.kinds.iter().map(|kind| kind.word()).collect::<Value>(),
            "parameters": examined.parameters,
            "effective": examined.effective,
            "points": examined.points,
            "passing": examined.passing,
            "cannot_be_run": examined.refused,
        })
    });
    let fragile = perturbation.fragile();
    json!({
        "predictions_that_depend_on_one_value": fragile
            .iter()
            .map(|(id, key)| json!({ "id": id, "parameter": key }))
            .collect::<Value>(),
        "flips": flips.collect::<Value>(),
        "targets": examined.collect::<Value>(),
    })
}

fn values(flip: &Flip) -> String {
    let number = |value: ferroce_model::preset::Value| {
        let text = value.to_string();
        text.parse().map_or(text, short)
    };
    format!("{} to {}", number(flip.from), number(flip.to))
}

fn missed(perturbation: &Perturbation) -> impl Iterator<Item = String> {
    let examined = perturbation.examined.iter();
    let some_missed = examined.filter(|examined| examined.passing < examined.points);
    some_missed.map(|e| format!("{} ({} of {})", e.id, e.points - e.passing, e.points))
}

fn flips_of<'a>(
    perturbation: &'a Perturbation,
    id: &'a str,
    kind: Kind,
) -> impl Iterator<Item = &'a Flip> {
    let flips = perturbation.flips.iter();
    flips.filter(move |flip| flip.id == id && flip.point.basis.kind == kind)
}

#[cfg(test)]
mod tests {
    use ferroce_model::preset::{Origin, Value as Moved};

    use super::*;
    use crate::validate::basis::Basis;
    use crate::validate::outcome::check;
    use crate::validate::perturb::Examined;
    use crate::validate::plan::Expected;
    use crate::validate::target;

    fn perturbation() -> Perturbation {
        let target = target::all().remove(10);
        let (label, expected) = ("2 B", Expected::Near(0, 10.0));
        let flip = Flip {
            id: target.id.clone(),
            point: check(&target, label, expected, Basis::foreign(), 2.0),
            key: "pcie.read_latency_ns".to_owned(),
            origin: Origin::Guess,
            from: Moved::Real(402.6),
            to: Moved::Real(442.86),
        };
        let examined = |id: &str, passing| Examined {
            id: id.to_owned(),
            kinds: vec![Kind::Predicted],
            parameters: 70,
            effective: 12,
            passing,
            points: 1,
            refused: Vec::new(),
        };
        Perturbation {
            examined: vec![examined(&target.id, 1), examined("V05d", 0)],
            flips: vec![flip],
        }
    }

    #[test]
    fn the_table_says_what_flips_and_what_it_means() {
        let text = text(&perturbation());
        for part in [
            "V04a  2 B                    predicted pcie.read_latency_ns             guess",
            "402.6 to 442.86",
            "+26.6 %  FAIL",
            "cannot flip: V05d (1 of 1)",
            "predicted 1 of 2 targets hold",
            "FAIL: the prediction V04a depends on pcie.read_latency_ns",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }

    #[test]
    fn csv_and_json_have_the_same() {
        let csv = csv(&perturbation());
        let expected = "V04a,2 B,predicted,pcie.read_latency_ns,guess,402.6,442.86,1.580,2,+26.6 %";
        assert_eq!(csv.lines().nth(1), Some(expected));
        let json = json(&perturbation());
        let fragile = &json["predictions_that_depend_on_one_value"];
        assert_eq!(fragile[0]["parameter"], "pcie.read_latency_ns");
        assert_eq!(json["targets"][1]["passing"], 0);
    }
}
