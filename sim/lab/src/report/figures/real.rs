//! The real perftest, unmodified, in simulated time, compared with measurements and with the
//! harness, which makes all other plots.

use ferroce_perf::{Iterations, Operation, PerfRow, PerfSpec, Test};

use super::tables::{Column, Curve, axes, curve, limit, points, table};
use super::{Recipe, load, series, stamp};
use crate::reference::experiment::{self, Simulator};
use crate::report::figure::{Figure, Kind};

/// Number of messages of each size; the harness uses no more either.
const ITERATIONS: u64 = 1000;

/// Contents of a plot.
#[derive(Clone, Copy, Debug)]
pub struct Content {
    title: &'static str,
    subtitle: &'static str,
    caption: &'static str,
    column: Column,
    /// The operation that is run; the tables may have another one.
    operation: Operation,
    curves: &'static [Curve],
}

const TEN_GIGABIT: &[Curve] = &[
    curve("CX-4 Lx", "cx4lx_10g_roce_send_bw", "cx4lx-10g"),
    curve("Ferroce 10G", "cx4lx_10g_roce_send_bw", "irdma-10g"),
];

const CX6: &[Curve] = &[curve(
    "CX-6",
    "cx6_hdr200_ib_write_lat",
    "cx6-200g@epyc-hdr",
)];

/// The plots.
pub(super) const RECIPES: &[Recipe] = &[
    Recipe {
        id: "real-10g-bandwidth",
        chapter: "The real perftest",
        cards: &["cx4lx-10g", "irdma-10g"],
        content: super::Content::Real(Content {
            title: "10 GbE: ib_write_bw on a ConnectX-4 Lx and on an FPGA card",
            subtitle: "unmodified perftest in simulated time; measured: ib_send_bw of a ConnectX-4 \
                Lx",
            caption: "The same binary on both cards. The dashed line is what headers leave of the \
                link.",
            column: Column::Bandwidth,
            operation: Operation::Write,
            curves: TEN_GIGABIT,
        }),
    },
    Recipe {
        id: "real-cx6-latency",
        chapter: "The real perftest",
        cards: &["cx6-200g"],
        content: super::Content::Real(Content {
            title: "ConnectX-6: ib_write_lat",
            subtitle: "unmodified perftest in simulated time; InfiniBand HDR through a switch, \
                EPYC host",
            caption: "ib_write_lat spins on memory without any call; the time of each look is the \
                model's.",
            column: Column::Latency,
            operation: Operation::Write,
            curves: CX6,
        }),
    },
];

/// Runs the real programs and the harness.
pub(super) fn make(
    harness: &dyn Simulator,
    real: &dyn Simulator,
    content: &Content,
) -> Result<Figure, String> {
    let mut figure = Figure {
        title: content.title.to_owned(),
        subtitle: content.subtitle.to_owned(),
        caption: content.caption.to_owned(),
        ..axes(content.column)
    };
    let mut presets = Vec::new();
    let mut differences = Vec::new();
    for (color, curve) in content.curves.iter().enumerate() {
        let table = table(curve)?;
        let mut spec = experiment::repeat(&table, &load(curve.preset)?)?.all_sizes();
        spec.operation = content.operation;
        spec.iterations = Iterations::Exactly(ITERATIONS);
        let rows = real.run(&spec)?.rows;
        differences.push(difference(&spec, harness, &rows)?);
        if color == 0 {
            let measured = points(&table.rows, content.column);
            figure
                .series
                .extend(limit(&table, &spec.preset, content.column));
            figure
                .series
                .push(series(curve.label, color, Kind::Measured, measured));
        }
        let model = points(&experiment::figures(spec.test, &rows), content.column);
        figure
            .series
            .push(series(curve.label, color, Kind::Model, model));
        presets.push(spec.preset);
    }
    let largest = differences.into_iter().fold(0.0, f64::max);
    figure.caption.push_str(&format!(
        " The harness behind the other plots differs from these figures by {largest:.2} % at most."
    ));
    figure.stamp = stamp(&presets.iter().collect::<Vec<_>>());
    Ok(figure)
}

/// Returns the largest difference of the harness, in percent.
fn difference(spec: &PerfSpec, harness: &dyn Simulator, real: &[PerfRow]) -> Result<f64, String> {
    let model = harness.run(spec)?.rows;
    let figure = |row: &PerfRow| match spec.test {
        Test::Bandwidth => row.bandwidth.as_ref().map(|row| row.average_mib_per_s),
        Test::Latency => row.latency.as_ref().map(|row| row.typical_us),
    };
    let pairs = real.iter().zip(&model);
    let pairs = pairs.filter_map(|(real, model)| figure(real).zip(figure(model)));
    Ok(pairs
        .map(|(real, model)| (real / model - 1.0).abs() * 100.0)
        .fold(0.0, f64::max))
}
