//! `ferroce validate`: checks the model against its targets.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use ferroce_lab::reference::experiment::Harness;
use ferroce_lab::validate::blind::{self, Folder};
use ferroce_lab::validate::tally::Tally;
use ferroce_lab::validate::{self, Outcome, listing, markdown, perturb};
use ferroce_perf::PerfSpec;
use serde_json::{Value, json};

use super::json::JsonOption;
use super::perf::Perf;
use super::progress::Bar;

/// Checks every target that was measured on real cards, and prints the model's deviation.
///
/// Predictions are counted apart from targets of which a value of the preset was made (fitted,
/// identity). Ends with code 1 if a prediction or an identity is missed, or an excused target by
/// more than its bound; a fitted target that is missed is only printed. With --perturb, ends with
/// code 1 if a prediction depends on a single value.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ferroce validate
  ferroce validate --only V01,V04a
  ferroce validate --blind DIR            targets and tables that you have measured")]
pub struct Validate {
    /// Only targets whose number begins with this: `V01`, `V04a`
    #[arg(
        long,
        value_name = "ID",
        value_delimiter = ',',
        conflicts_with = "blind"
    )]
    only: Vec<String>,
    #[command(flatten)]
    json: JsonOption,
    /// Prints CSV, a line for each point
    #[arg(long, conflicts_with_all = ["blind", "json"])]
    csv: bool,
    /// Prints the part of the book: counts, misses and a table of all points in Markdown
    #[arg(long, conflicts_with_all = ["blind", "json", "csv", "perturb"])]
    markdown: bool,
    /// Moves each value by 10 %, and prints which targets are then missed; takes minutes. Targets
    /// of loss are examined only with --only
    #[arg(long, conflicts_with = "blind")]
    perturb: bool,
    /// Judges the model by a folder of measurements instead: `targets.csv`, and `tables.toml` that
    /// names outputs of perftest; the chapter "Measuring against ConnectX" has the format
    #[arg(long, value_name = "DIR")]
    blind: Option<PathBuf>,
}

impl Validate {
    pub fn execute(self) -> ExitCode {
        let run = || match (&self.blind, self.perturb) {
            (Some(folder), _) => self.blind(folder),
            (None, true) => self.perturb(),
            (None, false) => self.validate(),
        };
        match self.json.prepare().and_then(|_| run()) {
            Ok(is_failure) => ExitCode::from(u8::from(is_failure)),
            Err(error) => super::report_error(&error, super::EXIT_FAILURE),
        }
    }

    fn validate(&self) -> Result<bool, String> {
        self.check_only()?;
        let bar = Bar::new("targets", validate::count(&self.only));
        bar.end_on_interrupt();
        let outcomes = validate::run(&Harness, &self.only, |_| bar.advance());
        bar.clear();
        if self.markdown {
            print!("{}", markdown::markdown(&outcomes));
            return Ok(Tally::of(&outcomes).is_failure());
        }
        self.print(
            || json(&outcomes),
            || listing::csv(&outcomes),
            || listing::text(&outcomes),
        )?;
        Ok(Tally::of(&outcomes).is_failure())
    }

    fn check_only(&self) -> Result<(), String> {
        validate::check_only(&self.only).map_err(|error| format!("--only {error}"))
    }

    fn perturb(&self) -> Result<bool, String> {
        self.check_only()?;
        let bar = Bar::of_many();
        bar.end_on_interrupt();
        let result = perturb::run(&Harness, &self.only, &bar);
        bar.clear();
        let result = result?;
        self.print(
            || json!({ "perturbation": perturb::listing::json(&result) }),
            || perturb::listing::csv(&result),
            || perturb::listing::text(&result),
        )?;
        Ok(!result.fragile().is_empty())
    }

    fn blind(&self, folder: &Path) -> Result<bool, String> {
        let folder = Folder::read(folder, &command_line)?;
        let bar = Bar::new("measurements", folder.count());
        bar.end_on_interrupt();
        let judgement = blind::run(&Harness, &folder, || bar.advance());
        bar.clear();
        self.print(|| judgement.json(), String::new, || judgement.text())?;
        Ok(judgement.is_failure())
    }

    fn print(
        &self,
        json: impl FnOnce() -> Value,
        csv: impl FnOnce() -> String,
        text: impl FnOnce() -> String,
    ) -> Result<(), String> {
        match (self.json.prints_text(), self.csv) {
            (true, true) => print!("{}", csv()),
            (true, false) => print!("{}", text()),
            (false, _) => {}
        }
        self.json.write("validate", json)
    }
}

/// A command line of `ferroce perf`, without its first two words.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct PerfLine {
    #[command(flatten)]
    perf: Perf,
}

/// Parses a command line of `ferroce perf` for a target, which may only have options that select
/// the run.
pub(super) fn command_line(words: &[String]) -> Result<PerfSpec, String> {
    let line = PerfLine::try_parse_from(words).map_err(|error| {
        let text = error.to_string();
        text.lines().next().unwrap_or("").to_owned()
    })?;
    let perf = line.perf;
    if perf.size.is_some() || perf.all {
        return Err("-s and -a: sizes stand in column sizes".to_owned());
    }
    if perf.json.is_given() || !perf.sweep.is_empty() || perf.trace.is_wanted() {
        return Err("--json, --sweep and traces do not say what is run".to_owned());
    }
    perf.spec()
}

fn json(outcomes: &[Outcome]) -> Value {
    json!({
        "summary": Tally::of(outcomes).json(),
        "targets": outcomes.iter().map(Outcome::json).collect::<Value>(),
    })
}
