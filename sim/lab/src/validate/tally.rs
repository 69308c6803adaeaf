//! Number of passed targets, by their basis.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::basis::Kind;
use super::outcome::{Outcome, Verdict};

/// Number of targets of one kind. A target with points of two kinds counts under both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// All of them.
    pub all: usize,
    /// Targets whose points are all within tolerance.
    pub passed: usize,
    /// Targets that are missed by no more than a known cause explains.
    pub excused: usize,
    /// The others.
    pub failed: usize,
}

/// Targets by kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
    /// In the order of [`Kind::ALL`].
    pub kinds: [Count; 3],
    /// Targets that are not measured.
    pub uncovered: usize,
    /// Failed targets that decide the exit status.
    pub failures: Vec<String>,
    /// Fitted targets that are missed; they do not decide it.
    pub stale: Vec<String>,
}

impl Tally {
    /// Counts `outcomes`.
    pub fn of(outcomes: &[Outcome]) -> Self {
        let uncovered = |outcome: &&Outcome| matches!(outcome.verdict, Verdict::NotCovered(_));
        let id = |outcome: &Outcome| outcome.target.id.clone();
        let failures = outcomes.iter().filter(|outcome| outcome.is_failure());
        let stale = outcomes
            .iter()
            .filter(|outcome| !outcome.is_failure() && matches!(outcome.verdict, Verdict::Fail(_)));
        Self {
            kinds: Kind::ALL.map(|kind| count(outcomes, kind)),
            uncovered: outcomes.iter().filter(uncovered).count(),
            failures: failures.map(id).collect(),
            stale: stale.map(id).collect(),
        }
    }

    /// Returns the count of one kind.
    pub fn count(&self, kind: Kind) -> Count {
        let index = Kind::ALL.iter().position(|own| *own == kind);
        self.kinds[index.unwrap_or(0)]
    }

    /// Returns true if the validation fails.
    pub fn is_failure(&self) -> bool {
        !self.failures.is_empty()
    }

    /// Returns the summary: a line for each kind, and the reason of the exit status.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (kind, count) in Kind::ALL.into_iter().zip(self.kinds) {
            if count.all > 0 || kind == Kind::Predicted {
                let _ = writeln!(text, "{kind:<9} {}", count.text());
            }
        }
        if !self.stale.is_empty() {
            let _ = writeln!(
                text,
                "fitted and missed, not counted in the exit status: {}",
                self.stale.join(", ")
            );
        }
        if self.is_failure() {
            let _ = writeln!(text, "FAIL: {}", self.failures.join(", "));
        }
        if self.uncovered > 0 {
            let verb = if self.uncovered == 1 { "is" } else { "are" };
            let _ = writeln!(text, "{} {verb} not covered", self.uncovered);
        }
        text
    }

    /// Returns the counts as JSON.
    pub fn json(&self) -> Value {
        let mut counts = serde_json::Map::new();
        for (kind, count) in Kind::ALL.into_iter().zip(self.kinds) {
            counts.insert(kind.word().to_owned(), count.json());
        }
        json!({
            "by_basis": counts,
            "not_covered": self.uncovered,
            "failures": self.failures,
            "fitted_and_missed": self.stale,
        })
    }
}

impl Count {
    /// Returns the count in words: `34 of 36 targets within tolerance (94 %), 1 excused, 1 missed`.
    pub fn text(self) -> String {
        let percent = 100.0 * self.passed as f64 / self.all.max(1) as f64;
        let mut text = format!(
            "{} of {} targets within tolerance ({percent:.0} %)",
            self.passed, self.all
        );
        if self.all == 0 {
            return "no targets".to_owned();
        }
        if self.excused > 0 {
            let _ = write!(text, ", {} excused", self.excused);
        }
        if self.failed > 0 {
            let _ = write!(text, ", {} missed", self.failed);
        }
        text
    }

    fn json(self) -> Value {
        json!({
            "targets": self.all,
            "passed": self.passed,
            "excused": self.excused,
            "missed": self.failed,
        })
    }
}

fn count(outcomes: &[Outcome], kind: Kind) -> Count {
    let own = outcomes
        .iter()
        .filter(|outcome| outcome.kinds().contains(&kind));
    let mut count = Count::default();
    for outcome in own {
        let mut points = outcome
            .points
            .iter()
            .filter(|point| point.basis.kind == kind);
        let is_run = !outcome.points.is_empty();
        count.all += 1;
        if !is_run || outcome.missed(kind).next().is_some() {
            count.failed += 1;
        } else if points.all(|point| point.is_within) {
            count.passed += 1;
        } else {
            count.excused += 1;
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::experiment::tests::Constant;
    use crate::validate;

    fn tally(ids: &[&str], latency_us: f64) -> Tally {
        let model = Constant {
            rate_mpps: 7.0,
            latency_us,
        };
        let ids: Vec<_> = ids.iter().map(|id| (*id).to_owned()).collect();
        Tally::of(&validate::run(&model, &ids))
    }

    #[test]
    fn each_kind_is_counted_apart() {
        let tally = tally(&["V03a", "V04a", "V04b", "V04c", "V20b"], 1.6);
        let of = |kind| {
            let count = tally.count(kind);
            (count.all, count.passed, count.failed)
        };
        assert_eq!(of(Kind::Predicted), (3, 3, 0), "V04a, V04b, part of V20b");
        assert_eq!(
            of(Kind::Fitted),
            (2, 1, 1),
            "V04c is missed, part of V20b is not"
        );
        assert_eq!(of(Kind::Identity), (1, 1, 0));
        assert_eq!(tally.stale, ["V04c"]);
        assert!(!tally.is_failure());
        let text = tally.text();
        assert!(
            text.starts_with("predicted 3 of 3 targets within tolerance (100 %)\n"),
            "{text}"
        );
        assert!(
            text.contains("not counted in the exit status: V04c"),
            "{text}"
        );
        assert_eq!(tally.json()["by_basis"]["fitted"]["missed"], 1);
    }

    #[test]
    fn a_missed_prediction_is_a_failure() {
        let tally = tally(&["V04a"], 3.0);
        assert_eq!(tally.failures, ["V04a"]);
        assert!(tally.text().contains("FAIL: V04a"), "{}", tally.text());
    }
}
