//! Two runs of `ferroce perf` or `ferroce perftest`, from their JSON.

use std::collections::BTreeMap;

use serde_json::Value;

use super::series;
use super::tables::{Column, axes};
use crate::report::figure::{Axis, Compared, Figure, Kind, Scale, Unit};

/// Differences of parameters that a caption names; more are counted.
const NAMED_DIFFERENCES: usize = 8;

/// A document, and its name.
#[derive(Debug)]
pub struct Run {
    /// The name of the file.
    pub name: String,
    rows: Vec<Row>,
}

/// A row: one point of a plot.
#[derive(Debug)]
struct Row {
    is_latency: bool,
    /// Operation and swept values without the one on the x axis; the label of a series.
    label: String,
    size: f64,
    point: Vec<(String, String)>,
    gbps: Option<f64>,
    mpps: Option<f64>,
    typical_us: Option<f64>,
    /// All parameters of preset and specification.
    parameters: BTreeMap<String, String>,
}

impl Run {
    /// Parses the document that `--json` wrote.
    ///
    /// # Errors
    /// The missing part.
    pub fn parse(name: &str, text: &str) -> Result<Self, String> {
        let document: Value =
            serde_json::from_str(text).map_err(|error| format!("{name}: {error}"))?;
        let rows = document["rows"].as_array();
        let rows = rows.ok_or_else(|| {
            format!(
                "{name}: no rows; it is not what `ferroce perf --json` or `perftest --json` writes"
            )
        })?;
        let rows: Option<Vec<Row>> = rows.iter().map(Row::parse).collect();
        let rows = rows.ok_or_else(|| format!("{name}: a row has no specification"))?;
        Ok(Self {
            name: name.to_owned(),
            rows,
        })
    }
}

impl Row {
    fn parse(row: &Value) -> Option<Self> {
        let specification = row["specification"].as_object()?;
        let (bandwidth, latency) = (&row["result"]["bandwidth"], &row["result"]["latency"]);
        let point = row["point"].as_object().into_iter().flatten();
        let point =
            point.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
        let preset = row["preset"]["parameters"].as_object();
        let all = preset.into_iter().flatten().chain(specification);
        Some(Self {
            is_latency: specification["test"].as_str()? == "latency",
            label: specification["operation"].as_str()?.to_owned(),
            size: specification["size"].as_f64()?,
            point: point.collect(),
            gbps: bandwidth["average_gbps"].as_f64(),
            mpps: bandwidth["message_rate_mpps"].as_f64(),
            typical_us: latency["typical_us"].as_f64(),
            parameters: all
                .map(|(key, value)| (key.clone(), value.to_string()))
                .collect(),
        })
    }

    fn value(&self, column: Column) -> Option<f64> {
        match column {
            Column::Bandwidth => self.gbps,
            Column::Rate => self.mpps,
            Column::Latency => self.typical_us,
        }
    }

    /// Returns the x value: the size, or the value of a swept key.
    fn x(&self, key: Option<&str>) -> Option<f64> {
        match key {
            None => Some(self.size),
            Some(key) => self.swept(key)?.parse().ok(),
        }
    }

    fn swept(&self, key: &str) -> Option<&str> {
        let found = self.point.iter().find(|(own, _)| own == key);
        found.map(|(_, value)| value.as_str())
    }

    /// Returns the name of the series: the operation, and the swept values that are not on the
    /// axis.
    fn series_name(&self, key: Option<&str>) -> String {
        let mut name = self.label.clone();
        let others = self
            .point
            .iter()
            .filter(|(own, _)| Some(own.as_str()) != key);
        for (own, value) in others.filter(|(own, _)| own != "size") {
            name += &format!(", {own} {value}");
        }
        name
    }
}

/// Returns the plots of two runs: B as lines, A as points.
///
/// # Errors
/// They have nothing in common.
pub fn make(a: &Run, b: &Run) -> Result<Vec<Figure>, String> {
    let key = swept_key(a);
    let mut figures = Vec::new();
    for (column, title, id) in [
        (Column::Bandwidth, "Bandwidth", "runs-bandwidth"),
        (Column::Rate, "Message rate", "runs-rate"),
        (Column::Latency, "Latency", "runs-latency"),
    ] {
        let figure = Figure {
            id: id.to_owned(),
            title: format!("{title}: {} beside {}", b.name, a.name),
            subtitle: "Points are the first run, lines the second".to_owned(),
            caption: caption(a, b),
            compared: Some(Compared {
                line: b.name.clone(),
                baseline: a.name.clone(),
            }),
            ..axes(column)
        };
        let figure = with_series(
            figure,
            [(Kind::Baseline, a), (Kind::Model, b)],
            column,
            &key,
        );
        // If one of the runs has no latency, there is no latency plot.
        if !figure.errors().is_empty() {
            figures.push(figure);
        }
    }
    if figures.is_empty() {
        Err(format!("{} and {} have no point in common", a.name, b.name))
    } else {
        Ok(figures)
    }
}

