//! A measured table next to the figures of the model.

use std::fmt::Write as _;

use ferroce_model::preset::Preset;
use ferroce_perf::Location;
use serde_json::{Value, json};

use super::experiment::{self, Simulator};
use super::size_class::{self, ClassErrors, SizeClass};
use super::{BandwidthRow, LatencyRow, Rows, Table, idle};

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
    /// Measured peak of a bandwidth table that has it: the best rate between two completions.
    pub peak: Option<f64>,
    /// The class of this size; none if there are too few sizes to determine it.
    pub class: Option<SizeClass>,
}

impl Line {
    /// Returns the relative error of the model.
    pub fn error_percent(&self) -> f64 {
        (self.model / self.measured - 1.0) * 100.0
    }

    /// Returns the bandwidths, for what the peak says about them.
    fn size(&self) -> idle::Size {
        idle::Size {
            bytes: self.bytes,
            average: self.measured,
            peak: self.peak,
            model: self.model,
        }
    }
}

/// A table and its lines.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Name of the table.
    pub table: String,
    /// Latencies rather than bandwidths.
    pub latency: bool,
    /// Preset as it was run.
    pub preset: Preset,
    /// By size.
    pub lines: Vec<Line>,
    /// Notes about table and run.
    pub notes: Vec<String>,
}

/// Runs the model as `table` was measured.
pub fn compare(
    simulator: &dyn Simulator,
    preset: &Preset,
    table: &Table,
) -> Result<Comparison, String> {
    let named = |error: String| format!("{}: {error}", table.name);
    let spec = experiment::repeat(table, preset).map_err(named)?;
    let model = experiment::run(simulator, &spec).map_err(named)?;
    let mut comparison = beside(&spec.preset, table, &model);
    if let Some(gbps) = experiment::link_that_differs(&table.setup, preset) {
        comparison.notes.push(format!(
            "run with a link of {gbps} Gb/s, as the table has it"
        ));
    }
    comparison.notes.extend(missing_memory(preset, table));
    Ok(comparison)
}

/// Returns a note if the buffers of the table lay in a memory that the preset does not have.
fn missing_memory(preset: &Preset, table: &Table) -> Option<String> {
    let memory = &table.setup.memory;
    let mut named = memory.local.iter().chain(&memory.remote);
    let topology = preset.topology.as_deref();
    let missing = named.find(|name| Location::new(topology, name, 1).is_err())?;
    Some(format!(
        "NOT COMPARABLE: the table has its buffers in {missing}, and {} has no such memory, so the \
         model used host memory; give a host profile whose topology has it (`ferroce topology \
         list`)",
        preset.name()
    ))
}

/// Compares figures that were obtained with `preset` with `table`.
pub fn beside(preset: &Preset, table: &Table, model: &Rows) -> Comparison {
    Comparison {
        table: table.name.clone(),
        latency: table.is_latency(),
        preset: preset.clone(),
        lines: lines(table, model),
        notes: table.warnings.clone(),
    }
}

/// Returns the sizes that both have, each with its class among the sizes of the table.
fn lines(table: &Table, model: &Rows) -> Vec<Line> {
    let mut lines = lines_without_class(&table.rows, model);
    let points = table.points();
    let classes = if table.is_latency() {
        size_class::of_latencies(&points)
    } else {
        size_class::of_bandwidths(&points)
    };
    for line in &mut lines {
        let mut classes = points.iter().zip(&classes);
        let own = classes.find(|((bytes, _), _)| *bytes == line.bytes);
        line.class = own.and_then(|(_, class)| *class);
    }
    lines
}

fn lines_without_class(measured: &Rows, model: &Rows) -> Vec<Line> {
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
        peak: measured.peak_gbps,
        class: None,
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
        peak: None,
        class: None,
    }
}

impl Comparison {
    /// Returns the median and the largest of the errors, without their sign.
    pub fn summary(&self) -> (f64, f64) {
        let errors: Vec<_> = self.lines.iter().map(|l| l.error_percent().abs()).collect();
        let largest = errors.iter().copied().max_by(f64::total_cmp);
        let median = size_class::median(errors);
        (median.unwrap_or(f64::NAN), largest.unwrap_or(f64::NAN))
    }

    /// Returns the errors by class of sizes.
    pub fn class_errors(&self) -> Vec<ClassErrors> {
        let sizes = self.lines.iter();
        let sizes = sizes.map(|line| (line.bytes, line.class, line.error_percent()));
        ClassErrors::of(&sizes.collect::<Vec<_>>())
    }

