//! A folder of measurements that is not part of the project, to judge the model by.
//!
//! The folder has `targets.csv` ([`targets`]), or `tables.toml` ([`index`]), which lists files with
//! measured tables and the preset of each, or both; and presets, if the card is not built in.
//! docs/src/connectx.md describes the format. [`Folder::read`] reports errors before anything runs.

pub mod index;
pub mod targets;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use ferroce_model::preset::Preset;
use ferroce_perf::PerfSpec;
use index::MeasuredTable;
use serde_json::{Value, json};
use targets::BlindTarget;

use super::basis::Basis;
use super::outcome::{self, Outcome};
use super::tally::Tally;
use super::{listing, measure, parallel};
use crate::cache::Cache;
use crate::reference::TableError;
use crate::reference::comparison::{self, Comparison};
use crate::reference::experiment::{self, Simulator};

/// File with the targets.
pub const TARGETS: &str = "targets.csv";
/// File that lists the measured tables.
pub const INDEX: &str = "tables.toml";
/// Extensions of files that are tables.
const TABLE_ENDINGS: [&str; 3] = ["txt", "csv", "json"];

/// Reads a command line of `ferroce perf`, without its first two words.
pub type CommandLine<'a> = &'a dyn Fn(&[String]) -> Result<PerfSpec, String>;

/// Contents of a folder.
#[derive(Debug)]
pub struct Folder {
    /// Its path.
    pub path: PathBuf,
    /// Its description, from the index.
    pub about: String,
    targets: Vec<BlindTarget>,
    /// Its measured tables.
    pub tables: Vec<MeasuredTable>,
}

impl Folder {
    /// Reads a folder. `command_line` parses the options of targets.
    ///
    /// # Errors
    /// The error with file, line and remedy.
    pub fn read(path: &Path, command_line: CommandLine<'_>) -> Result<Self, String> {
        let mut folder = Self {
            path: path.to_owned(),
            about: String::new(),
            targets: Vec::new(),
            tables: Vec::new(),
        };
        let has = |name| path.join(name).is_file();
        if !path.is_dir() {
            return Err(format!("{}: no such folder", path.display()));
        }
        if !has(TARGETS) && !has(INDEX) {
            return Err(format!(
                "{}: neither {TARGETS} nor {INDEX}; the chapter \"Your own measurements\" of \
                 docs/src/connectx.md has their format",
                path.display()
            ));
        }
        if has(TARGETS) {
            let text = folder.text(TARGETS)?;
            let targets = targets::parse(&text, &folder, command_line);
            folder.targets = targets.map_err(|error| folder.error(TARGETS, &error))?;
        }
        if has(INDEX) {
            let text = folder.text(INDEX)?;
            (folder.about, folder.tables) = index::parse(&text, &folder)?;
        }
        folder.check_nothing_is_left()?;
        Ok(folder)
    }

    /// Returns the number of steps of [`run`].
    pub fn count(&self) -> usize {
        self.targets.len() + self.tables.len()
    }

    /// Returns a file's path.
    fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    fn text(&self, name: &str) -> Result<String, String> {
        let file = self.file(name);
        std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))
    }

    fn error(&self, name: &str, error: &TableError) -> String {
        format!("{}: {error}", self.file(name).display())
    }

    /// Returns the name under which a preset can be loaded: parts that are files of the folder get
    /// their path.
    fn preset_name(&self, name: &str) -> String {
        let parts = name.split('@').map(|part| match self.file(part) {
            path if part.ends_with(".toml") && path.is_file() => path.display().to_string(),
            _ => part.to_owned(),
        });
        parts.collect::<Vec<_>>().join("@")
    }

    fn preset(&self, name: &str) -> Result<Preset, String> {
        Preset::load(&self.preset_name(name)).map_err(|error| error.to_string())
    }

    /// Fails if there is a table that the index does not name: it would be omitted silently.
    fn check_nothing_is_left(&self) -> Result<(), String> {
        let entries = std::fs::read_dir(&self.path);
        let entries = entries.map_err(|error| format!("{}: {error}", self.path.display()))?;
        let names = entries.flatten().filter(|entry| entry.path().is_file());
        let mut names: Vec<_> = names
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        for name in names {
            let is_table = TABLE_ENDINGS
                .iter()
                .any(|ending| name.ends_with(&format!(".{ending}")));
            let is_named = self.tables.iter().any(|table| table.file == name);
            if is_table && !is_named && name != TARGETS {
                return Err(format!(
                    "{}: {INDEX} does not name it; add\n  [[table]]\n  file = \"{name}\"\n  \
                     preset = \"NAME\"",
                    self.file(&name).display()
                ));
            }
        }
        Ok(())
    }
}

/// A measured table compared with the model.
#[derive(Clone, Debug)]
pub struct TableOutcome {
    /// Name of the table.
    pub name: String,
    /// The comparison, or the reason why there is none.
    pub comparison: Result<Comparison, String>,
    /// Largest permitted median error of each class of sizes, if the index has one.
    pub tolerance_percent: Option<f64>,
}

