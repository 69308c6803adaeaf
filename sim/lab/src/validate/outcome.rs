//! Comparison of target and model.

use ferroce_perf::number_text::short;
use serde_json::{Value, json};

use super::basis::{Basis, Excuse, Kind};
use super::changes::Changes;
use super::measure;
use super::plan::{Expected, Plan};
use super::{experiments, target::Target};
use crate::reference::experiment::Simulator;

/// Verdict on a target.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Every point is close enough.
    Pass,
    /// A point misses, the cause is known, and the error is not larger than the cause explains.
    Excused(String),
    /// A point misses; the reason, if known.
    Fail(String),
    /// The target is not measured, with the reason.
    NotCovered(String),
}

impl Verdict {
    /// Returns the verdict as one word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Excused(_) => "excused",
            Self::Fail(_) => "FAIL",
            Self::NotCovered(_) => "not covered",
        }
    }

    /// Returns the reason why it does not pass.
    pub fn cause(&self) -> Option<&str> {
        match self {
            Self::Pass => None,
            Self::Excused(cause) | Self::Fail(cause) | Self::NotCovered(cause) => Some(cause),
        }
    }
}

/// The model's figures of a target's points, in order, or the reason why one cannot be run.
pub type Figures = Result<Vec<f64>, String>;

/// One figure of the model, and its expected value.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// The label that distinguishes it from other points of its target.
    pub label: String,
    /// Its basis.
    pub basis: Basis,
    /// The expected value, as text.
    pub expected: String,
    /// The tolerance, as text.
    pub tolerance: String,
    /// The figure of the model.
    pub model: f64,
    /// The value to compare with, if there is one.
    pub reference: Option<f64>,
    /// Error of the model, as text.
    pub error: String,
    /// Error in percent of the value, or of the violated end of the band.
    pub error_percent: f64,
    /// True if it is within the tolerance.
    pub is_within: bool,
}

impl Checked {
    /// Returns true if it is missed by no more than `excuse` explains.
    fn is_excused(&self, excuse: Option<&Excuse>) -> bool {
        excuse.is_some_and(|excuse| self.error_percent.abs() <= excuse.bound_percent)
    }
}

/// Outcome of one target.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The target.
    pub target: Target,
    /// Preset of its first point, or what the file calls it.
    pub preset: String,
    /// Figures of the model.
    pub points: Vec<Checked>,
    /// The known cause of a miss.
    pub excuse: Option<Excuse>,
    /// The verdict.
    pub verdict: Verdict,
}

impl Outcome {
    /// Judges `target` by the figures of [`figures`].
    pub fn of(target: &Target, figures: &Figures) -> Self {
        let Some(plan) = experiments::plan(&target.id) else {
            let why = "no experiment is planned for it".to_owned();
            return Self {
                target: target.clone(),
                preset: target.preset.clone(),
                points: Vec::new(),
                excuse: None,
                verdict: Verdict::NotCovered(why),
            };
        };
        let preset = plan.points.first().map(|point| point.run.preset());
        let points = figures.as_ref().map_err(String::clone);
        let points = points.and_then(|figures| check_all(target, plan, figures));
        let excuse = experiments::excuse(&target.id).copied();
        Self::new(target, preset.unwrap_or(&target.preset), points, excuse)
    }

    /// Judges `target` by its points, or by the error that prevented their measurement.
    pub fn new(
        target: &Target,
        preset: &str,
        points: Result<Vec<Checked>, String>,
        excuse: Option<Excuse>,
    ) -> Self {
        let (points, verdict) = match points {
            Ok(points) => {
                let verdict = verdict(&points, excuse.as_ref());
                (points, verdict)
            }
            Err(error) => {
                let first = error.lines().next().unwrap_or("");
                (Vec::new(), Verdict::Fail(format!("cannot be run: {first}")))
            }
        };
        Self {
            target: target.clone(),
            preset: preset.to_owned(),
            points,
            excuse,
            verdict,
        }
    }

    /// Returns the kinds of its points, each once; none if it is not covered.
    pub fn kinds(&self) -> Vec<Kind> {
        let mut kinds: Vec<_> = self.points.iter().map(|point| point.basis.kind).collect();
        if kinds.is_empty() && matches!(self.verdict, Verdict::Fail(_)) {
            let planned = experiments::basis(&self.target.id, "");
            kinds.push(planned.map_or(Kind::Predicted, |basis| basis.kind));
        }
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }

