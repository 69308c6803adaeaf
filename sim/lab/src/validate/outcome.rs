//! Target beside model.

use serde_json::{Value, json};

use super::plan::{Expected, Point};
use super::{experiments, measure, target::Target};
use crate::number_text::short;
use crate::reference::experiment::Simulator;

/// Verdict on a target.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Every point is close enough.
    Pass,
    /// One is not; the cause, if it is known.
    Fail(String),
    /// It is not measured, and why.
    NotCovered(String),
}

impl Verdict {
    /// Returns the verdict as one word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail(_) => "FAIL",
            Self::NotCovered(_) => "not covered",
        }
    }

    /// Returns why it does not pass.
    pub fn cause(&self) -> Option<&str> {
        match self {
            Self::Pass => None,
            Self::Fail(cause) | Self::NotCovered(cause) => Some(cause),
        }
    }
}

/// One figure of the model beside what it must be.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// What distinguishes it from others of its target.
    pub label: &'static str,
    /// The figure of the model.
    pub model: f64,
    /// The value to compare with, if there is one.
    pub reference: Option<f64>,
    /// Error of the model, as text.
    pub error: String,
    /// True if it is within the tolerance.
    pub is_within: bool,
}

/// Outcome of one target.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The target.
    pub target: Target,
    /// Figures of the model.
    pub points: Vec<Checked>,
    /// The verdict.
    pub verdict: Verdict,
}

impl Outcome {
    /// Executes the plan of `target`.
    pub fn of(simulator: &dyn Simulator, target: &Target) -> Self {
        let (points, verdict) = match experiments::plan(&target.id) {
            None => {
                let why = "no experiment is planned for it".to_owned();
                (Vec::new(), Verdict::NotCovered(why))
            }
            Some(plan) => check_all(simulator, target, plan.points),
        };
        Self {
            target: target.clone(),
            points,
            verdict,
        }
    }

    /// Returns the outcome as JSON.
    pub fn json(&self) -> Value {
        let points = self.points.iter().map(|point| {
            json!({
                "what": point.label,
                "reference": point.reference,
                "model": point.model,
                "error": point.error,
                "within": point.is_within,
            })
        });
        let target = &self.target;
        json!({
            "id": target.id,
            "about": target.preset,
            "preset": self.preset(),
            "metric": target.metric,
            "condition": target.condition,
            "target": target_text(target),
            "unit": target.unit,
            "tolerance": target.tolerance,
            "points": points.collect::<Value>(),
            "verdict": self.verdict.word().to_ascii_lowercase(),
            "cause": self.verdict.cause(),
        })
    }

    /// Returns the preset of its first point, or what the file calls it.
    pub fn preset(&self) -> &str {
        match experiments::plan(&self.target.id).map(|plan| plan.points) {
            Some([first, ..]) => first.run.preset(),
            _ => &self.target.preset,
        }
    }
}

/// Returns reference or band, as in the file.
pub fn target_text(target: &Target) -> String {
    match (target.reference.is_empty(), target.low, target.high) {
        (false, ..) => target.reference.clone(),
        (true, low, high) => format!(
            "{} … {}",
            low.map_or(String::new(), short),
            high.map_or(String::new(), short)
        ),
    }
}

fn check_all(
    simulator: &dyn Simulator,
    target: &Target,
    points: &[Point],
) -> (Vec<Checked>, Verdict) {
    let mut checked = Vec::new();
    for point in points {
        match measure::figure(simulator, &point.run) {
            Ok(model) => checked.push(check(target, point, model)),
            Err(error) => {
                let first = error.lines().next().unwrap_or("");
                return (checked, Verdict::Fail(format!("cannot be run: {first}")));
            }
        }
    }
    let verdict = if checked.iter().all(|point| point.is_within) {
        Verdict::Pass
    } else {
        let cause = experiments::cause(&target.id).unwrap_or("not explained yet");
        Verdict::Fail(cause.to_owned())
    };
    (checked, verdict)
}

