//! `ferroce sim`: random verbs programs in simulated worlds, each determined by a seed.

mod pieces;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use ferroce_model::preset::Preset;
use ferroce_seeds::{Failure, Scenario, ScenarioError, Summary, run, run_each, shrink};
use serde_json::{Value, json};

use super::faults::{Faults, refuse_situations};
use super::json::JsonOption;
use super::progress::Bar;
use super::shard::{ShardOption, Work};
use super::{EXIT_FAILURE, report_error};

/// Exit code when a scenario fails.
const EXIT_WRONG: u8 = 1;
/// Number of events before a failure that are printed.
const EVENTS: usize = 80;
/// Number of failures that are printed in full when many seeds run.
const FAILURES: usize = 3;

/// Run random verbs programs on simulated hosts, and check memory and completions.
///
/// A seed fixes the program, the hosts, their cards and the faults of packets. The same seed prints
/// the same, byte for byte. A program that fails is made shorter and printed as a scenario file.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ferroce sim --seed 7
  ferroce sim --seeds 1000                       on all cores; prints how to repeat each failure
  ferroce sim --seeds 1000 --shard 1/8 > 1.json  on one of eight machines; see `ferroce merge`
  ferroce sim --scenario short.toml --trace      what happened before the failure
  ferroce sim --seeds 100 --preset cx5-100g --faults loss=1e-2

The chapter \"Random programs\" has the keys of a scenario file.")]
pub struct Sim {
    /// Run this seed
    #[arg(long, value_name = "S", conflicts_with = "seeds", value_parser = seed)]
    seed: Option<u64>,

    /// Run this number of seeds
    #[arg(long, value_name = "N", value_parser = count)]
    seeds: Option<u64>,

    /// The first of many seeds
    #[arg(long, value_name = "S", default_value_t = 0, requires = "seeds")]
    first: u64,

    /// A TOML file; what it does not name is as the seed has it
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,

    /// The card of all hosts, in place of the scenario's
    #[arg(long, value_name = "NAME")]
    preset: Option<String>,

    /// Change a parameter of the preset; can be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,

    #[command(flatten)]
    faults: Faults,

    /// Print the events before the failure, and what each part waits for
    #[arg(long, conflicts_with = "seeds")]
    trace: bool,

    #[command(flatten)]
    pub shard: ShardOption,

    #[command(flatten)]
    json: JsonOption,
}

/// Maximum number of seeds of a run, whose results are kept until its end.
const SEEDS_MAX: u64 = 10_000_000;

/// Parses a number of seeds.
fn count(text: &str) -> Result<u64, String> {
    let count = text.parse().ok();
    let count = count.filter(|count| (1..=SEEDS_MAX).contains(count));
    count.ok_or_else(|| format!("a number of seeds is right, from 1 to {SEEDS_MAX}, such as 1000"))
}

/// Parses a seed.
fn seed(text: &str) -> Result<u64, String> {
    let seed = text.parse();
    seed.map_err(|_| "a number of 64 bits is right, such as 7".to_owned())
}

impl Sim {
    /// Runs the seeds, and prints failures.
    pub fn execute(self) -> ExitCode {
        let result = match self.seeds {
            Some(count) => self.run_many(count),
            None => self.run_one(),
        };
        match result {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::from(EXIT_WRONG),
            Err(error) => report_error(&error, EXIT_FAILURE),
        }
    }

    /// Returns the text of the scenario file.
    fn file(&self) -> Result<String, String> {
        let Some(path) = &self.scenario else {
            return Ok(String::new());
        };
        std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
    }

    fn scenario(&self, file: &str, seed: Option<u64>) -> Result<Scenario, ScenarioError> {
        let mut scenario = Scenario::from_toml(file, seed)?;
        if let Some(preset) = &self.preset {
            scenario.preset.clone_from(preset);
        }
        scenario.set.extend(self.set.iter().cloned());
        if let Some(plan) = &self.faults.plan {
            scenario.faults = Some(plan.clone());
        }
        Ok(scenario)
    }

    fn run_one(&self) -> Result<bool, String> {
        self.shard.refuse("only --seeds has parts")?;
        let prints_text = self.json.prepare()?;
        let scenario = self.scenario(&self.file()?, self.seed);
        let scenario = scenario.map_err(|error| error.to_string())?;
        refuse_situations(scenario.faults.as_ref())?;
        let events = if self.trace { EVENTS } else { 0 };
        let outcome = run(&scenario, events).map_err(|error| error.to_string())?;
        let passes = outcome.is_ok();
        let (passed, failures) = match &outcome {
            Ok(report) => (report.to_string(), json!([])),
            Err(failure) => (String::new(), json!([self.failed(scenario.seed, failure)])),
        };
        if prints_text {
            println!("{}", line(&scenario));
            match outcome {
                Ok(report) => println!("passes: {report}"),
                Err(failure) => explain(&scenario, failure),
            }
        }
        let result = || json!({ "runs": 1, "passed": passed, "failures": failures });
        self.json.write("sim", result)?;
        Ok(passes)
    }

