//! Results of stages, and their output.

use std::fmt::Write;
use std::time::Duration;

use serde_json::json;

use super::Stage;

/// Columns of the text of a report; no word is broken.
const COLUMNS: usize = 98;

/// Reason why a stage failed, and what to check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Expected and actual value.
    pub what: String,
    /// Possible causes, the likeliest first.
    pub look_at: Vec<String>,
}

impl Failure {
    /// Creates a failure without hints.
    pub fn new(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            look_at: Vec::new(),
        }
    }

    /// Adds a hint.
    #[must_use]
    pub fn look_at(mut self, hint: impl Into<String>) -> Self {
        self.look_at.push(hint.into());
        self
    }

    /// Adds hints.
    #[must_use]
    pub fn look_at_all(mut self, hints: impl IntoIterator<Item = String>) -> Self {
        self.look_at.extend(hints);
        self
    }
}

/// Reason why a stage has not passed.
#[derive(Debug)]
pub(super) enum Stop {
    Failed(Failure),
    /// This bus or device lacks the subject of the stage.
    NotApplicable(String),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

pub(super) type Outcome = Result<(), Stop>;

/// The result of a stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It has passed.
    Passed,
    /// It has failed.
    Failed(Failure),
    /// It was skipped because the named stage failed or was skipped.
    Skipped(&'static str),
    /// Bus or device lack its subject; the reason.
    NotApplicable(String),
}

impl Verdict {
    /// Returns a word for tables and JSON.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed(_) => "FAILED",
            Self::Skipped(_) => "skipped",
            Self::NotApplicable(_) => "n/a",
        }
    }

    /// Returns true if the device may still be correct.
    pub fn is_good(&self) -> bool {
        matches!(self, Self::Passed | Self::NotApplicable(_))
    }
}

/// A value measured by a stage.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A count.
    Whole(u64),
    /// A measured number.
    Number(f64),
    /// Anything else.
    Text(String),
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Whole(value)
    }
}
impl From<u32> for Value {
    fn from(value: u32) -> Self {
        Self::Whole(value.into())
    }
}
impl From<u16> for Value {
    fn from(value: u16) -> Self {
        Self::Whole(value.into())
    }
}
impl From<usize> for Value {
    fn from(value: usize) -> Self {
        Self::Whole(value as u64)
    }
}
impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Number(value)
    }
}
impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}
impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

/// A figure of a stage, with its unit at the end of the name.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: Value,
}

/// The report of a stage.
#[derive(Debug, Clone)]
pub struct Report {
    /// The stage.
    pub stage: &'static Stage,
    /// Its result.
    pub verdict: Verdict,
    /// Figures, even of a failed stage.
    pub figures: Vec<Figure>,
    /// Observations that are not failures.
    pub notes: Vec<String>,
    /// Duration.
    pub duration: Duration,
}

/// Returns the report as text, with a line feed at the end.
pub fn text(report: &Report) -> String {
    let mut out = String::new();
    let (name, word) = (report.stage.name, report.verdict.word());
    let ms = report.duration.as_secs_f64() * 1e3;
    line(&mut out, &format!("{name:14} {word:8} {ms:9.1} ms"));
    paragraph(&mut out, "proves", report.stage.proves);
    if !report.figures.is_empty() {
        let figures: Vec<_> = report.figures.iter().map(figure_text).collect();
        paragraph(&mut out, "found", &figures.join(" · "));
    }
    for note in &report.notes {
        paragraph(&mut out, "note", note);
    }
    match &report.verdict {
        Verdict::Passed => {}
        Verdict::NotApplicable(why) => paragraph(&mut out, "because", why),
        Verdict::Skipped(need) => {
            paragraph(
                &mut out,
                "because",
                &format!("the stage {need} has not passed"),
            );
        }
        Verdict::Failed(failure) => {
            paragraph(&mut out, "failed", &failure.what);
            for hint in &failure.look_at {
                paragraph(&mut out, "look at", hint);
            }
        }
    }
    out
}

