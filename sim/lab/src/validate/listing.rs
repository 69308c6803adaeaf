//! Outcomes as a table for a terminal, and as rows for a page.

use std::fmt::Write as _;

use super::experiments;
use super::outcome::{Checked, Outcome, Verdict, figure, target_text};
use super::plan::{Expected, Point};

/// One line: a point of a target. What is the same as in the line above is empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Line {
    /// Number of the target.
    pub id: String,
    /// Preset with host profile.
    pub preset: String,
    /// What is measured, with its unit.
    pub metric: String,
    /// What distinguishes the point.
    pub point: String,
    /// The target.
    pub target: String,
    /// The tolerance.
    pub tolerance: String,
    /// The figure of the model.
    pub model: String,
    /// Its error.
    pub error: String,
    /// Pass, fail or not covered.
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
        preset: outcome.preset().to_owned(),
        metric: format!("{}, {}", target.metric, target.unit),
        target: target_text(target),
        tolerance: target.tolerance.clone(),
        verdict: outcome.verdict.word().to_owned(),
        cause: outcome.verdict.cause().unwrap_or("").to_owned(),
        ..Line::default()
    };
    let Some(plan) = experiments::plan(&target.id) else {
        return vec![first];
    };
    let single = plan.points.len() == 1;
    let mut lines = Vec::new();
    for (point, checked) in plan.points.iter().zip(&outcome.points) {
        let (expected, tolerance) = expected_text(outcome, point);
        let line = Line {
            point: point.label.to_owned(),
            target: expected,
            tolerance,
            model: figure(checked.model),
            error: checked.error.clone(),
            verdict: point_verdict(outcome, checked, single),
            ..std::mem::take(&mut first)
        };
        lines.push(line);
    }
    if lines.is_empty() {
        lines.push(first);
    }
    lines
}

/// Returns the verdict of a point: a target of several points shows which of them fail.
fn point_verdict(outcome: &Outcome, checked: &Checked, single: bool) -> String {
    match (single, checked.is_within) {
        (true, _) => outcome.verdict.word().to_owned(),
        (false, true) => Verdict::Pass.word().to_owned(),
        (false, false) => Verdict::Fail(String::new()).word().to_owned(),
    }
}

fn expected_text(outcome: &Outcome, point: &Point) -> (String, String) {
    let target = &outcome.target;
    let value = |index: usize| {
        target
            .values()
            .get(index)
            .map_or(String::new(), |v| figure(*v))
    };
    let band = |low: f64, high: f64| (format!("{low} … {high}"), "inside".to_owned());
    match point.expected {
        Expected::Near(index, percent) => (value(index), format!("{percent} %")),
        Expected::Octaves(index, octaves) => (value(index), format!("{octaves} octave")),
        Expected::Value(value, percent) => (figure(value), format!("{percent} %")),
        Expected::Band(low, high) => band(low, high),
        Expected::TargetBand => band(
            target.low.unwrap_or(f64::MIN),
            target.high.unwrap_or(f64::MAX),
        ),
        Expected::AtMost(most) => (format!("at most {most}"), "inside".to_owned()),
        Expected::AtLeast(least) => (format!("at least {least}"), "inside".to_owned()),
    }
}

/// Returns the number of targets that are covered, and of those that pass.
pub fn tally(outcomes: &[Outcome]) -> (usize, usize) {
    let is_covered = |outcome: &&Outcome| !matches!(outcome.verdict, Verdict::NotCovered(_));
    let passed = outcomes
        .iter()
        .filter(|outcome| outcome.verdict == Verdict::Pass);
    (passed.count(), outcomes.iter().filter(is_covered).count())
}

/// Returns the last line: `44 of 46 targets within tolerance (96 %), 1 not covered`.
pub fn summary(outcomes: &[Outcome]) -> String {
    let (passed, covered) = tally(outcomes);
    let percent = 100.0 * passed as f64 / covered.max(1) as f64;
    let uncovered = outcomes.len() - covered;
    format!(
        "{passed} of {covered} targets within tolerance ({percent:.0} %), {uncovered} not covered"
    )
}

/// Returns the table for a terminal.
pub fn text(outcomes: &[Outcome]) -> String {
    let mut text = format!(
        "{:<5} {:<36} {:<44} {:<22} {:>14} {:>10} {:>9} {:>10}\n",
        "", "preset", "metric", "", "target", "tolerance", "model", "error"
    );
    for line in lines(outcomes) {
        let row = format!(
            "{:<5} {:<36} {:<44} {:<22} {:>14} {:>10} {:>9} {:>10}  {}",
            line.id,
            line.preset,
            shortened(&line.metric, 44),
            line.point,
            shortened(&line.target, 14),
            shortened(&line.tolerance, 10),
            line.model,
            line.error,
            line.verdict
        );
        let _ = writeln!(text, "{}", row.trim_end());
        if !line.cause.is_empty() {
            let _ = writeln!(text, "{:<5} {}", "", line.cause);
        }
    }
    let _ = writeln!(text, "\n{}", summary(outcomes));
    text
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
        crate::validate::run(&model, &ids, |_| {})
    }

    #[test]
    fn points_have_lines_and_the_sum_counts_targets() {
        let mut outcomes = outcomes(&["V03a", "V04a", "V04c", "V17b"]);
        outcomes.push(super::super::outcome::tests::unplanned());
        let text = text(&outcomes);
        assert!(
            text.ends_with("3 of 4 targets within tolerance (75 %), 1 not covered\n"),
            "{text}"
        );
        let lines = lines(&outcomes);
        let of = |verdict| lines.iter().filter(|line| line.verdict == verdict).count();
        assert_eq!(
            (of("pass"), of("FAIL"), of("not covered")),
            (5, 1, 1),
            "{text}"
        );
        assert_eq!(lines[4].id, "", "the second point of V17b");
    }
}