    /// Returns the failure of a seed as JSON.
    fn failed(&self, seed: u64, failure: &Failure) -> Value {
        json!({ "seed": seed, "at": failure.to_string(), "repeat": self.command(seed) })
    }

    fn run_many(&self, count: u64) -> Result<bool, String> {
        let prints_text = self.shard.prepare(&self.json)?;
        let file = self.file()?;
        refuse_situations(self.faults.plan.as_ref())?;
        let scenario = |seed| self.scenario(&file, Some(seed));
        let Some(summary) = self.summary(count, &file)? else {
            return Ok(true);
        };
        if prints_text {
            println!("{} seeds, {} fail", summary.runs, summary.failures.len());
            println!("those that pass: {}", summary.passed);
            self.print_failures(&summary, scenario)?;
        }
        let failures = summary.failures.iter();
        let failures = failures.map(|(seed, failure)| self.failed(*seed, failure));
        let result = || {
            json!({
                "runs": summary.runs,
                "passed": summary.passed.to_string(),
                "failures": failures.collect::<Value>(),
            })
        };
        self.json.write("sim", result)?;
        Ok(summary.failures.is_empty())
    }

    /// Runs the seeds. Returns `None` in a shard, which writes its results.
    fn summary(&self, count: u64, file: &str) -> Result<Option<Summary>, String> {
        let scenario = |seed| self.scenario(file, Some(seed));
        let seeds: Vec<u64> = (self.first..self.first.saturating_add(count)).collect();
        let first = scenario(self.first).map_err(|error| error.to_string())?;
        // A preset that cannot be loaded is an error of the scenarios.
        let preset = Preset::load(&first.preset).ok().map(|preset| preset.hash());
        let work = Work {
            command: "sim",
            pieces: seeds.len(),
            inputs: &(file, preset),
        };
        let results = self.shard.results(&work, |indices| {
            let seeds: Vec<u64> = indices.iter().map(|&index| seeds[index]).collect();
            let bar = Bar::new("seeds", seeds.len());
            let counted = |seed| {
                bar.advance();
                scenario(seed)
            };
            let results = run_each(&seeds, counted);
            bar.clear();
            let results = results.map_err(|error| error.to_string())?;
            Ok(results.iter().map(pieces::of_seed).collect())
        })?;
        let Some(results) = results else {
            return Ok(None);
        };
        let mut summary = Summary::default();
        for (seed, result) in seeds.into_iter().zip(&results) {
            let result = pieces::seed(result);
            let result =
                result.ok_or_else(|| format!("the shards' piece of seed {seed} is no result"))?;
            summary.add(seed, result);
        }
        Ok(Some(summary))
    }

    /// Prints the first failures in full, the others in a line.
    fn print_failures(
        &self,
        summary: &Summary,
        scenario: impl Fn(u64) -> Result<Scenario, ScenarioError>,
    ) -> Result<(), String> {
        for (number, (seed, failure)) in summary.failures.iter().enumerate() {
            println!("\nrepeat with: {}", self.command(*seed));
            if number >= FAILURES {
                println!("fails at {failure}");
                continue;
            }
            let scenario = scenario(*seed).map_err(|error| error.to_string())?;
            explain(&scenario, failure.clone());
        }
        Ok(())
    }

    /// Returns the command that repeats a seed.
    fn command(&self, seed: u64) -> String {
        let mut command = format!("ferroce sim --seed {seed}");
        let mut add = |name: &str, value: String| command += &format!(" --{name} {value}");
        if let Some(path) = &self.scenario {
            add("scenario", path.display().to_string());
        }
        if let Some(preset) = &self.preset {
            add("preset", preset.clone());
        }
        for change in &self.set {
            add("set", change.clone());
        }
        if let Some(plan) = &self.faults.plan {
            add("faults", plan.to_string());
        }
        command
    }
}

/// Returns a summary of a scenario in one line.
fn line(scenario: &Scenario) -> String {
    let Scenario {
        seed,
        hosts,
        preset,
        ..
    } = scenario;
    let faults = scenario.faults.as_ref();
    let faults = faults.map_or("no faults".to_owned(), |plan| format!("faults {plan}"));
    format!("seed {seed}: {hosts} hosts, {preset}, {faults}")
}

/// Prints a failure, and a shortened scenario that fails, too.
fn explain(scenario: &Scenario, failure: Failure) {
    println!("fails at {failure}");
    if !failure.events.is_empty() {
        println!("the last events:");
        failure.events.iter().for_each(|event| println!("{event}"));
        println!("what each part waits for:\n{}", failure.state);
    }
    let shrunk = shrink(scenario, failure);
    println!("a shorter scenario, of {} runs:\n", shrunk.runs);
    print!("{}", shrunk.scenario);
    for operation in shrunk.scenario.operations() {
        println!("# {operation}");
    }
    println!("# fails at {}", shrunk.failure);
}
