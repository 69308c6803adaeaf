//! The summary that `ferroce run --explain-errors` prints after the end of the program.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use ferroce_embed::runtime_directory;
use ferroce_platform::explain::{self, Counted, Source, VARIABLE};

/// The directory to which the processes of the program write their counts, until the summary is
/// printed.
pub struct Explanations {
    directory: PathBuf,
}

impl Explanations {
    /// Creates the directory.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn prepare() -> Result<Self, String> {
        let runtime = runtime_directory().map_err(|error| error.to_string())?;
        let directory = runtime.join(format!("errors-{}", std::process::id()));
        // Remove the files of an earlier process with the same PID.
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir(&directory)
            .map_err(|error| format!("--explain-errors: {}: {error}", directory.display()))?;
        Ok(Self { directory })
    }

    /// Returns the variable that names the directory to the program.
    pub fn variable(&self) -> (&'static str, OsString) {
        (VARIABLE, self.directory.clone().into())
    }

    /// Removes the directory.
    pub fn remove(self) {
        let _ = fs::remove_dir_all(&self.directory);
    }

    /// Prints the summary on standard error and removes the directory.
    pub fn report(self) {
        match summary(&self.directory) {
            Ok(text) => eprint!("{text}"),
            Err(error) => eprintln!("ferroce: --explain-errors: {error}"),
        }
        self.remove();
    }
}

fn summary(directory: &Path) -> std::io::Result<String> {
    Ok(describe(&explain::read(directory)?))
}

/// Returns the summary: a heading for each kind of line, the lines with their counts below it.
fn describe(all: &[Counted]) -> String {
    if all.is_empty() {
        return "ferroce: no verb was refused, no completion failed\n".to_owned();
    }
    let mut text = String::new();
    let headings = [
        (Source::Refused, "refused verbs"),
        (Source::Failed, "failed completions"),
        (Source::Fault, "what the model saw, once for each QP"),
    ];
    for (source, heading) in headings {
        let lines: Vec<_> = all.iter().filter(|one| one.source == source).collect();
        if lines.is_empty() {
            continue;
        }
        text += &format!("ferroce: {heading}:\n");
        for Counted {
            text: line, count, ..
        } in lines
        {
            text += &format!("{count:>7} x {line}\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_has_a_heading_for_each_kind() {
        assert!(describe(&[]).contains("no verb was refused"));
        let one = |source, text: &str, count| Counted {
            source,
            text: text.to_owned(),
            count,
        };
        let all = [
            one(Source::Refused, "ibv_reg_mr: a", 3),
            one(Source::Fault, "b", 1),
        ];
        let expected = "ferroce: refused verbs:\n      3 x ibv_reg_mr: a\n\
                        ferroce: what the model saw, once for each QP:\n      1 x b\n";
        assert_eq!(describe(&all), expected);
    }
}
