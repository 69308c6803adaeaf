//! `ferroce report`: plots of model and measurement on one page.

use std::path::{Path, PathBuf};

use ferroce_lab::perftest::RealPerftest;
use ferroce_lab::reference::experiment::Harness;
use ferroce_lab::report::{self, Choice};
use ferroce_lab::validate::blind::Folder;
use ferroce_model::preset::Preset;

use super::progress::{Bar, say};
use super::validate::command_line;

/// Runs the model for every measured table and writes a page with the plots: `index.html`, which is
/// self-contained, and each plot as SVG and CSV.
#[derive(Debug, clap::Args)]
pub struct Report {
    /// Folder for the files; created if it does not exist
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
    /// Only plots about this built-in card, without the validation
    #[arg(long, value_name = "NAME")]
    preset: Vec<String>,
    /// Only this plot, by the name of its files
    #[arg(long, value_name = "NAME")]
    plot: Vec<String>,
    /// Plots of the real perftest in simulated time, too; it must be installed
    #[arg(long)]
    perftest: bool,
    /// A folder of measurements, as of `ferroce validate --blind`, instead of those that are built
    /// in
    #[arg(long, value_name = "DIR", conflicts_with_all = ["preset", "plot", "perftest"])]
    blind: Option<PathBuf>,
}

impl Report {
    pub fn execute(self) -> Result<(), String> {
        if let Some(folder) = &self.blind {
            let folder = Folder::read(folder, &command_line)?;
            let bar = Bar::new("measurements", folder.count());
            let report = report::make_blind(&Harness, &folder, || bar.advance());
            bar.clear();
            return write(&report, &self.out);
        }
        for preset in &self.preset {
            Preset::load(preset).map_err(|error| error.to_string())?;
        }
        let ferroce = std::env::current_exe()
            .map_err(|error| format!("cannot find this executable: {error}"))?;
        let choice = Choice {
            presets: self.preset,
            plots: self.plot,
            real: self.perftest.then_some(RealPerftest {
                ferroce,
                elide_payload: true,
                every_packet: false,
                extra: Vec::new(),
            }),
        };
        choice.check()?;
        let bar = Bar::new("plots", report::count(&choice));
        let report = report::make(&Harness, &choice, || bar.advance());
        bar.clear();
        write(&report, &self.out)
    }
}

/// Writes the page; fails if a plot could not be made.
fn write(report: &report::Report, out: &Path) -> Result<(), String> {
    let folder = out.display();
    report
        .write(out)
        .map_err(|error| format!("{folder}: {error}"))?;
    say(&format!(
        "{folder}/index.html, {} plots",
        report.figures().count()
    ));
    let problems: Vec<_> = report.problems().collect();
    if problems.is_empty() {
        Ok(())
    } else {
        Err(format!("not drawn:\n  {}", problems.join("\n  ")))
    }
}
