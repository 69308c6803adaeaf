//! Traces of `ferroce perf`: explanation, waveform, capture, counters.

use std::sync::atomic::AtomicBool;

use clap::Args;
use ferroce_perf::explained::{MESSAGES, alone, last_message};
use ferroce_perf::json::{self, Measured};
use ferroce_perf::plan::Plan;
use ferroce_perf::setup::world_config;
use ferroce_perf::sweep::Job;
use ferroce_perf::table::{self, Limit};
use ferroce_perf::{Iterations, PerfRow, PerfSpec, Test, runner};
use ferroce_world::trace::Trace;
use ferroce_world::trace::explain::Explanation;
use ferroce_world::trace::neohost::{self, Counted};
use serde_json::json;

use super::linux_names;
use crate::cli::json::JsonOption;
use crate::cli::trace_files::TraceFiles;

/// Error message for several sizes.
pub const ONE_SIZE: &str = "a trace is of one size, without --all and --sweep";

/// Requested traces.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Traces, of one size")]
pub struct TraceArgs {
    /// Explain where each nanosecond went of one message that is alone and finds its contexts
    /// cached
    #[arg(long)]
    explain: bool,

    #[command(flatten)]
    files: TraceFiles,

    /// Print the counters of cards and slots, under the names of NVIDIA NeoHost, of Linux and of
    /// Ferroce
    #[arg(long)]
    counters: bool,
}

impl TraceArgs {
    /// Returns true if any trace was requested.
    pub fn is_wanted(&self) -> bool {
        self.is_short() || self.counters
    }

    /// Returns true if the time of one message is the only requested output.
    pub fn only_explains(&self) -> bool {
        self.explain && !self.files.are_wanted() && !self.counters
    }

    /// Returns true if a few messages are enough.
    fn is_short(&self) -> bool {
        self.explain || self.files.are_wanted()
    }

    /// Measures the only one of `jobs`, with traces. `all_messages`: uses the number of messages in
    /// the specification. `json`: destination of the measurement and its explanation.
    pub fn execute(
        &self,
        jobs: &[Job],
        all_messages: bool,
        json: &JsonOption,
        stop: &AtomicBool,
    ) -> Result<(), String> {
        let [job] = jobs else {
            return Err(ONE_SIZE.to_owned());
        };
        let prints = json.prepare()?;
        let mut spec = job.spec.clone();
        if self.is_short() && !all_messages {
            spec.iterations = Iterations::Exactly(MESSAGES);
        }
        if self.explain {
            alone(&mut spec)?;
        }
        let plan = Plan::new(&spec, job.size).map_err(|error| error.to_string())?;
        let trace = Trace {
            keeps_steps: self.explain,
            ..self.files.create(&world_config(&spec))?
        };
        let trace = trace.shared();
        let row = runner::run(&spec, job.size, stop, Some(&trace));
        let finished = trace.lock().finish();
        let row = row.map_err(|error| error.to_string())?;
        finished?;
        if prints {
            println!("{}", table::header(&spec, &plan).trim_end());
            println!("{}", table::columns(plan.test));
            println!("{}", table::row(&row));
            println!("{}", table::LINE);
            let limits = Vec::from_iter(Limit::of(String::new(), &row));
            if let Some(line) = table::bottleneck(&limits) {
                println!("{line}\n{}", table::LINE);
            }
        }
        let explanation = self
            .explain
            .then(|| last_message(&row, &trace))
            .transpose()?;
        if let (true, Some(explanation)) = (prints, &explanation) {
            print_explanation(explanation, plan.test);
        }
        if prints && self.counters {
            print_counters(&row, &spec);
        }
        let measured = Measured {
            spec: &spec,
            point: &job.point,
            row: &row,
        };
        json.write("perf", || {
            let mut result = json!({ "rows": json::rows(&[measured]) });
            if let Some(explanation) = &explanation {
                result["explanation"] = json::explanation(explanation);
            }
            result
        })
    }
}

fn print_explanation(explanation: &Explanation, test: Test) {
    let what = match test {
        Test::Latency => "from its post to the next one's",
        Test::Bandwidth => "from its post to its completion",
    };
    println!("\nThe last message, {what}; host 0 measures:\n\n{explanation}");
}

fn print_counters(row: &PerfRow, spec: &PerfSpec) {
    let hosts: Vec<Counted<'_>> = row
        .counters
        .iter()
        .map(|values| Counted {
            values,
            time_ps: row.simulated_ps,
            preset: &spec.preset,
        })
        .collect();
    println!("\nNames of NVIDIA NeoHost:\n{}", neohost::table(&hosts));
    println!("{}", linux_names::table(&row.counters));
    println!("{}", neohost::own_table(&row.counters));
}

#[cfg(test)]
mod tests {
    use ferroce_model::preset::Preset;
    use ferroce_perf::Operation;

    use super::*;

    fn execute(preset: &str, sizes: &[u32]) -> Result<(), String> {
        let preset = Preset::load(preset).expect("built in");
        let spec = PerfSpec::new(preset, Operation::Read, Test::Latency);
        let jobs: Vec<Job> = sizes
            .iter()
            .map(|&size| Job {
                spec: spec.clone(),
                size,
                point: Vec::new(),
            })
            .collect();
        let arguments = TraceArgs {
            explain: true,
            files: TraceFiles::default(),
            counters: true,
        };
        arguments.execute(
            &jobs,
            false,
            &JsonOption::default(),
            &AtomicBool::new(false),
        )
    }

    #[test]
    fn one_size_of_a_card_with_clocks_is_traced() {
        execute("irdma-10g", &[64]).expect("it can be explained");
        let refused = execute("irdma-10g", &[64, 128]).expect_err("two sizes");
        assert!(refused.contains("one size"), "{refused}");
        let refused = execute("functional", &[64]).expect_err("no time");
        assert!(refused.contains("nothing takes time"), "{refused}");
    }
}
