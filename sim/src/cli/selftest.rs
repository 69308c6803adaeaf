//! `ferroce selftest`: the staged check of a device.

use std::process::ExitCode;

use clap::Args;
use ferroce_selftest::{Report, STAGES, Timeouts, Verdict};

use super::device::DeviceArgument;
use super::json::JsonOption;
use super::record::RecordArgument;
use super::rtl::Rtl;
use super::{EXIT_FAILURE, report_error};

/// Check a device stage by stage: what an engineer runs on the first bitstream.
///
/// From configuration space and registers to queue pairs that send data to themselves. Each stage
/// says what it proves and what it has found, and on failure, what to check; stages that need it
/// are then skipped. The device is reset; no other process may use it meanwhile.
///
/// Ends with code 0 if every stage has passed, 1 if one has not, 125 if the device cannot be
/// opened.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ferroce selftest                               the model in this process
  ferroce selftest --device vfio:0000:01:00.0    a card that `ferroce bind` has bound
  ferroce selftest --device vfio-user:/run/ferroce0.sock --stage dma,interrupts
  ferroce selftest --rtl                         the card in SystemVerilog in this process
  ferroce selftest --rtl --tlp                   that card with its PCIe endpoint
  ferroce selftest --rtl --record card.rec       records each stage, for `ferroce trace diff`
  ferroce selftest --list                        the stages")]
pub struct SelfTest {
    #[command(flatten)]
    device: DeviceArgument,

    #[command(flatten)]
    rtl: Rtl,

    #[command(flatten)]
    record: RecordArgument,

    /// Only these stages, and those that they need
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    stage: Vec<String>,

    #[command(flatten)]
    json: JsonOption,

    /// Only lists the stages
    #[arg(long)]
    list: bool,
}

impl SelfTest {
    pub fn execute(self) -> ExitCode {
        if self.list {
            list();
            return ExitCode::SUCCESS;
        }
        match self.rtl.become_card().and_then(|()| self.check()) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(error) => report_error(&error, EXIT_FAILURE),
        }
    }

    /// Runs the stages. Returns true if all have passed.
    fn check(&self) -> Result<bool, String> {
        let stages = ferroce_selftest::select(&self.stage).map_err(|error| error.to_string())?;
        // Report a file that cannot be written before the device is accessed.
        let prints_text = self.json.prepare()?;
        let device = self.device.open(&self.record)?;
        if prints_text {
            println!("{}\n", device.name());
        }
        let mut sections = stages.iter().map(|stage| stage.name);
        let mut begin_next = || {
            if let Some(name) = sections.next() {
                device.begin_section(name);
            }
        };
        begin_next();
        let reports =
            ferroce_selftest::run(device.bus(), &stages, &Timeouts::default(), |report| {
                if prints_text {
                    println!("{}", ferroce_selftest::text(report));
                }
                begin_next();
            });
        if prints_text {
            println!("{}", summary(&reports));
        }
        let result = || ferroce_selftest::json(device.name(), &reports);
        self.json.write("selftest", result)?;
        Ok(reports.iter().all(|report| report.verdict.is_good()))
    }
}

fn list() {
    for stage in STAGES {
        println!("{:14} {}", stage.name, stage.proves);
        if !stage.needs.is_empty() {
            println!("{:14} needs {}", "", stage.needs.join(", "));
        }
    }
}

/// Returns one line with the counts of results, and the stages that did not pass.
fn summary(reports: &[Report]) -> String {
    let names = |is_meant: fn(&Verdict) -> bool| {
        let chosen = reports.iter().filter(|report| is_meant(&report.verdict));
        chosen.map(|report| report.stage.name).collect::<Vec<_>>()
    };
    let passed = names(|verdict| matches!(verdict, Verdict::Passed)).len();
    let mut text = format!("{passed} of {} stages passed", reports.len());
    for (word, chosen) in [
        (
            "failed",
            names(|verdict| matches!(verdict, Verdict::Failed(_))),
        ),
        (
            "skipped",
            names(|verdict| matches!(verdict, Verdict::Skipped(_))),
        ),
        (
            "not applicable",
            names(|verdict| matches!(verdict, Verdict::NotApplicable(_))),
        ),
    ] {
        if !chosen.is_empty() {
            text += &format!("; {word}: {}", chosen.join(", "));
        }
    }
    text
}
