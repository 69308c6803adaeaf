//! A line for each row: swept values, figures, and what limits them.

use crate::json::Measured;
use crate::result::PerfRow;
use crate::utilisation::{Bottleneck, Utilisation};

const FIGURES: [&str; 13] = [
    "bytes",
    "iterations",
    "peak_mib_per_s",
    "average_mib_per_s",
    "message_rate_mpps",
    "min_us",
    "max_us",
    "typical_us",
    "average_us",
    "stdev_us",
    "p99_us",
    "p999_us",
    "simulated_us",
];
const LIMITS: [&str; 5] = [
    "bottleneck",
    "bottleneck_kind",
    "bottleneck_host",
    "bottleneck_unit",
    "bottleneck_share",
];
/// Picoseconds of a microsecond.
const PS_PER_US: f64 = 1e6;

/// Returns the lines of a run as text: the names of the swept parameters, and a [`record`] for each
/// row.
///
/// # Errors
/// The errors of the CSV writer; it writes to memory only.
pub fn text<'a>(
    swept: impl Iterator<Item = &'a str>,
    records: impl Iterator<Item = &'a [String]>,
) -> Result<String, ::csv::Error> {
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    writer.write_record(swept.chain(FIGURES).chain(LIMITS))?;
    for record in records {
        writer.write_record(record)?;
    }
    let bytes = writer.into_inner().map_err(|error| error.into_error())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the cells of a row: values of the swept parameters, figures, limits.
pub fn record(measured: &Measured<'_>) -> Vec<String> {
    let values = measured.point.iter().map(|(_, value)| value.clone());
    let limits = limits(measured.row.utilisation.as_ref());
    let cells = values.chain(figures(measured.row)).chain(limits);
    cells.collect()
}

fn figures(row: &PerfRow) -> [String; FIGURES.len()] {
    let number = |figure: Option<f64>| {
        let figure = figure.filter(|it| it.is_finite());
        figure.map_or(String::new(), |it| it.to_string())
    };
    let bandwidth = row.bandwidth.as_ref();
    let latency = row.latency.as_ref();
    [
        row.size.to_string(),
        row.iterations.to_string(),
        number(bandwidth.map(|it| it.peak_mib_per_s)),
        number(bandwidth.map(|it| it.average_mib_per_s)),
        number(bandwidth.map(|it| it.message_rate_mpps)),
        number(latency.map(|it| it.min_us)),
        number(latency.map(|it| it.max_us)),
        number(latency.map(|it| it.typical_us)),
        number(latency.map(|it| it.average_us)),
        number(latency.map(|it| it.stdev_us)),
        number(latency.map(|it| it.p99_us)),
        number(latency.map(|it| it.p999_us)),
        (row.simulated_ps as f64 / PS_PER_US).to_string(),
    ]
}

fn limits(utilisation: Option<&Utilisation>) -> [String; LIMITS.len()] {
    let Some(utilisation) = utilisation else {
        return Default::default();
    };
    let bottleneck = &utilisation.bottleneck;
    let part = bottleneck.busiest();
    let (name, kind) = match bottleneck {
        Bottleneck::Part(part) => (part.name, part.kind.name()),
        Bottleneck::Latency { .. } => ("latency", "latency"),
    };
    [
        name.to_owned(),
        kind.to_owned(),
        part.host.to_string(),
        part.unit.map_or(String::new(), |unit| unit.to_string()),
        part.share.to_string(),
    ]
}
