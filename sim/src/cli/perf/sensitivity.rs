//! `--sensitivity`: the parameters that change a figure.

use std::sync::atomic::AtomicBool;

use ferroce_perf::plan::Plan;
use ferroce_perf::sensitivity::{self, report};
use ferroce_perf::sweep::{Job, workers};
use ferroce_perf::table;
use serde_json::json;

use super::Perf;
use crate::cli::json::write_file;
use crate::cli::progress::Bar;

impl Perf {
    /// Measures the only one of `jobs` with each parameter moved, and prints the effects.
    pub(super) fn sensitivity(&self, jobs: &[Job], stop: &AtomicBool) -> Result<(), String> {
        let [job] = jobs else {
            return Err("--sensitivity is of one size, without --all and --sweep".to_owned());
        };
        let (spec, size) = (&job.spec, job.size);
        let prints = self.json.prepare()?;
        let plan = Plan::new(spec, size).map_err(|error| error.to_string())?;
        let bar = Bar::new("runs", sensitivity::runs(spec));
        let workers = self.jobs.map_or_else(workers, |jobs| jobs as usize);
        let found = sensitivity::run(spec, size, workers, stop, &mut || bar.advance());
        bar.clear();
        let found = found.map_err(|error| error.to_string())?;
        if prints {
            print!("{}", table::header(spec, &plan));
            println!(" Message         : {size}[B]");
            print!("{}", report::text(&found));
            println!("{}", table::LINE);
        }
        if let Some(path) = &self.csv {
            write_file(
                path,
                &report::csv(&found).map_err(|error| error.to_string())?,
            )?;
        }
        self.json
            .write("perf", || json!({ "sensitivity": report::json(&found) }))
    }
}
