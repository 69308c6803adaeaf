//! The table while the measurements run, and the JSON file afterwards.

use std::io::{Write, stdout};
use std::path::Path;

use ferroce_lab::calibrate::Calibration;
use ferroce_perf::plan::Plan;
use ferroce_perf::sweep::{Job, Listener};
use ferroce_perf::table::{self, Limit};
use ferroce_perf::{PerfRow, csv};
use serde_json::{Value, json};

use super::piece::{Keep, Piece, uncalibrated};
use crate::cli::json::{JsonOption, write_file};
use crate::cli::progress::Bar;

/// Minimum width of a column of swept values.
const LEAST_WIDTH: usize = 6;

/// Prints rows as they arrive, and keeps them for JSON.
pub struct Output<'a> {
    jobs: &'a [Job],
    pieces: Vec<Piece>,
    keep: Keep,
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
        let keep = if json.is_given() {
            Keep::Json
        } else {
            Keep::Text
        };
        Ok(Self {
            has_table,
            ..Self::silent(jobs, json, keep)
        })
    }

    /// Creates the output of a shard with these jobs: it prints nothing.
    pub fn of_shard(jobs: &'a [Job], json: &'a JsonOption) -> Self {
        Self::silent(jobs, json, Keep::Json)
    }

    fn silent(jobs: &'a [Job], json: &'a JsonOption, keep: Keep) -> Self {
        Self {
            jobs,
            pieces: Vec::new(),
            keep,
            calibrations: Vec::new(),
            has_table: false,
            json,
            widths: widths(jobs),
            bar: Bar::new("sizes", jobs.len()),
        }
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
        let limits = self.pieces.iter().filter_map(|piece| piece.limit.clone());
        if let Some(line) = table::bottleneck(&Vec::<Limit>::from_iter(limits)) {
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
        let warning = first.and_then(|job| uncalibrated(&job.spec.preset, &self.pieces));
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

    /// Prints and keeps a row.
    fn add(&mut self, index: usize, piece: Piece) {
        let point = self.jobs[index].point.iter();
        let mut start = self.swept(point.map(|(_, value)| value.as_str()));
        for line in &piece.lines {
            self.print(&format!("{start}{line}"));
            start.clear();
        }
        self.pieces.push(piece);
    }

    /// Prints and keeps the rows of all shards.
    ///
    /// # Errors
    /// A result does not describe a row.
    pub fn add_results(&mut self, results: &[Value]) -> Result<(), String> {
        for (index, result) in results.iter().enumerate() {
            let piece = Piece::of(result);
            let piece = piece.ok_or_else(|| format!("piece {index} of the shards is no row"))?;
            self.add(index, piece);
        }
        Ok(())
    }

    /// Returns the results of a shard.
    pub fn into_results(self) -> Vec<Value> {
        self.pieces.into_iter().map(Piece::result).collect()
    }

    /// Writes the JSON file, if one is requested.
    pub fn write_json(&mut self, command: &str) -> Result<(), String> {
        // Rows are large: they are moved.
        let rows = self.pieces.iter_mut().map(|piece| piece.json.take());
        self.json.write(command, || {
            let mut result = json!({ "rows": rows.collect::<Value>() });
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
        let point = self.jobs.first().map_or(&[][..], |job| &job.point);
        let swept = point.iter().map(|(key, _)| key.as_str());
        let records = self.pieces.iter().map(|piece| &piece.csv[..]);
        let text = csv::text(swept, records).map_err(|error| error.to_string())?;
        write_file(path, &text)
    }
}

impl Listener for Output<'_> {
    fn progress(&mut self) {
        self.bar.advance();
    }

    fn row(&mut self, index: usize, row: PerfRow) {
        self.add(index, Piece::new(&self.jobs[index], &row, self.keep));
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
