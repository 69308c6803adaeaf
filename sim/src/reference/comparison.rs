//! A measured table beside what the model says.

use std::fmt::Write as _;

use super::experiment::{Experiment, Identity, Simulator, not_covered};
use super::{BandwidthRow, LatencyRow, Rows, Table};
use crate::report::json::Json;

/// One message size.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Message size.
    pub bytes: u64,
    /// Gb/s or us.
    pub measured: f64,
    /// Gb/s or us.
    pub model: f64,
    /// Message rates of a bandwidth table, or 99th percentiles of a latency table that has them.
    pub second: Option<(f64, f64)>,
}

impl Line {
    /// By how much the model is above the measurement.
    pub fn error_percent(&self) -> f64 {
        (self.model / self.measured - 1.0) * 100.0
    }
}

/// A table and its lines.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Name of the table.
    pub table: String,
    /// Latencies rather than bandwidths.
    pub latency: bool,
    /// Preset, hash and seed.
    pub identity: Identity,
    /// By size.
    pub lines: Vec<Line>,
    /// What is doubtful in the table.
    pub warnings: Vec<String>,
}

/// Runs the model as `table` was measured.
pub fn compare(
    simulator: &dyn Simulator,
    preset: &str,
    table: &Table,
) -> Result<Comparison, String> {
    if let Some(reason) = not_covered(&table.setup) {
        return Err(format!("{}: {reason}", table.name));
    }
    let model = simulator.run(&Experiment::repeat(table, preset))?;
    Ok(Comparison {
        table: table.name.clone(),
        latency: table.is_latency(),
        identity: simulator.identify(preset)?,
        lines: lines(&table.rows, &model),
        warnings: table.warnings.clone(),
    })
}

/// Sizes that both have.
fn lines(measured: &Rows, model: &Rows) -> Vec<Line> {
    match (measured, model) {
        (Rows::Bandwidth(measured), Rows::Bandwidth(model)) => pair(measured, model, |r| r.bytes)
            .map(|(measured, model)| bandwidth_line(measured, model))
            .collect(),
        (Rows::Latency(measured), Rows::Latency(model)) => pair(measured, model, |r| r.bytes)
            .map(|(measured, model)| latency_line(measured, model))
            .collect(),
        _ => Vec::new(),
    }
}

fn pair<'a, R>(
    measured: &'a [R],
    model: &'a [R],
    bytes: impl Fn(&R) -> u64 + 'a,
) -> impl Iterator<Item = (&'a R, &'a R)> {
    measured.iter().filter_map(move |row| {
        let same = model.iter().find(|model| bytes(model) == bytes(row));
        same.map(|model| (row, model))
    })
}

fn bandwidth_line(measured: &BandwidthRow, model: &BandwidthRow) -> Line {
    Line {
        bytes: measured.bytes,
        // The rate has more digits than the bandwidth of small messages.
        measured: measured.message_rate_mpps * measured.bytes as f64 * 8e-3,
        model: model.average_gbps,
        second: Some((measured.message_rate_mpps, model.message_rate_mpps)),
    }
}

fn latency_line(measured: &LatencyRow, model: &LatencyRow) -> Line {
    // A table with a mean only is compared with the mean.
    let model_us = match measured.typical_us {
        Some(_) => model.value_us(),
        None => model.average_us.unwrap_or(model.value_us()),
    };
    Line {
        bytes: measured.bytes,
        measured: measured.value_us(),
        model: model_us,
        second: measured.p99_us.zip(model.p99_us),
    }
}

impl Comparison {
    /// Median and largest of the errors, without their sign.
    pub fn summary(&self) -> (f64, f64) {
        let mut errors: Vec<_> = self.lines.iter().map(|l| l.error_percent().abs()).collect();
        errors.sort_by(f64::total_cmp);
        let middle = errors.len() / 2;
        let median = match errors.len() {
            0 => f64::NAN,
            count if count % 2 == 1 => errors[middle],
            _ => (errors[middle - 1] + errors[middle]) / 2.0,
        };
        (median, errors.last().copied().unwrap_or(f64::NAN))
    }

