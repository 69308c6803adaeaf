//! Measured tables of a folder that is not part of the project, and the model.

use super::tables::{Column, axes, limit, points, sizes};
use super::{series, stamp};
use crate::reference::experiment::{self, Simulator};
use crate::report::figure::{Figure, Kind};
use crate::validate::blind::index::MeasuredTable;

/// Runs the model as `table` was measured; `id` names the files of the plot.
pub fn make(
    simulator: &dyn Simulator,
    id: String,
    measured: &MeasuredTable,
) -> Result<Figure, String> {
    let table = &measured.table;
    let column = if table.is_latency() {
        Column::Latency
    } else {
        Column::Bandwidth
    };
    let spec = experiment::repeat(table, &measured.preset)?;
    let model = experiment::run(simulator, &spec)?;
    let label = table.setup.verb.to_string();
    let mut series = vec![
        series(&label, 0, Kind::Measured, points(&table.rows, column)),
        series(&label, 0, Kind::Model, points(&model, column)),
    ];
    series.extend(limit(table, &spec.preset, column));
    let service = spec.service.name();
    let nic = table.note("nic").map(|nic| format!("Measured with {nic}"));
    let notes = nic.into_iter().chain(table.warnings.iter().cloned());
    let notes: Vec<_> = notes.map(|note| format!("{note}.")).collect();
    let qps = match spec.qps {
        1 => "1 QP".to_owned(),
        qps => format!("{qps} QPs"),
    };
    Ok(Figure {
        id,
        title: table.name.clone(),
        subtitle: format!("{label}, {service}, {qps}, on {}", spec.preset.name()),
        caption: notes.join(" "),
        series,
        sizes: sizes(column),
        stamp: stamp(&[&spec.preset]),
        ..axes(column)
    })
}