fn figure_text(figure: &Figure) -> String {
    let value = match &figure.value {
        Value::Whole(value) => value.to_string(),
        Value::Number(value) if value.abs() >= 100.0 => format!("{value:.0}"),
        Value::Number(value) if value.abs() >= 1.0 => format!("{value:.2}"),
        Value::Number(value) => format!("{value:.4}"),
        Value::Text(value) => value.clone(),
    };
    format!("{} {value}", figure.name)
}

fn line(out: &mut String, text: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{}", text.trim_end());
}

/// Writes a label in the margin, and text next to it.
fn paragraph(out: &mut String, label: &str, text: &str) {
    const MARGIN: usize = 12;
    let mut row = format!("    {label:8}");
    let mut width = MARGIN;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if width > MARGIN && width + 1 + length > COLUMNS {
            line(out, &row);
            row = " ".repeat(MARGIN);
            width = MARGIN;
        }
        if width > MARGIN {
            row.push(' ');
            width += 1;
        }
        row.push_str(word);
        width += length;
    }
    line(out, &row);
}

/// Returns all reports as JSON.
pub fn json(device: &str, reports: &[Report]) -> serde_json::Value {
    let passed = reports.iter().all(|report| report.verdict.is_good());
    let stages: Vec<_> = reports.iter().map(report_json).collect();
    json!({ "device": device, "passed": passed, "stages": stages })
}

fn report_json(report: &Report) -> serde_json::Value {
    let mut object = json!({
        "stage": report.stage.name,
        "result": report.verdict.word().to_lowercase(),
        "proves": report.stage.proves,
        "duration_ms": rounded(report.duration.as_secs_f64() * 1e3),
        "figures": figures_json(&report.figures),
        "notes": report.notes,
    });
    match &report.verdict {
        Verdict::Passed => {}
        Verdict::NotApplicable(why) => object["because"] = json!(why),
        Verdict::Skipped(need) => {
            object["because"] = json!(format!("the stage {need} has not passed"));
        }
        Verdict::Failed(failure) => {
            object["failure"] = json!(failure.what);
            object["look_at"] = json!(failure.look_at);
        }
    }
    object
}

fn figures_json(figures: &[Figure]) -> serde_json::Map<String, serde_json::Value> {
    let pair = |figure: &Figure| {
        let value = match &figure.value {
            Value::Whole(value) => json!(value),
            Value::Number(value) => json!(rounded(*value)),
            Value::Text(value) => json!(value),
        };
        (figure.name.clone(), value)
    };
    figures.iter().map(pair).collect()
}

/// Rounds a figure to a thousandth.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed() -> Report {
        let what = "word ".repeat(40);
        Report {
            stage: &super::super::STAGES[0],
            verdict: Verdict::Failed(Failure::new(what).look_at("the cable")),
            figures: vec![Figure {
                name: "latency_us".to_owned(),
                value: 1.5.into(),
            }],
            notes: vec!["odd".to_owned()],
            duration: Duration::from_micros(1500),
        }
    }

    #[test]
    fn text_says_everything_and_keeps_to_its_columns() {
        let text = text(&failed());
        for word in [
            "config",
            "FAILED",
            "1.5 ms",
            "latency_us 1.50",
            "odd",
            "the cable",
        ] {
            assert!(text.contains(word), "no {word}:\n{text}");
        }
        assert!(
            text.lines().all(|line| line.chars().count() <= COLUMNS),
            "{text}"
        );
    }

    #[test]
    fn json_says_everything() {
        let text = format!("{:#}", json("in-process", &[failed()]));
        for word in [
            "\"passed\": false",
            "\"result\": \"failed\"",
            "\"look_at\"",
            "\"latency_us\": 1.5",
        ] {
            assert!(text.contains(word), "no {word}:\n{text}");
        }
    }
}
