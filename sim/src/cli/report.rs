//! `ferroce report`: plots of model and measurement on one page.

use std::path::{Path, PathBuf};

use ferroce_lab::perftest::RealPerftest;
use ferroce_lab::reference::experiment::Harness;
use ferroce_lab::report::figures::against::Cards;
use ferroce_lab::report::figures::runs::Run;
use ferroce_lab::report::{self, Choice};
use ferroce_lab::validate::blind::Folder;
use ferroce_model::preset::Preset;

use super::progress::{Bar, say};
use super::validate::command_line;

/// Runs the model for every measured table and writes a page with the plots: `index.html`, which is
/// self-contained, and each plot as SVG and CSV.
///
/// With --against, the page is about one card, such as one of your own, beside another. With
/// --runs, it is about two runs of `ferroce perf` or `perftest`. The command that makes a plot
/// stands below it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ferroce report --out report                      every plot, and the validation
  ferroce report --out report --preset cx5-100g
  ferroce report --out report --preset mine.toml --against cx5-100g
  ferroce perf write_bw --preset mine.toml -a --json before.json
  ferroce perf write_bw --preset mine.toml --set mac.rate_gbps=200 -a --json after.json
  ferroce report --out report --runs before.json after.json")]
pub struct Report {
    /// Folder for the files; created if it does not exist
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
    /// Only plots about this built-in card, without the validation. With --against: this card, a
    /// name or a file
    #[arg(long, value_name = "NAME")]
    preset: Vec<String>,
    /// The card with which that of --preset is compared, a name or a file
    #[arg(long, value_name = "NAME", requires = "preset",
          conflicts_with_all = ["plot", "perftest"])]
    against: Option<String>,
    /// Two files of --json: the first as points, the second as lines
    #[arg(long, value_names = ["A", "B"], num_args = 2,
          conflicts_with_all = ["preset", "plot", "perftest", "blind"])]
    runs: Vec<PathBuf>,
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
        if let Some(baseline) = &self.against {
            return self.against(baseline);
        }
        if let [a, b] = &self.runs[..] {
            return self.runs(a, b);
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

impl Report {
    /// Makes the page that compares one card with another.
    fn against(&self, baseline: &str) -> Result<(), String> {
        let [preset] = &self.preset[..] else {
            return Err("--against compares one --preset".to_owned());
        };
        let load = |name: &str| {
            let preset = Preset::load(name).map_err(|error| error.to_string());
            preset.map(|preset| (name.to_owned(), preset))
        };
        let cards = Cards {
            line: load(preset)?,
            baseline: load(baseline)?,
        };
        let bar = Bar::new("plots", report::AGAINST_COUNT);
        let report = report::make_against(&Harness, &cards, || bar.advance());
        bar.clear();
        write(&report, &self.out)
    }

    /// Makes the page of two runs.
    fn runs(&self, a: &Path, b: &Path) -> Result<(), String> {
        let read = |path: &Path| {
            let shown = path.display();
            let text =
                std::fs::read_to_string(path).map_err(|error| format!("{shown}: {error}"))?;
            // The plots have room for the file name only; equal file names need the path.
            let name = if a.file_name() == b.file_name() {
                path.as_os_str()
            } else {
                path.file_name().unwrap_or(path.as_os_str())
            };
            Run::parse(&name.to_string_lossy(), &text)
        };
        let runs = (read(a)?, read(b)?);
        let (first, second, out) = (a.display(), b.display(), self.out.display());
        let command = format!("ferroce report --runs {first} {second} --out {out}");
        write(
            &report::make_of_runs(&runs.0, &runs.1, &command)?,
            &self.out,
        )
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