    /// Returns the comparison as text, for a terminal.
    pub fn text(&self) -> String {
        let (unit, second) = if self.latency {
            ("us", "p99, us")
        } else {
            ("Gb/s", "M messages/s")
        };
        let mut text = format!(
            "{} on {} ({})\n{:>9}  {:>10} {:>10} {:>8}  {:<7}   {second}: measured, model\n",
            self.table,
            self.preset.name(),
            hash(&self.preset),
            "bytes",
            "measured",
            "model",
            "error",
            "",
        );
        for line in &self.lines {
            let mut row = format!(
                "{:>9}  {:>10} {:>10} {:>+7.1}%  {:<7}",
                line.bytes,
                figure(line.measured),
                figure(line.model),
                line.error_percent(),
                line.class.map_or("", SizeClass::word),
            );
            if let Some((measured, model)) = line.second {
                let _ = write!(row, "   {:>9} {:>9}", figure(measured), figure(model));
            }
            let _ = writeln!(text, "{}", row.trim_end());
        }
        let (median, max) = self.summary();
        let _ = writeln!(
            text,
            "{unit}; error of {} sizes: median {median:.1} %, largest {max:.1} %",
            self.lines.len()
        );
        for errors in self.class_errors() {
            let _ = writeln!(text, "  {}", errors.text());
        }
        text.push_str(&idle::text(self.lines.iter().map(Line::size)));
        for note in &self.notes {
            let _ = writeln!(text, "note: {note}");
        }
        text
    }

    /// Returns the comparison as JSON.
    pub fn json(&self) -> Value {
        let (median, max) = self.summary();
        let [measured, model] = if self.latency {
            ["measured_us", "model_us"]
        } else {
            ["measured_gbps", "model_gbps"]
        };
        let lines = self.lines.iter().map(|line| {
            let mut size = json!({
                "bytes": line.bytes,
                measured: line.measured,
                model: line.model,
                "error_percent": line.error_percent(),
                "class": line.class.map(SizeClass::word),
            });
            if !self.latency {
                size["peak_gbps"] = json!(line.peak);
                size["idle_ns"] = json!(line.size().idle_ns());
            }
            size
        });
        let classes = self.class_errors();
        json!({
            "table": self.table,
            "preset": self.preset.name(),
            "preset_hash": hash(&self.preset),
            "error_median_percent": median,
            "error_max_percent": max,
            "classes": classes.iter().map(ClassErrors::json).collect::<Value>(),
            "sizes": lines.collect::<Value>(),
        })
    }
}

fn hash(preset: &Preset) -> String {
    format!("{:016x}", preset.hash())
}

