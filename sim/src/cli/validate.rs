//! `ferroce validate`: checks the model against its targets.

use std::io::{IsTerminal, Write, stderr};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};

use ferroce_lab::reference::experiment::Harness;
use ferroce_lab::report::json_text;
use ferroce_lab::validate::tally::Tally;
use ferroce_lab::validate::{self, Outcome, listing};
use serde_json::{Value, json};

/// Checks every target that was measured on real cards, and prints the model's deviation.
///
/// Predictions are counted apart from targets of which a value of the preset was made (fitted,
/// identity). Ends with code 1 if a prediction or an identity is missed, or an excused target by
/// more than its bound; a fitted target that is missed is only printed.
#[derive(Debug, clap::Args)]
pub struct Validate {
    /// Only targets whose number begins with this: `V01`, `V04a`
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    only: Vec<String>,
    /// Prints JSON
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Prints CSV, a line for each point
    #[arg(long)]
    csv: bool,
}

impl Validate {
    pub fn execute(self) -> ExitCode {
        let count = validate::count(&self.only);
        if count == 0 {
            return super::report_error("no target has such a number", super::EXIT_FAILURE);
        }
        let progress = Progress::new(count);
        let outcomes = validate::run(&Harness, &self.only, |_| progress.advance());
        progress.clear();
        if self.json {
            print!("{}", json_text::write(&json(&outcomes)));
        } else if self.csv {
            print!("{}", listing::csv(&outcomes));
        } else {
            print!("{}", listing::text(&outcomes));
        }
        ExitCode::from(u8::from(Tally::of(&outcomes).is_failure()))
    }
}

fn json(outcomes: &[Outcome]) -> Value {
    json!({
        "summary": Tally::of(outcomes).json(),
        "targets": outcomes.iter().map(Outcome::json).collect::<Value>(),
    })
}

/// A progress line on the terminal.
pub(super) struct Progress {
    count: usize,
    done: AtomicUsize,
    is_shown: bool,
}

impl Progress {
    pub(super) fn new(count: usize) -> Self {
        Self {
            count,
            done: AtomicUsize::new(0),
            is_shown: stderr().is_terminal(),
        }
    }

    pub(super) fn advance(&self) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        if self.is_shown {
            let filled = 30 * done / self.count.max(1);
            let (full, empty) = ("█".repeat(filled), "░".repeat(30 - filled.min(30)));
            let _ = write!(stderr(), "\r{full}{empty} {done} of {}", self.count);
        }
    }

    pub(super) fn clear(&self) {
        if self.is_shown {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}