    /// Returns the word of the verdict on a point.
    pub fn point_verdict(&self, point: &Checked) -> &'static str {
        match point.is_within {
            true => Verdict::Pass.word(),
            false if point.is_excused(self.excuse.as_ref()) => {
                Verdict::Excused(String::new()).word()
            }
            false => Verdict::Fail(String::new()).word(),
        }
    }

    /// Returns the points of this kind that are missed and not excused.
    pub fn missed(&self, kind: Kind) -> impl Iterator<Item = &Checked> {
        let excuse = self.excuse.as_ref();
        self.points.iter().filter(move |point| {
            point.basis.kind == kind && !point.is_within && !point.is_excused(excuse)
        })
    }

    /// Returns true if the validation fails because of it: a prediction or an identity is missed,
    /// an excused target is beyond its bound, or it cannot be run.
    pub fn is_failure(&self) -> bool {
        let is_run = !self.points.is_empty();
        match &self.verdict {
            Verdict::Fail(_) if is_run && self.excuse.is_none() => {
                let mut kinds = Kind::ALL.into_iter().filter(|kind| kind.is_decisive());
                kinds.any(|kind| self.missed(kind).next().is_some())
            }
            Verdict::Fail(_) => true,
            Verdict::Pass | Verdict::Excused(_) | Verdict::NotCovered(_) => false,
        }
    }

    /// Returns the outcome as JSON.
    pub fn json(&self) -> Value {
        let points = self.points.iter().map(|point| {
            json!({
                "what": point.label,
                "basis": point.basis.kind.word(),
                "basis_reason": point.basis.reason,
                "reference": point.reference,
                "expected": point.expected,
                "model": point.model,
                "error": point.error,
                "within": point.is_within,
                "verdict": self.point_verdict(point).to_ascii_lowercase(),
            })
        });
        let target = &self.target;
        json!({
            "id": target.id,
            "about": target.preset,
            "preset": self.preset,
            "metric": target.metric,
            "condition": target.condition,
            "target": target_text(target),
            "unit": target.unit,
            "tolerance": target.tolerance,
            "basis": self.kinds().into_iter().map(Kind::word).collect::<Value>(),
            "points": points.collect::<Value>(),
            "verdict": self.verdict.word().to_ascii_lowercase(),
            "excused_up_to_percent": self.excuse.map(|excuse| excuse.bound_percent),
            "cause": self.verdict.cause(),
        })
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

/// Returns the model's figures of a plan, with these changes of its presets.
///
/// # Errors
/// The reason why a point cannot be run.
pub fn figures(simulator: &dyn Simulator, plan: &Plan, changes: &Changes) -> Figures {
    let points = plan.points.iter();
    let figures = points.map(|point| measure::figure(simulator, &point.run, changes));
    figures.collect()
}

/// Compares the figures of a target's plan with their expected values.
///
/// # Errors
/// A point has no basis or no figure.
pub fn check_all(target: &Target, plan: &Plan, figures: &[f64]) -> Result<Vec<Checked>, String> {
    if figures.len() != plan.points.len() {
        return Err(format!("{} figures of {}", figures.len(), target.id));
    }
    let points = plan.points.iter().zip(figures);
    let checked = points.map(|(point, model)| {
        let basis = experiments::basis(&target.id, point.label);
        let basis = basis.ok_or_else(|| format!("{} has no basis", target.id))?;
        Ok(check(target, point.label, point.expected, basis, *model))
    });
    checked.collect()
}

fn verdict(points: &[Checked], excuse: Option<&Excuse>) -> Verdict {
    let missed: Vec<_> = points.iter().filter(|point| !point.is_within).collect();
    match excuse {
        _ if missed.is_empty() => Verdict::Pass,
        None => Verdict::Fail("not explained yet".to_owned()),
        Some(excuse) if missed.iter().all(|point| point.is_excused(Some(excuse))) => {
            Verdict::Excused(format!(
                "excused up to {} %: {}",
                excuse.bound_percent, excuse.cause
            ))
        }
        Some(excuse) => Verdict::Fail(format!(
            "beyond {} %, up to which it is excused: {}",
            excuse.bound_percent, excuse.cause
        )),
    }
}

/// Compares the figure `model` of a point with its expected value.
pub fn check(
    target: &Target,
    label: &str,
    expected: Expected,
    basis: Basis,
    model: f64,
) -> Checked {
    // A source that prints whole nanoseconds has no finer resolution.
    let model = if target.unit == "ns" && target.low.is_some() {
        model.round()
    } else {
        model
    };
    let (text, tolerance) = expected_text(target, expected);
    let reference = match expected {
        Expected::Near(index, _) | Expected::Octaves(index, _) => {
            Some(target.values().get(index).copied().unwrap_or(f64::NAN))
        }
        Expected::Value(value, _) => Some(value),
        _ => None,
    };
    let percent = |value: f64| (model / value - 1.0) * 100.0;
    let (error, error_percent, is_within) = match (expected, reference) {
        (Expected::Octaves(_, octaves), Some(value)) => {
            let error = (model / value).log2();
            (
                format!("{error:+.0} octave"),
                percent(value),
                error.abs() <= octaves,
            )
        }
        (Expected::Near(_, within) | Expected::Value(_, within), Some(value)) => {
            let error = percent(value);
            (format!("{error:+.1} %"), error, error.abs() <= within)
        }
        (expected, _) => {
            let (low, high) = band(target, expected);
            let (word, error) = match model {
                model if model < low => (format!("{} below", figure(low - model)), percent(low)),
                model if model > high => (format!("{} above", figure(model - high)), percent(high)),
                _ => ("in band".to_owned(), 0.0),
            };
            (word, error, (low..=high).contains(&model))
        }
    };
    Checked {
        label: label.to_owned(),
        basis,
        expected: text,
        tolerance,
        model,
        reference,
        error,
        error_percent,
        is_within,
    }
}

/// Returns the lowest and the highest figure that a condition without a value permits.
fn band(target: &Target, expected: Expected) -> (f64, f64) {
    match expected {
        Expected::Band(low, high) => (low, high),
        Expected::AtMost(most) => (f64::MIN, most),
        Expected::AtLeast(least) => (least, f64::MAX),
        _ => (
            target.low.unwrap_or(f64::MIN),
            target.high.unwrap_or(f64::MAX),
        ),
    }
}

fn expected_text(target: &Target, expected: Expected) -> (String, String) {
    let inside = || "inside".to_owned();
    let value = |index: usize| {
        let value = target.values().get(index).copied();
        value.map_or(String::new(), figure)
    };
    match expected {
        Expected::Near(index, percent) => (value(index), format!("{percent} %")),
        Expected::Octaves(index, octaves) => (value(index), format!("{octaves} octave")),
        Expected::Value(value, percent) => (figure(value), format!("{percent} %")),
        Expected::AtMost(most) => (format!("at most {most}"), inside()),
        Expected::AtLeast(least) => (format!("at least {least}"), inside()),
        Expected::Band(..) | Expected::TargetBand => {
            let (low, high) = band(target, expected);
            (format!("{low} … {high}"), inside())
        }
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
        Outcome::of(&target, &Ok(Vec::new()))
    }

    fn outcome(id: &str, model: Constant) -> Outcome {
        let targets = target::all();
        let target = targets.iter().find(|target| target.id == id);
        let target = target.expect("a target of the file");
        let plan = experiments::plan(id).expect("it is planned");
        Outcome::of(target, &figures(&model, plan, &Changes::default()))
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
    fn predictions_and_identities_decide_and_fits_do_not() {
        assert!(outcome("V04a", constant(2.0)).is_failure(), "predicted");
        let slow = Constant {
            rate_mpps: 1.0,
            latency_us: 1.0,
        };
        assert!(outcome("V15c", slow).is_failure(), "identity");
        let fitted = outcome("V07a", constant(2.0));
        assert_eq!(fitted.kinds(), [Kind::Fitted]);
        assert!(matches!(fitted.verdict, Verdict::Fail(_)) && !fitted.is_failure());
    }

    #[test]
    fn an_excuse_ends_at_its_bound() {
        let target = outcome("V04a", constant(1.6)).target;
        let excuse = Excuse {
            id: "V04a",
            cause: "a known one",
            bound_percent: 20.0,
        };
        let judged = |kind, us| {
            let basis = Basis {
                kind,
                ..Basis::foreign()
            };
            let point = check(&target, "", Expected::Near(0, 10.0), basis, us);
            Outcome::new(&target, "x", Ok(vec![point]), Some(excuse))
        };
        let within = judged(Kind::Predicted, 1.58 * 1.15);
        assert_eq!(
            (within.verdict.word(), within.is_failure()),
            ("excused", false)
        );
        let cause = within.verdict.cause().expect("it says why").to_owned();
        assert!(
            cause.contains("up to 20 %") && cause.contains("a known one"),
            "{cause}"
        );
        for kind in Kind::ALL {
            let beyond = judged(kind, 1.58 * 1.25);
            assert_eq!((beyond.verdict.word(), beyond.is_failure()), ("FAIL", true));
        }
        assert_eq!(judged(Kind::Fitted, 1.6).verdict, Verdict::Pass);
    }

    #[test]
    fn what_cannot_be_run_fails_whatever_it_is() {
        let target = outcome("V07a", constant(1.0)).target;
        let outcome = Outcome::new(&target, "x", Err("no world\nmore".to_owned()), None);
        assert!(outcome.is_failure());
        assert_eq!(outcome.verdict.cause(), Some("cannot be run: no world"));
    }

    #[test]
    fn a_figure_outside_of_a_band_has_an_error_in_percent() {
        let target = outcome("V06b", constant(1.0)).target;
        let basis = Basis::foreign();
        let point = check(&target, "", Expected::Band(10.0, 20.0), basis, 25.0);
        assert_eq!((point.error_percent, point.is_within), (25.0, false));
        assert_eq!(point.error, "5.000 above");
    }

    #[test]
    fn what_is_not_covered_says_why() {
        let unknown = unplanned();
        let Verdict::NotCovered(why) = &unknown.verdict else {
            panic!("{unknown:?}");
        };
        assert!(why.contains("no experiment"), "{why}");
        assert_eq!(unknown.json()["verdict"], "not covered");
        assert!(!unknown.is_failure());
    }

    #[test]
    fn pcie_targets_need_no_harness() {
        let outcome = outcome("V18", constant(1.0));
        assert_eq!(outcome.verdict, Verdict::Pass, "{outcome:?}");
    }
}
