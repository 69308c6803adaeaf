//! `ferroce validate`: checks the model against its targets.

mod pieces;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use ferroce_lab::reference::experiment::Harness;
use ferroce_lab::validate::blind::{self, Folder};
use ferroce_lab::validate::tally::Tally;
use ferroce_lab::validate::{self, Outcome, Target, listing, markdown, perturb};
use ferroce_perf::PerfSpec;
use serde_json::{Value, json};

use super::json::JsonOption;
use super::perf::Perf;
use super::progress::Bar;
use super::shard::{ShardOption, Work};

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
  ferroce validate --perturb --shard 1/8 > 1.json
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
    pub shard: ShardOption,
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
        match self.shard.prepare(&self.json).and_then(|_| run()) {
            Ok(is_failure) => ExitCode::from(u8::from(is_failure)),
            Err(error) => super::report_error(&error, super::EXIT_FAILURE),
        }
    }

    fn validate(&self) -> Result<bool, String> {
        self.check_only()?;
        let targets = validate::chosen(&self.only);
        let results = self.shard.results(&work(&targets), |indices| {
            let targets = at(&targets, indices);
            let bar = Bar::new("targets", targets.len());
            bar.end_on_interrupt();
            let figures = validate::measure(&Harness, &targets, || bar.advance());
            bar.clear();
            Ok(figures.iter().map(pieces::of_figures).collect())
        })?;
        let Some(results) = results else {
            return Ok(false);
        };
        let outcomes = targets.iter().zip(&results).map(|(target, result)| {
            let figures = pieces::figures(result);
            let figures = figures.ok_or_else(|| pieces::foreign(&target.id))?;
            Ok(Outcome::of(target, &figures))
        });
        let outcomes = outcomes.collect::<Result<Vec<_>, String>>()?;
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
        let targets = perturb::targets(&self.only);
        let results = self.shard.results(&work(&targets), |indices| {
            let bar = Bar::of_many();
            bar.end_on_interrupt();
            let records = perturb::measure(&Harness, &at(&targets, indices), &bar);
            bar.clear();
            Ok(records?.iter().map(pieces::of_record).collect())
        })?;
        let Some(results) = results else {
            return Ok(false);
        };
        let records = targets.iter().zip(&results).map(|(target, result)| {
            pieces::record(result).ok_or_else(|| pieces::foreign(&target.id))
        });
        let records = records.collect::<Result<Vec<_>, _>>()?;
        let result = perturb::sum_up(&targets, &records)?;
        self.print(
            || json!({ "perturbation": perturb::listing::json(&result) }),
            || perturb::listing::csv(&result),
            || perturb::listing::text(&result),
        )?;
        Ok(!result.fragile().is_empty())
    }

    fn blind(&self, folder: &Path) -> Result<bool, String> {
        self.shard.refuse("--blind has no parts")?;
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

/// Returns the work on targets, each of which is a piece.
fn work<'a>(targets: &'a Vec<Target>) -> Work<'a> {
    Work {
        command: "validate",
        pieces: targets.len(),
        inputs: targets,
    }
}

fn at(targets: &[Target], indices: &[usize]) -> Vec<Target> {
    let targets = indices.iter().map(|&index| targets[index].clone());
    targets.collect()
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
    if perf.json.is_given()
        || perf.shard.is_given()
        || !perf.sweep.is_empty()
        || perf.trace.is_wanted()
    {
        return Err("--json, --shard, --sweep and traces do not say what is run".to_owned());
    }
    perf.spec()
}

fn json(outcomes: &[Outcome]) -> Value {
    json!({
        "summary": Tally::of(outcomes).json(),
        "targets": outcomes.iter().map(Outcome::json).collect::<Value>(),
    })
}