/// Formats a number with four significant digits.
fn figure(value: f64) -> String {
    let digits = (3 - value.abs().max(1e-6).log10().floor() as i32).clamp(0, 4) as usize;
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::experiment::tests::Constant;
    use crate::reference::{builtin, table_csv};

    const MODEL: Constant = Constant {
        rate_mpps: 7.0,
        latency_us: 1.1,
    };

    fn compared(name: &str) -> Comparison {
        let preset = Preset::load("cx3-40g").expect("a built-in preset");
        let table = builtin::find(name).remove(0);
        compare(&MODEL, &preset, &table).expect("it can be run")
    }

    #[test]
    fn every_size_has_its_error() {
        let bandwidth = compared("cx3_qdr40_ib_write_bw");
        assert_eq!(bandwidth.lines.len(), 23);
        let line = &bandwidth.lines[5];
        let error = (7.0 / line.second.expect("rates").0 - 1.0) * 100.0;
        assert!((line.error_percent() - error).abs() < 1e-6, "{line:?}");
        let latency = compared("cx3_qdr40_ib_write_lat");
        assert!((latency.lines[0].error_percent() - 12.245).abs() < 0.01);
        let text = latency.text();
        assert!(text.contains("8388608") && text.contains("p99"), "{text}");
        assert!(text.contains("32 Gb/s"), "{text}");
        assert!(latency.json().to_string().contains("\"measured_us\":0.98"));
    }

    /// Goal: payload in a memory that the profile does not have is said, and not compared in
    /// silence. Method: tables with payload in GPU memory and on the other socket, on presets
    /// without and with them.
    #[test]
    fn a_missing_memory_is_named() {
        for (table, memory, with_it) in [
            (
                "cx5_edr100_ib_gpumem_send_lat",
                "gpu0",
                "cx5-100g@gpu-on-switch",
            ),
            (
                "hdr200_ib_remote_numa_write_bw",
                "dram1",
                "cx6-200g@epyc-hdr@epyc-2socket",
            ),
        ] {
            let plain = compared(table).text();
            assert!(plain.contains("NOT COMPARABLE"), "{plain}");
            assert!(plain.contains(memory), "{plain}");
            let preset = Preset::load(with_it).expect("built in");
            let table = builtin::find(table).remove(0);
            let comparison = compare(&MODEL, &preset, &table).expect("it can be run");
            assert!(!comparison.text().contains("NOT COMPARABLE"), "{with_it}");
        }
        let on_host = compared("cx3_qdr40_ib_write_bw").text();
        assert!(!on_host.contains("NOT COMPARABLE"), "{on_host}");
    }

    #[test]
    fn errors_stand_by_class_of_sizes() {
        let bandwidth = compared("cx3_qdr40_ib_write_bw");
        let classes: Vec<_> = bandwidth.class_errors().iter().map(|e| e.class).collect();
        assert_eq!(
            classes,
            [SizeClass::Small, SizeClass::Knee, SizeClass::Plateau]
        );
        let text = bandwidth.text();
        assert!(text.contains("\n  small    2 to 128: 7 sizes"), "{text}");
        assert!(text.contains("\n  plateau  2 KiB to 8 MiB"), "{text}");
        let json = bandwidth.json();
        assert_eq!(json["classes"][1]["class"], "knee", "{json}");
        assert_eq!(json["sizes"][0]["class"], "small", "{json}");
    }

    #[test]
    fn the_median_is_the_middle() {
        let mut comparison = compared("cx3_qdr40_ib_write_lat");
        let line = |model| Line {
            bytes: 1,
            measured: 100.0,
            model,
            second: None,
            peak: None,
            class: None,
        };
        comparison.lines = [90.0, 101.0, 103.0].map(line).to_vec();
        let (median, max) = comparison.summary();
        assert!((median - 3.0).abs() < 1e-9 && (max - 10.0).abs() < 1e-9);
        comparison.lines.push(line(105.0));
        assert!((comparison.summary().0 - 4.0).abs() < 1e-9);
    }

    /// Rows of a host with ConnectX-6 whose server ran on the socket without the card.
    const REMOTE_SOCKET: &str = "\
# command: ib_write_bw -a
# link_gbps: 200
# link_layer: InfiniBand HDR
# mtu: 4096
bytes,bw_peak,bw_avg,unit,msgrate_mpps
512,1007.82,1007.51,MiB/s,2.063390
2048,2286.24,1975.36,MiB/s,1.011383
4096,9513.14,2561.96,MiB/s,0.655862
16384,10586.62,5599.69,MiB/s,0.358380
65536,10765.91,8902.73,MiB/s,0.142444
131072,10771.95,9920.94,MiB/s,0.079368
8388608,10788.20,10787.86,MiB/s,0.001348
";

    fn remote_socket(rate_mpps: f64) -> Comparison {
        let model = Constant {
            rate_mpps,
            latency_us: 1.0,
        };
        let preset = Preset::load("cx6-200g").expect("a built-in preset");
        let table = table_csv::parse("remote_socket", REMOTE_SOCKET).expect("a table");
        compare(&model, &preset, &table[0]).expect("it can be run")
    }

    #[test]
    fn a_peak_far_above_the_average_is_a_gap_per_message() {
        let comparison = remote_socket(7.0);
        let idle = comparison.lines.iter();
        let idle: Vec<_> = idle
            .filter_map(|line| Some((line.bytes, line.size().idle_ns()?.round())))
            .collect();
        assert_eq!(
            idle,
            [
                (2048, 134.0),
                (4096, 1114.0),
                (16384, 1314.0),
                (65536, 1215.0)
            ]
        );
        let text = comparison.text();
        assert!(
            text.contains("idle between bursts: a gap per message"),
            "{text}"
        );
        assert!(text.contains("idle for  1114 ns of each message"), "{text}");
        let json = comparison.json();
        assert_eq!(json["sizes"][0]["idle_ns"], Value::Null);
        let idle = json["sizes"][2]["idle_ns"].as_f64().expect("a number");
        assert!((idle - 1114.0).abs() < 1.0, "{json}");
        let peak = json["sizes"][2]["peak_gbps"].as_f64().expect("a number");
        assert!((peak - 79.8).abs() < 0.1, "{json}");
    }

    #[test]
    fn nothing_is_said_where_the_model_is_not_faster() {
        let comparison = remote_socket(0.001);
        assert!(
            comparison
                .lines
                .iter()
                .all(|line| line.size().idle_ns().is_none())
        );
        assert!(!comparison.text().contains("idle"));
    }
}
