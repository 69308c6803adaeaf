//! The program as a child of `ferroce run`, for reports after its end.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode, ExitStatus};

use ferroce_platform::os::signals::Forwarding;

use super::counted::Counted;
use super::explain::{Explanations, Watch};
use crate::cli::EXIT_FAILURE;

/// Reports to print after the end of the program.
pub struct AfterEnd {
    explanations: Option<Explanations>,
    counters: Option<Counted>,
}

impl AfterEnd {
    /// Returns the requested reports. `None`: there are none, so the program needs no parent.
    pub fn new(explanations: Option<Explanations>, counters: Option<Counted>) -> Option<Self> {
        (explanations.is_some() || counters.is_some()).then_some(Self {
            explanations,
            counters,
        })
    }

    /// Runs the program as a child, and prints the reports at its end. Signals for this process are
    /// forwarded to the program.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn run(self, command: &mut Command) -> std::io::Result<ExitCode> {
        if let Some(explanations) = &self.explanations {
            let (variable, directory) = explanations.variable();
            command.env(variable, directory);
        }
        if let Some(counters) = &self.counters {
            let (variable, run) = counters.variable();
            command.env(variable, run);
        }
        let forwarding = Forwarding::start();
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => {
                self.explanations.into_iter().for_each(Explanations::remove);
                return Err(error);
            }
        };
        forwarding.to(child.id());
        let watch = self.explanations.as_ref().map(Explanations::watch);
        let status = child.wait();
        watch.into_iter().for_each(Watch::end);
        forwarding.end();
        let code = code_of(status?);
        self.explanations.into_iter().for_each(Explanations::report);
        let written = self.counters.map_or(Ok(()), Counted::write);
        Ok(match written {
            Ok(()) => code,
            Err(error) => super::report_error(&error, EXIT_FAILURE),
        })
    }
}

/// Returns the exit code that a shell would report for this status.
fn code_of(status: ExitStatus) -> ExitCode {
    let by_signal = || status.signal().map(|signal| 128 + signal);
    let code = status.code().or_else(by_signal);
    let code = code.and_then(|code| u8::try_from(code).ok());
    ExitCode::from(code.unwrap_or(EXIT_FAILURE))
}
