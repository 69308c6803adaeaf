//! The table while the measurements run, and the JSON file afterwards.

use std::io::{Write, stdout};
use std::path::Path;

use ferroce_lab::calibrate::Calibration;
use ferroce_perf::PerfRow;
use ferroce_perf::csv;
use ferroce_perf::json::{self, Measured};
use ferroce_perf::plan::Plan;
use ferroce_perf::sweep::{Job, Listener};
use ferroce_perf::table;
use serde_json::json;

use super::calibration::uncalibrated;
use crate::cli::fabric;
use crate::cli::json::{JsonOption, write_file};
use crate::cli::progress::Bar;

/// Minimum width of a column of swept values.
const LEAST_WIDTH: usize = 6;

/// Prints rows as they arrive, and keeps them for JSON.
pub struct Output<'a> {
    jobs: &'a [Job],
    rows: Vec<PerfRow>,
    calibrations: Vec<Calibration>,
    json: &'a JsonOption,
    has_table: bool,
    /// Width of each column of swept values.
    widths: Vec<usize>,
    bar: Bar,
}

impl<'a> Output<'a> {
    /// Creates the output for `jobs`, which is not empty.
    pub fn new(jobs: &'a [Job], json: &'a JsonOption) -> Result<Self, String> {
        let has_table = json.prepare()?;
        Ok(Self {
            jobs,
            rows: Vec::new(),
            calibrations: Vec::new(),
            has_table,
            json,
            widths: widths(jobs),
            bar: Bar::new("sizes", jobs.len()),
        })
    }

    /// Prints the header.
    pub fn begin(&self) {
        let Some(job) = self.jobs.first() else {
            return;
        };
        if let Ok(plan) = Plan::new(&job.spec, job.size) {
            self.begin_with(table::header(&job.spec, &plan).trim_end());
        }
    }

    /// Prints this header, as [`Output::begin`] prints perftest's.
    pub fn begin_with(&self, header: &str) {
        let Some(job) = self.jobs.first() else {
            return;
        };
        self.print(header);
        let keys = job.point.iter().map(|(key, _)| key.as_str());
        let columns = table::columns(job.spec.test);
        self.print(&format!("{}{columns}", self.swept(keys)));
    }

    /// Keeps the results of the calibration, for the footer and for JSON.
    pub fn calibrated(&mut self, calibrations: Vec<Calibration>) {
        self.calibrations = calibrations;
    }

    /// Prints the footer.
    pub fn end(&self) {
        self.bar.clear();
        self.print(table::LINE);
        let rows = self.jobs.iter().zip(&self.rows);
        let labelled: Vec<_> = rows.map(|(job, row)| (label(job), row)).collect();
        if let Some(line) = table::bottleneck(&labelled) {
            self.print(&line);
            self.print_host();
            self.print(table::LINE);
        }
    }

    /// Prints the calibrations of hosts, or a warning.
    fn print_host(&self) {
        for calibration in &self.calibrations {
            self.print(&format!(" {}", calibration.text().replace('\n', "\n ")));
        }
        let first = self.jobs.first();
        let warning = first.and_then(|job| uncalibrated(&job.spec.preset, &self.rows));
        if let Some(warning) = warning {
            self.print(&format!(" {warning}"));
        }
    }

    /// Returns true if a table is printed.
    pub fn has_table(&self) -> bool {
        self.has_table
    }

    /// Returns the columns of swept values.
    fn swept<'t>(&self, values: impl Iterator<Item = &'t str>) -> String {
        let columns = values.zip(&self.widths);
        columns
            .map(|(value, width)| format!(" {value:<width$}"))
            .collect()
    }

    /// Prints a line of the table without corrupting the progress bar.
    pub fn print(&self, line: &str) {
        if self.has_table {
            self.bar.suspend(|| {
                // A closed standard output ends the printing.
                let _ = writeln!(stdout(), "{line}").and_then(|()| stdout().flush());
            });
        }
    }

    /// Returns the rows with their specifications.
    fn measured(&self) -> Vec<Measured<'_>> {
        let pairs = self.jobs.iter().zip(&self.rows);
        let rows = pairs.map(|(job, row)| Measured {
            spec: &job.spec,
            point: &job.point,
            row,
        });
        rows.collect()
    }

    /// Writes the JSON file, if one is requested.
    pub fn write_json(&self, command: &str) -> Result<(), String> {
        self.json.write(command, || {
            let mut result = json!({ "rows": json::rows(&self.measured()) });
            if !self.calibrations.is_empty() {
                let all = self.calibrations.iter().map(Calibration::json);
                result["calibrations"] = all.collect();
            }
            result
        })
    }

    /// Writes the CSV file, if one is requested.
    pub fn write_csv(&self, path: Option<&Path>) -> Result<(), String> {
        let Some(path) = path else {
            return Ok(());
        };
        let text = csv::text(&self.measured()).map_err(|error| error.to_string())?;
        write_file(path, &text)
    }
}

impl Listener for Output<'_> {
    fn progress(&mut self) {
        self.bar.advance();
    }

    fn row(&mut self, index: usize, row: PerfRow) {
        let values = self.jobs[index]
            .point
            .iter()
            .map(|(_, value)| value.as_str());
        self.print(&format!("{}{}", self.swept(values), table::row(&row)));
        if let Some(traffic) = &row.traffic {
            self.print(&fabric::text(traffic));
        }
        self.rows.push(row);
    }
}

/// Returns the label of a job's row: its swept values, or its size.
fn label(job: &Job) -> String {
    let values = job
        .point
        .iter()
        .map(|(key, value)| format!("{key}={value}"));
    if job.point.is_empty() {
        format!("{} B", job.size)
    } else {
        values.collect::<Vec<_>>().join(" ")
    }
}

fn widths(jobs: &[Job]) -> Vec<usize> {
    let columns = jobs.first().map_or(0, |job| job.point.len());
    let width = |column: usize| {
        let texts = jobs.iter().map(|job| &job.point[column]);
        let longest = texts.map(|(key, value)| key.len().max(value.len())).max();
        longest.unwrap_or_default().max(LEAST_WIDTH)
    };
    (0..columns).map(width).collect()
}