/// Returns the key whose values are on the x axis; `None`: the size.
fn swept_key(run: &Run) -> Option<String> {
    let first = run.rows.first()?;
    let has_sizes = run.rows.iter().any(|row| row.size != first.size);
    if has_sizes {
        return None;
    }
    let differs = |key: &str| {
        run.rows
            .iter()
            .any(|row| row.swept(key) != first.swept(key))
    };
    let is_number = |key: &str| run.rows.iter().all(|row| row.x(Some(key)).is_some());
    let keys = first.point.iter().map(|(key, _)| key);
    let mut keys = keys.filter(|key| differs(key) && is_number(key));
    keys.next().cloned()
}

fn with_series(
    mut figure: Figure,
    runs: [(Kind, &Run); 2],
    column: Column,
    key: &Option<String>,
) -> Figure {
    let key = key.as_deref();
    if let Some(key) = key {
        figure.x = Axis::new(key, Scale::Log, Unit::Number);
    }
    let is_latency = column == Column::Latency;
    let mut names: Vec<String> = Vec::new();
    for (kind, run) in runs {
        let mut lines: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
        for row in run.rows.iter().filter(|row| row.is_latency == is_latency) {
            if let (Some(x), Some(y)) = (row.x(key), row.value(column)) {
                lines.entry(row.series_name(key)).or_default().push((x, y));
            }
        }
        for (name, mut points) in lines {
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            let known = names.iter().position(|own| *own == name);
            let color = known.unwrap_or_else(|| {
                names.push(name.clone());
                names.len() - 1
            });
            figure.series.push(series(&name, color, kind, points));
        }
    }
    figure
}

/// Returns the parameters in which the two runs differ.
fn caption(a: &Run, b: &Run) -> String {
    let (Some(first), Some(second)) = (a.rows.first(), b.rows.first()) else {
        return String::new();
    };
    let differences = second.parameters.iter().filter_map(|(key, value)| {
        let before = first.parameters.get(key)?;
        (before != value).then(|| format!("{key} {before} → {value}"))
    });
    let differences: Vec<_> = differences.collect();
    match differences.len() {
        0 => "Preset and specification are the same.".to_owned(),
        count if count <= NAMED_DIFFERENCES => format!("Changed: {}.", differences.join(", ")),
        count => format!(
            "Changed: {}, and {} more.",
            differences[..NAMED_DIFFERENCES].join(", "),
            count - NAMED_DIFFERENCES
        ),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document(rate: f64, values: &[(&str, f64)]) -> String {
        let rows = values.iter().map(|(qps, gbps)| {
            json!({
                "point": { "qps": qps },
                "specification": { "operation": "write", "test": "bandwidth", "size": 64 },
                "preset": { "parameters": { "mac.rate_gbps": rate } },
                "result": {
                    "bandwidth": { "average_gbps": gbps, "message_rate_mpps": gbps / 0.512 },
                    "latency": null,
                },
            })
        });
        json!({ "rows": rows.collect::<Value>() }).to_string()
    }

    fn run(name: &str, rate: f64, values: &[(&str, f64)]) -> Run {
        Run::parse(name, &document(rate, values)).expect("rows")
    }

    #[test]
    fn two_runs_are_drawn_beside_each_other_with_what_was_changed() {
        let a = run("a.json", 100.0, &[("1", 10.0), ("16", 20.0)]);
        let b = run("b.json", 200.0, &[("16", 30.0), ("1", 15.0)]);
        let figures = make(&a, &b).expect("points in common");
        let ids: Vec<_> = figures.iter().map(|figure| figure.id.as_str()).collect();
        assert_eq!(ids, ["runs-bandwidth", "runs-rate"]);
        assert_eq!(figures[0].caption, "Changed: mac.rate_gbps 100.0 → 200.0.");
        assert_eq!(figures[0].x.label, "qps");
        let errors = figures[0].errors();
        assert_eq!(errors[0].1.len(), 2);
        assert!(
            errors[0]
                .1
                .iter()
                .all(|point| (point.1 - 50.0).abs() < 1e-9)
        );
        assert_eq!(figures[0].kind_name(Kind::Model), "b.json");
    }

    #[test]
    fn what_is_not_a_run_is_refused() {
        let refused = Run::parse("x.json", "{}").expect_err("no rows");
        assert!(refused.contains("x.json: no rows"), "{refused}");
        assert!(Run::parse("x.json", "{").is_err());
        let (a, b) = (run("a", 1.0, &[("1", 1.0)]), run("b", 1.0, &[("2", 1.0)]));
        let refused = make(&a, &b).expect_err("other points");
        assert!(refused.contains("no point in common"), "{refused}");
    }
}