impl TableOutcome {
    /// Returns the classes of sizes whose median error is above the tolerance.
    fn missed(&self) -> Vec<String> {
        let (Ok(comparison), Some(tolerance)) = (&self.comparison, self.tolerance_percent) else {
            return Vec::new();
        };
        let classes = comparison.class_errors();
        if classes.is_empty() {
            let (median, _) = comparison.summary();
            let is_missed = median.is_nan() || median > tolerance;
            return Vec::from_iter(is_missed.then(|| format!("all sizes ({median:.1} %)")));
        }
        let missed = classes
            .into_iter()
            .filter(|own| own.median_percent > tolerance);
        missed
            .map(|own| format!("{} ({:.1} %)", own.class.word(), own.median_percent))
            .collect()
    }

    /// Returns true if it is missed, or cannot be run.
    pub fn is_failure(&self) -> bool {
        self.comparison.is_err() || !self.missed().is_empty()
    }

    /// Returns the verdict in words.
    pub fn verdict(&self) -> String {
        let missed = self.missed();
        match (&self.comparison, self.tolerance_percent) {
            (Err(error), _) => {
                format!(
                    "FAIL: cannot be run: {}",
                    error.lines().next().unwrap_or("")
                )
            }
            (Ok(_), None) => "no tolerance is given".to_owned(),
            (Ok(_), Some(percent)) if missed.is_empty() => format!("pass, within {percent} %"),
            (Ok(_), Some(percent)) => {
                format!("FAIL: not within {percent} %: {}", missed.join(", "))
            }
        }
    }
}

/// Result of [`run`].
#[derive(Clone, Debug)]
pub struct Judgement {
    /// Description of the folder.
    pub about: String,
    /// By target, in the order of the file.
    pub outcomes: Vec<Outcome>,
    /// By table, in the order of the index.
    pub tables: Vec<TableOutcome>,
}

/// Measures the targets and tables of `folder`, in parallel; calls `done` after each.
pub fn run(simulator: &dyn Simulator, folder: &Folder, done: impl Fn() + Sync) -> Judgement {
    let cache = Cache::new(simulator);
    let outcomes = parallel::map(&folder.targets, |target| {
        let outcome = target.outcome(&cache);
        done();
        outcome
    });
    let tables = parallel::map(&folder.tables, |table| {
        let comparison = comparison::compare(&cache, &table.preset, &table.table);
        done();
        TableOutcome {
            name: table.table.name.clone(),
            comparison,
            tolerance_percent: table.tolerance_percent,
        }
    });
    Judgement {
        about: folder.about.clone(),
        outcomes,
        tables,
    }
}

impl BlindTarget {
    fn outcome(&self, simulator: &dyn Simulator) -> Outcome {
        let figure = experiment::run(simulator, &self.spec).and_then(|rows| {
            let figure = measure::of_rows(&rows, self.figure, self.hosts(), self.spec.threads);
            figure.ok_or_else(|| format!("the run has no {:?}", self.figure))
        });
        let points = figure.map(|model| {
            let basis = Basis::foreign();
            vec![outcome::check(
                &self.target,
                "",
                self.expected,
                basis,
                model,
            )]
        });
        Outcome::new(&self.target, &self.target.preset, points, None)
    }
}

impl Judgement {
    /// Returns true if a target or a table is missed, or cannot be run.
    pub fn is_failure(&self) -> bool {
        Tally::of(&self.outcomes).is_failure() || self.tables.iter().any(TableOutcome::is_failure)
    }

    /// Returns the result for a terminal.
    pub fn text(&self) -> String {
        let mut text = String::new();
        if !self.about.is_empty() {
            let _ = writeln!(text, "{}\n", self.about);
        }
        for table in &self.tables {
            match &table.comparison {
                Ok(comparison) => text.push_str(&comparison.text()),
                Err(_) => text.push_str(&format!("{}\n", table.name)),
            }
            let _ = writeln!(text, "{}\n", table.verdict());
        }
        if !self.outcomes.is_empty() {
            text.push_str(&listing::text(&self.outcomes));
        }
        if !self.tables.is_empty() {
            let _ = writeln!(text, "{}", self.tables_text());
        }
        text
    }

    /// Returns one line about the tables.
    pub fn tables_text(&self) -> String {
        let judged = self.tables.iter().filter(|t| t.tolerance_percent.is_some());
        let passed = judged.clone().filter(|table| !table.is_failure());
        let (passed, judged) = (passed.count(), judged.count());
        let others = self.tables.len() - judged;
        format!("tables    {passed} of {judged} within tolerance, {others} without one")
    }

    /// Returns the result as JSON.
    pub fn json(&self) -> Value {
        let tables = self.tables.iter().map(|table| {
            let comparison = table.comparison.as_ref().map(Comparison::json);
            json!({
                "name": table.name,
                "tolerance_percent": table.tolerance_percent,
                "verdict": table.verdict(),
                "failure": table.is_failure(),
                "comparison": comparison.ok(),
            })
        });
        json!({
            "about": self.about,
            "failure": self.is_failure(),
            "summary": Tally::of(&self.outcomes).json(),
            "targets": self.outcomes.iter().map(Outcome::json).collect::<Value>(),
            "tables": tables.collect::<Value>(),
        })
    }
}

#[cfg(test)]
mod tests;