    /// For a terminal.
    pub fn text(&self) -> String {
        let (unit, second) = if self.latency {
            ("us", "p99, us")
        } else {
            ("Gb/s", "M messages/s")
        };
        let mut text = format!(
            "{} on {} ({})\n{:>9}  {:>10} {:>10} {:>8}   {second}: measured, model\n",
            self.table,
            self.identity.preset,
            self.identity.hash,
            "bytes",
            "measured",
            "model",
            "error",
        );
        for line in &self.lines {
            let _ = write!(
                text,
                "{:>9}  {:>10} {:>10} {:>+7.1}%",
                line.bytes,
                figure(line.measured),
                figure(line.model),
                line.error_percent(),
            );
            let _ = match line.second {
                Some((measured, model)) => {
                    writeln!(text, "   {:>9} {:>9}", figure(measured), figure(model))
                }
                None => writeln!(text),
            };
        }
        let (median, max) = self.summary();
        let _ = writeln!(
            text,
            "{unit}; error of {} sizes: median {median:.1} %, largest {max:.1} %",
            self.lines.len()
        );
        for warning in &self.warnings {
            let _ = writeln!(text, "note: {warning}");
        }
        text
    }

    /// For programs.
    pub fn json(&self) -> Json {
        let (median, max) = self.summary();
        let [measured, model] = if self.latency {
            ["measured_us", "model_us"]
        } else {
            ["measured_gbps", "model_gbps"]
        };
        let lines = self.lines.iter().map(|line| {
            Json::Object(vec![
                ("bytes", (line.bytes as f64).into()),
                (measured, line.measured.into()),
                (model, line.model.into()),
                ("error_percent", line.error_percent().into()),
            ])
        });
        Json::Object(vec![
            ("table", self.table.as_str().into()),
            ("preset", self.identity.preset.as_str().into()),
            ("preset_hash", self.identity.hash.as_str().into()),
            ("error_median_percent", median.into()),
            ("error_max_percent", max.into()),
            ("sizes", Json::list(lines)),
        ])
    }
}

/// Four digits that count.
fn figure(value: f64) -> String {
    let digits = (3 - value.abs().max(1e-6).log10().floor() as i32).clamp(0, 4) as usize;
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::{Setup, Verb, builtin};

    /// A card that is a tenth faster than anything measured.
    struct Tenth(Table);

    impl Simulator for Tenth {
        fn run(&self, experiment: &Experiment) -> Result<Rows, String> {
            assert_eq!(experiment.sizes, self.0.sizes());
            let mut rows = self.0.rows.clone();
            match &mut rows {
                Rows::Bandwidth(rows) => rows.iter_mut().for_each(|row| {
                    row.average_gbps = row.message_rate_mpps * row.bytes as f64 * 8e-3 * 1.1;
                }),
                Rows::Latency(rows) => rows.iter_mut().for_each(|row| {
                    row.typical_us = row.typical_us.map(|us| us / 1.1);
                }),
            }
            Ok(rows)
        }

        fn identify(&self, preset: &str) -> Result<Identity, String> {
            Ok(Identity {
                preset: preset.to_owned(),
                ..Identity::default()
            })
        }
    }

    fn compared(name: &str) -> Comparison {
        let table = builtin::find(name).remove(0);
        compare(&Tenth(table.clone()), "cx5-100g", &table).expect("it can be run")
    }

    #[test]
    fn every_size_has_its_error() {
        let bandwidth = compared("cx3_qdr40_ib_write_bw");
        assert_eq!(bandwidth.lines.len(), 23);
        let (median, max) = bandwidth.summary();
        assert!(
            (median - 10.0).abs() < 1e-6 && (max - 10.0).abs() < 1e-6,
            "{median} {max}"
        );
        let latency = compared("cx3_qdr40_ib_write_lat");
        let text = latency.text();
        assert!(text.contains("median 9.1 %, largest 9.1 %"), "{text}");
        assert!(text.contains("8388608") && text.contains("p99"), "{text}");
        assert!(latency.json().text().contains("\"measured_us\": 0.98"));
    }

    #[test]
    fn what_the_model_has_not_is_refused_with_the_reason() {
        let mut table = builtin::find("aws_efa_srd_send_bw_partial").remove(0);
        let error = compare(&Tenth(table.clone()), "cx5-100g", &table).expect_err("SRD");
        assert!(error.contains("RC, UC and UD"), "{error}");
        table.setup = Setup::new(Verb::Write);
        assert!(compare(&Tenth(table.clone()), "cx5-100g", &table).is_ok());
    }
}
