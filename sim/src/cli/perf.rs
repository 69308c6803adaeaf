//! `ferroce perf`: perftest on simulated hosts.

mod arguments;
pub mod calibration;
mod linux_names;
mod output;
mod piece;
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

use super::shard::{Source, Work};
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
        let result = if self.trace.is_wanted() || self.sensitivity {
            self.alone(&jobs).map_err(|error| (error, EXIT_FAILURE))
        } else {
            self.measure(&jobs, calibrations)
        };
        match result {
            Ok(()) => ExitCode::SUCCESS,
            Err((error, code)) => report_error(&error, code),
        }
    }

    /// Measures one size in detail.
    fn alone(&self, jobs: &[Job]) -> Result<(), String> {
        self.shard
            .refuse("traces and --sensitivity are of one size, which has no parts")?;
        if self.sensitivity {
            return self.sensitivity(jobs, os::note_interrupt());
        }
        let all_messages = self.iterations.is_some();
        self.trace
            .execute(jobs, all_messages, &self.json, os::note_interrupt())
    }

    /// Measures all sizes, or the sizes of a shard. An error comes with its exit code.
    fn measure(&self, jobs: &[Job], calibrations: Vec<Calibration>) -> Result<(), (String, u8)> {
        let failed = |error| (error, EXIT_FAILURE);
        let work = Work {
            command: "perf",
            pieces: jobs.len(),
            inputs: &jobs,
        };
        let source = self.shard.source(&work).map_err(failed)?;
        if let Source::Shard(shard) = source {
            let jobs = shard.choose(jobs);
            let mut output = Output::of_shard(&jobs, &self.json);
            let result = self.run(&jobs, &mut output);
            output.end();
            result?;
            return shard.write(&work, output.into_results()).map_err(failed);
        }
        let mut output = Output::new(jobs, &self.json).map_err(failed)?;
        output.begin();
        output.calibrated(calibrations);
        let result = match source {
            Source::Merged(results) => output.add_results(results).map_err(failed),
            _ => self.run(jobs, &mut output),
        };
        output.end();
        result?;
        let written = output.write_json("perf");
        let written = written.and_then(|()| output.write_csv(self.csv.as_deref()));
        written.map_err(failed)
    }

    fn run(&self, jobs: &[Job], output: &mut Output<'_>) -> Result<(), (String, u8)> {
        let workers = self.jobs.map_or_else(workers, |jobs| jobs as usize);
        let result = run(jobs, workers, os::note_interrupt(), output);
        result.map_err(|error| (error.to_string(), code(&error)))
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
