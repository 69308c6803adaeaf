//! Results of seeds, as documents of shards have them.

use ferroce_seeds::{Failure, Report, Results};
use ferroce_units::{Duration, Instant};
use serde_json::{Value, json};

/// Returns the result of a seed, without what only `--trace` prints.
pub fn of_seed(outcome: &Result<Report, Failure>) -> Value {
    match outcome {
        Ok(report) => json!({
            "posted": report.results.posted,
            "succeeded": report.results.succeeded,
            "failed": report.results.failed,
            "flushed": report.results.flushed,
            "received": report.results.received,
            "frames": report.frames,
            "faults": report.faults,
            "recoveries": report.recoveries,
            "took_ps": report.took.as_ps(),
        }),
        Err(failure) => json!({ "failure": failure.what, "at_ps": failure.at.as_ps() }),
    }
}

/// Reads the result of a seed.
pub fn seed(result: &Value) -> Option<Result<Report, Failure>> {
    let number = |key: &str| result[key].as_u64();
    if let Some(what) = result["failure"].as_str() {
        return Some(Err(Failure {
            what: what.to_owned(),
            at: Instant(number("at_ps")?),
            events: Vec::new(),
            state: String::new(),
        }));
    }
    Some(Ok(Report {
        results: Results {
            posted: number("posted")?,
            succeeded: number("succeeded")?,
            failed: number("failed")?,
            flushed: number("flushed")?,
            received: number("received")?,
        },
        frames: number("frames")?,
        faults: number("faults")?,
        recoveries: number("recoveries")?,
        took: Duration::from_ps(number("took_ps")?),
        ..Report::default()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_read_as_it_was_written() {
        let results = Results {
            posted: 1,
            succeeded: 2,
            failed: 3,
            flushed: 4,
            received: 5,
        };
        let report = Report {
            results,
            frames: 6,
            faults: 7,
            recoveries: 8,
            took: Duration::from_ps(9),
            ..Report::default()
        };
        let failure = Failure {
            what: "memory differs".to_owned(),
            at: Instant(7),
            events: Vec::new(),
            state: String::new(),
        };
        for outcome in [Ok(report), Err(failure)] {
            assert_eq!(seed(&of_seed(&outcome)), Some(outcome));
        }
        assert_eq!(seed(&json!({ "posted": 1 })), None);
    }
}
