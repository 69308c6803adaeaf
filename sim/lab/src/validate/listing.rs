//! Outcomes as a table for a terminal, and as rows for a page.

use std::fmt::Write as _;

use super::basis::Kind;
use super::outcome::{Outcome, figure, target_text};
use super::tally::Tally;

/// One line: a point of a target. Cells that repeat the line above are empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Line {
    /// Number of the target.
    pub id: String,
    /// Preset with host profile.
    pub preset: String,
    /// The measured quantity, with its unit.
    pub metric: String,
    /// The label that distinguishes the point.
    pub point: String,
    /// Basis of the point: predicted, fitted or identity.
    pub basis: String,
    /// The reason of the basis; empty if it is the same as in the line above.
    pub reason: String,
    /// The target.
    pub target: String,
    /// The tolerance.
    pub tolerance: String,
    /// The figure of the model.
    pub model: String,
    /// Its error.
    pub error: String,
    /// Pass, excused, fail or not covered.
    pub verdict: String,
    /// Why it does not pass.
    pub cause: String,
}

/// Returns all lines of `outcomes`.
pub fn lines(outcomes: &[Outcome]) -> Vec<Line> {
    outcomes.iter().flat_map(of_outcome).collect()
}

fn of_outcome(outcome: &Outcome) -> Vec<Line> {
    let target = &outcome.target;
    let mut first = Line {
        id: target.id.clone(),
        preset: outcome.preset.clone(),
        metric: format!("{}, {}", target.metric, target.unit),
        target: target_text(target),
        tolerance: target.tolerance.clone(),
        verdict: outcome.verdict.word().to_owned(),
        cause: outcome.verdict.cause().unwrap_or("").to_owned(),
        ..Line::default()
    };
    let mut lines = Vec::new();
    let mut shown = None;
    for checked in &outcome.points {
        // The reason is shown once, in the first line to which it applies.
        let is_new = shown.replace(&checked.basis) != Some(&checked.basis);
        let line = Line {
            point: checked.label.clone(),
            basis: checked.basis.kind.word().to_owned(),
            reason: if is_new {
                checked.basis.reason.clone().into_owned()
            } else {
                String::new()
            },
            target: checked.expected.clone(),
            tolerance: checked.tolerance.clone(),
            model: figure(checked.model),
            error: checked.error.clone(),
            verdict: outcome.point_verdict(checked).to_owned(),
            ..std::mem::take(&mut first)
        };
        lines.push(line);
    }
    if lines.is_empty() {
        lines.push(first);
    }
    lines
}

/// Returns the table for a terminal.
pub fn text(outcomes: &[Outcome]) -> String {
    let mut text = format!(
        "{:<5} {:<36} {:<44} {:<22} {:<9} {:>14} {:>10} {:>9} {:>10}\n",
        "", "preset", "metric", "", "basis", "target", "tolerance", "model", "error"
    );
    for line in lines(outcomes) {
        let row = format!(
            "{:<5} {:<36} {:<44} {:<22} {:<9} {:>14} {:>10} {:>9} {:>10}  {}",
            line.id,
            line.preset,
            shortened(&line.metric, 44),
            line.point,
            line.basis,
            shortened(&line.target, 14),
            shortened(&line.tolerance, 10),
            line.model,
            line.error,
            line.verdict
        );
        let _ = writeln!(text, "{}", row.trim_end());
        if !line.reason.is_empty() && line.basis != Kind::Predicted.word() {
            let _ = writeln!(text, "{:<5} {}: {}", "", line.basis, line.reason);
        }
        if !line.cause.is_empty() {
            let _ = writeln!(text, "{:<5} {}", "", line.cause);
        }
    }
    let _ = write!(text, "\n{}", Tally::of(outcomes).text());
    text
}

/// Returns the points as CSV, with the reason of each basis.
pub fn csv(outcomes: &[Outcome]) -> String {
    let mut rows = csv::Writer::from_writer(Vec::new());
    let mut add = |row: &[&str]| rows.write_record(row).expect("a vector takes any bytes");
    add(&[
        "id",
        "preset",
        "metric",
        "unit",
        "point",
        "basis",
        "target",
        "tolerance",
        "model",
        "error",
        "error_percent",
        "verdict",
        "basis_reason",
        "cause",
    ]);
    for outcome in outcomes {
        let target = &outcome.target;
        let cause = outcome.verdict.cause().unwrap_or("");
        if outcome.points.is_empty() {
            let kinds: Vec<_> = outcome.kinds().into_iter().map(Kind::word).collect();
            let (kinds, expected) = (kinds.join(" "), target_text(target));
            add(&[
                &target.id,
                &outcome.preset,
                &target.metric,
                &target.unit,
                "",
                &kinds,
                &expected,
                &target.tolerance,
                "",
                "",
                "",
                outcome.verdict.word(),
                "",
                cause,
            ]);
        }
        for point in &outcome.points {
            let (model, percent) = (figure(point.model), format!("{:.2}", point.error_percent));
            let cause = if point.is_within { "" } else { cause };
            add(&[
                &target.id,
                &outcome.preset,
                &target.metric,
                &target.unit,
                &point.label,
                point.basis.kind.word(),
                &point.expected,
                &point.tolerance,
                &model,
                &point.error,
                &percent,
                outcome.point_verdict(point),
                &point.basis.reason,
                cause,
            ]);
        }
    }
    let text = rows.into_inner().expect("a vector takes any bytes");
    String::from_utf8(text).expect("labels and numbers are UTF-8")
}

fn shortened(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width - 1).collect();
    format!("{kept}…")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::experiment::tests::Constant;

    fn outcomes(ids: &[&str]) -> Vec<Outcome> {
        let model = Constant {
            rate_mpps: 7.0,
            latency_us: 1.6,
        };
        let ids: Vec<_> = ids.iter().map(|id| (*id).to_owned()).collect();
        crate::validate::run(&model, &ids)
    }

    #[test]
    fn points_have_lines_with_basis_and_verdict() {
        let mut outcomes = outcomes(&["V03a", "V04a", "V04c", "V17b", "V20b"]);
        outcomes.push(super::super::outcome::tests::unplanned());
        let lines = lines(&outcomes);
        let of = |verdict| lines.iter().filter(|line| line.verdict == verdict).count();
        let text = text(&outcomes);
        assert_eq!(
            (of("pass"), of("FAIL"), of("not covered")),
            (19, 1, 1),
            "{text}"
        );
        assert_eq!(lines[4].id, "", "the second point of V17b");
        let kinds = |id: &str| {
            let from = lines.iter().position(|line| line.id == id);
            let own = &lines[from.expect("a target")..];
            [own[0].basis.clone(), own[1].basis.clone()]
        };
        assert_eq!(kinds("V17b"), ["identity", "identity"]);
        assert_eq!(kinds("V20b"), ["predicted", "fitted"]);
        assert!(text.contains("fitted: mac.transmit_ns"), "{text}");
        assert!(text.ends_with("1 is not covered\n"), "{text}");
    }

    #[test]
    fn csv_has_a_line_for_each_point() {
        let outcomes = outcomes(&["V04c", "V19b"]);
        let csv = csv(&outcomes);
        assert_eq!(csv.lines().count(), 4, "{csv}");
        let fitted = csv.lines().nth(1).expect("V04c");
        assert!(fitted.starts_with("V04c,cx5-100g@k8s-1ghz,"), "{csv}");
        assert!(
            fitted.contains(",fitted,2.690,10 %,1.600,-40.5 %,-40.52,FAIL,"),
            "{csv}"
        );
    }
}
