//! Outcomes as a part of the book.

use std::fmt::Write as _;

use super::basis::Kind;
use super::listing::lines;
use super::outcome::Outcome;
use super::tally::Tally;

/// Returns the counts by kind, the targets that are missed with their errors, and a table of all
/// points.
pub fn markdown(outcomes: &[Outcome]) -> String {
    let tally = Tally::of(outcomes);
    let mut text = String::new();
    // Writing to a string does not fail.
    for (kind, count) in Kind::ALL.into_iter().zip(tally.kinds) {
        let _ = writeln!(text, "- {kind}: {}", count.text());
    }
    text.push_str("\nMissed, with the error of the model:\n\n");
    for outcome in outcomes {
        for point in outcome.points.iter().filter(|point| !point.is_within) {
            let (id, label) = (&outcome.target.id, &point.label);
            let at = if label.is_empty() { "" } else { ", " };
            let basis = point.basis.kind;
            let _ = write!(text, "- {id}{at}{label} ({basis}): {}", point.error);
            if let Some(excuse) = &outcome.excuse {
                let _ = write!(
                    text,
                    "; excused up to {} %: {}",
                    excuse.bound_percent, excuse.cause
                );
            }
            text.push('\n');
        }
    }
    text.push_str("\n| target | preset | figure | point | mark | target | model | error |\n");
    text.push_str("| --- | --- | --- | --- | --- | --: | --: | --: |\n");
    for line in lines(outcomes) {
        let preset = if line.preset.is_empty() {
            String::new()
        } else {
            format!("`{}`", line.preset)
        };
        let _ = writeln!(
            text,
            "| {} | {preset} | {} | {} | {} | {} | {} | {} |",
            line.id, line.metric, line.point, line.basis, line.target, line.model, line.error
        );
    }
    text
}