fn check(target: &Target, point: &Point, model: f64) -> Checked {
    let reference = |index: usize| target.values().get(index).copied().unwrap_or(f64::NAN);
    let near = |value: f64, percent: f64| {
        let error = (model / value - 1.0) * 100.0;
        (
            Some(value),
            format!("{error:+.1} %"),
            error.abs() <= percent,
        )
    };
    // A source that prints whole nanoseconds has no finer resolution.
    let model = if target.unit == "ns" && target.low.is_some() {
        model.round()
    } else {
        model
    };
    let band = |low: f64, high: f64| {
        let word = if model < low {
            format!("{} below", figure(low - model))
        } else if model > high {
            format!("{} above", figure(model - high))
        } else {
            "in band".to_owned()
        };
        (None, word, (low..=high).contains(&model))
    };
    let (reference, error, is_within) = match point.expected {
        Expected::Near(index, percent) => near(reference(index), percent),
        Expected::Value(value, percent) => near(value, percent),
        Expected::Octaves(index, octaves) => {
            let value = reference(index);
            let error = (model / value).log2();
            (
                Some(value),
                format!("{error:+.0} octave"),
                error.abs() <= octaves,
            )
        }
        Expected::Band(low, high) => band(low, high),
        Expected::TargetBand => band(
            target.low.unwrap_or(f64::MIN),
            target.high.unwrap_or(f64::MAX),
        ),
        Expected::AtMost(most) => band(f64::MIN, most),
        Expected::AtLeast(least) => band(least, f64::MAX),
    };
    Checked {
        label: point.label,
        model,
        reference,
        error,
        is_within,
    }
}

/// Formats a number with four significant digits.
pub(super) fn figure(value: f64) -> String {
    let digits = (3 - value.abs().max(1e-3).log10().floor() as i32).clamp(0, 3) as usize;
    format!("{value:.digits$}")
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::reference::experiment::tests::Constant;
    use crate::validate::target;

    /// Returns the outcome of a target for which there is no plan.
    pub(in crate::validate) fn unplanned() -> Outcome {
        let target = Target {
            id: "V99".to_owned(),
            ..target::all().remove(0)
        };
        Outcome::of(&constant(1.0), &target)
    }

    fn outcome(id: &str, model: Constant) -> Outcome {
        let targets = target::all();
        let target = targets.iter().find(|target| target.id == id);
        Outcome::of(&model, target.expect("a target of the file"))
    }

    fn constant(latency_us: f64) -> Constant {
        Constant {
            rate_mpps: 7.1,
            latency_us,
        }
    }

    #[test]
    fn what_is_within_passes_and_what_is_not_fails() {
        let close = outcome("V04a", constant(1.6));
        assert_eq!(
            (&close.verdict, close.points[0].error.as_str()),
            (&Verdict::Pass, "+1.3 %")
        );
        let far = outcome("V04a", constant(2.0));
        assert_eq!(
            (far.verdict.word(), far.points[0].error.as_str()),
            ("FAIL", "+26.6 %")
        );
        assert_eq!(outcome("V03a", constant(1.0)).verdict, Verdict::Pass);
        assert_eq!(outcome("V06b", constant(1.0)).verdict, Verdict::Pass);
        assert_eq!(outcome("V06a", constant(1.0)).verdict.word(), "FAIL");
    }

    #[test]
    fn what_is_not_covered_says_why() {
        let unknown = unplanned();
        let Verdict::NotCovered(why) = &unknown.verdict else {
            panic!("{unknown:?}");
        };
        assert!(why.contains("no experiment"), "{why}");
        assert_eq!(unknown.json()["verdict"], "not covered");
    }

    #[test]
    fn pcie_targets_need_no_harness() {
        let outcome = outcome("V18", constant(1.0));
        assert_eq!(outcome.verdict, Verdict::Pass, "{outcome:?}");
    }
}
