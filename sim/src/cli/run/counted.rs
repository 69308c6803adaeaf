//! `ferroce run --counters-on-exit`: the counters of a program's functions, after its end.

use std::path::PathBuf;

use ferroce_embed::fabric::registry::Registry;
use ferroce_embed::function::RUN_VARIABLE;
use ferroce_embed::random_keys::new_seed;
use ferroce_embed::runtime_directory;

use crate::cli::counters::function::{Function, result};
use crate::cli::json::{document, json_text, write_file};
use crate::cli::progress::note;

/// The functions of one program and of its children.
pub struct Counted {
    file: PathBuf,
    /// The identifier with which their processes register.
    run: u64,
}

impl Counted {
    /// Checks that the file can be written.
    ///
    /// # Errors
    /// The file, and the reason why it cannot be written.
    pub fn prepare(file: PathBuf) -> Result<Self, String> {
        write_file(&file, "")?;
        let run = new_seed().max(1);
        Ok(Self { file, run })
    }

    /// Returns the variable for the program.
    pub fn variable(&self) -> (&'static str, String) {
        (RUN_VARIABLE, self.run.to_string())
    }

    /// Writes the document of `ferroce counters --json`.
    ///
    /// # Errors
    /// The file, and the reason why it cannot be written.
    pub fn write(self) -> Result<(), String> {
        let directory = runtime_directory().map_err(|error| error.to_string())?;
        let registry = Registry::open(&directory).map_err(|error| error.to_string())?;
        let functions = registry.of_run(self.run);
        let functions = functions.iter().map(|one| Function::read(registry, one));
        let functions: Vec<_> = functions.collect();
        if functions.is_empty() {
            note("ferroce: --counters-on-exit: the program has not opened the device");
        }
        let text = json_text::write(&document("counters", result(&functions)));
        write_file(&self.file, &text)
    }
}
