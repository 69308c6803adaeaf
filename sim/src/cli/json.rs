//! `--json [FILE]`: the output of a command as JSON, for programs.
//!
//! Each document begins with the keys `program`, `version` and `schema`. `docs/src/json.md`
//! describes the convention, `docs/schema` has a JSON Schema for each command, and `ferroce schema`
//! prints them.

use std::ffi::OsString;
use std::fs;
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};

use clap::Args;
pub use ferroce_perf::json_text::{self, document};
use serde_json::Value;

/// Option `--json`.
#[derive(Debug, Clone, Default, Args)]
pub struct JsonOption {
    /// Write the result as JSON: to a file beside the text, without one (or with `-`) to standard
    /// output in place of it. `ferroce schema` has the keys
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
}

impl JsonOption {
    /// Returns true if the option is given.
    pub fn is_given(&self) -> bool {
        self.json.is_some()
    }

    /// Returns the option as words of a command line.
    pub fn words(&self) -> Vec<OsString> {
        let words = |path: &PathBuf| vec!["--json".into(), path.clone().into()];
        self.json.as_ref().map_or_else(Vec::new, words)
    }

    /// Returns true if text is printed: JSON does not go to standard output.
    pub fn prints_text(&self) -> bool {
        !self.json.as_deref().is_some_and(is_stdout)
    }

    /// Checks before a long run that the file can be written. Returns true if text is printed.
    ///
    /// # Errors
    /// The file, and the reason why it cannot be written.
    pub fn prepare(&self) -> Result<bool, String> {
        match &self.json {
            Some(path) if !is_stdout(path) => write_file(path, "").map(|()| true),
            _ => Ok(self.prints_text()),
        }
    }

    /// Writes the result of `command` (`compare`), if the option is given.
    ///
    /// # Errors
    /// The file, and the reason why it cannot be written.
    pub fn write(&self, command: &str, result: impl FnOnce() -> Value) -> Result<(), String> {
        match &self.json {
            Some(path) => write_file(path, &json_text::write(&document(command, result()))),
            None => Ok(()),
        }
    }
}

/// Writes to a file, or to standard output.
///
/// # Errors
/// The file, and the reason why it cannot be written.
pub fn write_file(path: &Path, text: &str) -> Result<(), String> {
    if is_stdout(path) {
        write!(stdout(), "{text}").map_err(|error| error.to_string())
    } else {
        fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
    }
}

fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}
