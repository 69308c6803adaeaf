//! What a measured row adds to the output, in a form that a shard can write.

use ferroce_lab::calibrate::{self, Machine};
use ferroce_model::preset::Preset;
use ferroce_perf::json::{self, Measured};
use ferroce_perf::sweep::Job;
use ferroce_perf::table::{self, Limit};
use ferroce_perf::utilisation::THREAD;
use ferroce_perf::{PerfRow, csv};
use serde_json::{Value, json};

use crate::cli::fabric;

/// What is needed of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// What text and CSV need: rows in JSON are large.
    Text,
    /// All.
    Json,
}

/// A row in the output.
#[derive(Debug, Clone, PartialEq)]
pub struct Piece {
    /// The lines of the table; the first one lacks the swept values.
    pub lines: Vec<String>,
    /// Its bottleneck.
    pub limit: Option<Limit>,
    /// True if the program's thread limits it.
    pub is_limited_by_thread: bool,
    /// Its cells in CSV.
    pub csv: Vec<String>,
    /// Its document; null if it is not kept.
    pub json: Value,
}

impl Piece {
    /// Returns what `row` of `job` adds.
    pub fn new(job: &Job, row: &PerfRow, keep: Keep) -> Self {
        let measured = Measured {
            spec: &job.spec,
            point: &job.point,
            row,
        };
        let utilisation = row.utilisation.as_ref();
        let part = utilisation.and_then(|it| it.limit());
        let traffic = row.traffic.as_ref().map(fabric::text);
        Self {
            lines: [table::row(row)].into_iter().chain(traffic).collect(),
            limit: Limit::of(label(job), row),
            is_limited_by_thread: part.is_some_and(|part| part.name == THREAD),
            csv: csv::record(&measured),
            json: match keep {
                Keep::Text => Value::Null,
                Keep::Json => json::row(&measured),
            },
        }
    }

    /// Returns the result of a shard's piece.
    pub fn result(self) -> Value {
        let limit = self
            .limit
            .map(|limit| [limit.label, limit.text, limit.shown]);
        json!({
            "lines": self.lines,
            "bottleneck": limit,
            "limited_by_thread": self.is_limited_by_thread,
            "csv": self.csv,
            "row": self.json,
        })
    }

    /// Reads the result of a shard's piece; `None`: it is not one.
    pub fn of(result: &Value) -> Option<Self> {
        let limit = match &result["bottleneck"] {
            Value::Null => None,
            limit => {
                let [label, text, shown] = texts(limit)?.try_into().ok()?;
                Some(Limit { label, text, shown })
            }
        };
        Some(Self {
            lines: texts(&result["lines"])?,
            limit,
            is_limited_by_thread: result["limited_by_thread"].as_bool()?,
            csv: texts(&result["csv"])?,
            json: result.get("row")?.clone(),
        })
    }
}

fn texts(value: &Value) -> Option<Vec<String>> {
    let texts = value.as_array()?.iter();
    texts.map(|text| Some(text.as_str()?.to_owned())).collect()
}

/// Returns the label of a job's row: its swept values, or its size.
fn label(job: &Job) -> String {
    let values = job
        .point
        .iter()
        .map(|(key, value)| format!("{key}={value}"));
    if job.point.is_empty() {
        format!("{} B", job.size)
    } else {
        values.collect::<Vec<_>>().join(" ")
    }
}

/// Returns a warning if the cost of a post is a guess, and limits one of the rows.
pub fn uncalibrated(preset: &Preset, pieces: &[Piece]) -> Option<String> {
    let warning = calibrate::uncalibrated(preset, Machine::OfProfile)?;
    let is_limited = pieces.iter().any(|piece| piece.is_limited_by_thread);
    is_limited.then_some(warning)
}
