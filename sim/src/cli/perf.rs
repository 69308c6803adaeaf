//! `ferroce perf`: perftest on simulated hosts.

mod arguments;
pub mod calibration;
mod linux_names;
mod output;
mod placement;
mod sensitivity;
mod sweep;
mod trace;

use std::process::ExitCode;

pub use arguments::Perf;
use ferroce_lab::calibrate::Calibration;
use ferroce_perf::Error;
use ferroce_perf::plan::Plan;
use ferroce_perf::sweep::{Job, run, workers};
use ferroce_platform::os;
pub use output::Output;
pub use trace::ONE_SIZE;

use super::{EXIT_FAILURE, report_error};

/// Exit code of a program that was interrupted from the terminal, as in shells.
const EXIT_INTERRUPTED: u8 = 130;

impl Perf {
    /// Measures and prints.
    pub fn execute(self) -> ExitCode {
        let (jobs, calibrations) = match self.calibrated_jobs() {
            Ok(jobs) => jobs,
            Err(error) => return report_error(&error, EXIT_FAILURE),
        };
        // Check all specifications before anything runs.
        if let Err(error) = check(&jobs) {
            return report_error(&error.to_string(), EXIT_FAILURE);
        }
        if self.trace.is_wanted() {
            let all_messages = self.iterations.is_some();
            return match self
                .trace
                .execute(&jobs, all_messages, &self.json, os::note_interrupt())
            {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => report_error(&error, EXIT_FAILURE),
            };
        }
        if self.sensitivity {
            return match self.sensitivity(&jobs, os::note_interrupt()) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => report_error(&error, EXIT_FAILURE),
            };
        }
        let mut output = match Output::new(&jobs, &self.json) {
            Ok(output) => output,
            Err(error) => return report_error(&error, EXIT_FAILURE),
        };
        output.begin();
        output.calibrated(calibrations);
        let workers = self.jobs.map_or_else(workers, |jobs| jobs as usize);
        let result = run(&jobs, workers, os::note_interrupt(), &mut output);
        output.end();
        match result.map_err(|error| (error.to_string(), code(&error))) {
            Err((error, code)) => report_error(&error, code),
            Ok(()) => match output
                .write_json("perf")
                .and_then(|()| output.write_csv(self.csv.as_deref()))
            {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => report_error(&error, EXIT_FAILURE),
            },
        }
    }
}

impl Perf {
    /// Returns all measurements, with the host of a measured table if one is given, and the results
    /// of that calibration.
    pub fn calibrated_jobs(&self) -> Result<(Vec<Job>, Vec<Calibration>), String> {
        let mut jobs = self.jobs()?;
        let found = calibration::calibrate(&mut jobs, self.calibrate_host.as_deref())?;
        Ok((jobs, found))
    }
}

fn code(error: &Error) -> u8 {
    match error {
        Error::Interrupted => EXIT_INTERRUPTED,
        _ => EXIT_FAILURE,
    }
}

fn check(jobs: &[Job]) -> Result<(), Error> {
    jobs.iter()
        .try_for_each(|job| Plan::new(&job.spec, job.size).map(|_| ()))
}
