//! Requests and their answers.

use std::sync::atomic::AtomicBool;

use ferroce_perf::explained::{self, MESSAGES};
use ferroce_perf::json::{self, Measured};
use ferroce_perf::json_text::{document, write};
use ferroce_perf::{Iterations, PerfRow, PerfSpec, runner};
use serde_json::{Value, json};

use crate::request::Request;
use crate::{catalogue, command};

/// Answers a request of the page. The key `ask` names what is asked for: `catalogue`, `preset`,
/// `command`, `point` or `explanation`; the other keys are the fields of [`Request`].
///
/// The answer to the last two has the document that `ferroce perf --json` writes, as text. An
/// answer with the key `error` is a refusal.
pub fn answer(request: &str) -> String {
    let answer = answered(request).unwrap_or_else(|error| json!({ "error": error }));
    answer.to_string()
}

fn answered(request: &str) -> Result<Value, String> {
    let document: Value = serde_json::from_str(request).map_err(|error| error.to_string())?;
    let keys = document.as_object().ok_or("a request is an object")?;
    let request = Request::parse(keys)?;
    match document["ask"].as_str().unwrap_or_default() {
        "catalogue" => Ok(catalogue::catalogue()),
        "preset" => catalogue::preset(&request),
        "command" => command::answer(&request),
        "point" => point(&request),
        "explanation" => explanation(&request),
        other => Err(format!("ask: {other} is no request")),
    }
}

/// Measures one point.
fn point(request: &Request) -> Result<Value, String> {
    let (spec, size) = request.spec()?;
    let stop = AtomicBool::new(false);
    let row = runner::run(&spec, size, &stop, None).map_err(|error| error.to_string())?;
    let rows = json::rows(&[measured(request, &spec, &row)]);
    let mut answer = json!({ "labels": labels(&row) });
    answer["document"] = write(&document("perf", json!({ "rows": rows }))).into();
    Ok(answer)
}

/// Measures one message that is alone, and explains its time.
fn explanation(request: &Request) -> Result<Value, String> {
    let (mut spec, size) = request.spec()?;
    if !request.options.contains_key("iterations") {
        spec.iterations = Iterations::Exactly(MESSAGES);
    }
    explained::alone(&mut spec)?;
    let (row, explanation) = explained::run(&spec, size)?;
    let result = json!({
        "rows": json::rows(&[measured(request, &spec, &row)]),
        "explanation": json::explanation(&explanation),
    });
    Ok(json!({ "document": write(&document("perf", result)) }))
}

fn measured<'a>(request: &'a Request, spec: &'a PerfSpec, row: &'a PerfRow) -> Measured<'a> {
    Measured {
        spec,
        point: request.point.as_slice(),
        row,
    }
}

/// Returns the names of the parts in the order of the document, which has those that were used.
fn labels(row: &PerfRow) -> Vec<String> {
    let parts = row.utilisation.iter().flat_map(|use_of| &use_of.parts);
    let used = parts.filter(|part| part.share > 0.0);
    used.map(|part| part.text()).collect()
}
