//! One card compared with another: the loops of perftest on both.

use ferroce_model::preset::Preset;
use ferroce_perf::{Operation, PerfSpec, Test};

use super::tables::{Column, axes, points};
use super::{series, stamp};
use crate::reference::experiment::{self, Simulator};
use crate::report::figure::{Axis, Compared, Figure, Kind};

/// The compared quantity.
#[derive(Clone, Copy, Debug)]
pub enum Recipe {
    /// A column of the tables of perftest, against message size.
    Sizes(Column),
    /// The rate of small WRITEs against the number of QPs.
    Qps,
}

/// All of them, in the order of the page.
pub const RECIPES: [Recipe; 4] = [
    Recipe::Sizes(Column::Bandwidth),
    Recipe::Sizes(Column::Rate),
    Recipe::Sizes(Column::Latency),
    Recipe::Qps,
];

const OPERATIONS: [(Operation, &str, &str); 3] = [
    (Operation::Write, "WRITE", "write"),
    (Operation::Read, "READ", "read"),
    (Operation::Send, "SEND", "send"),
];

/// Message sizes: dense where the curves bend.
const SIZES: [u32; 15] = [
    2,
    8,
    32,
    64,
    128,
    256,
    512,
    1 << 10,
    2 << 10,
    4 << 10,
    8 << 10,
    16 << 10,
    64 << 10,
    256 << 10,
    1 << 20,
];

/// Numbers of QPs, and the size of a message on them.
const QPS: [u32; 7] = [1, 4, 16, 64, 256, 1024, 4096];
const QPS_BYTES: u32 = 64;

/// Two cards, and how a command line names each.
#[derive(Debug)]
pub struct Cards {
    /// The card that is drawn as lines.
    pub line: (String, Preset),
    /// The baseline.
    pub baseline: (String, Preset),
}

impl Cards {
    /// Returns both, with the kind of their series.
    fn both(&self) -> [(Kind, &(String, Preset)); 2] {
        [(Kind::Model, &self.line), (Kind::Baseline, &self.baseline)]
    }
}

impl Recipe {
    /// Returns the name of its files.
    fn id(self) -> &'static str {
        match self {
            Self::Sizes(Column::Bandwidth) => "against-bandwidth",
            Self::Sizes(Column::Rate) => "against-rate",
            Self::Sizes(Column::Latency) => "against-latency",
            Self::Qps => "against-qps",
        }
    }

    /// Runs both cards.
    ///
    /// # Errors
    /// The plot, and the reason why a card does not run.
    pub fn make(self, simulator: &dyn Simulator, cards: &Cards) -> Result<Figure, String> {
        let figure = match self {
            Self::Sizes(column) => sizes(simulator, cards, column),
            Self::Qps => qps(simulator, cards),
        };
        let mut figure = figure.map_err(|error| format!("{}: {error}", self.id()))?;
        self.id().clone_into(&mut figure.id);
        figure.stamp = stamp(&[&cards.line.1, &cards.baseline.1]);
        figure.compared = Some(Compared {
            line: cards.line.1.name().to_owned(),
            baseline: cards.baseline.1.name().to_owned(),
        });
        Ok(figure)
    }
}

fn sizes(simulator: &dyn Simulator, cards: &Cards, column: Column) -> Result<Figure, String> {
    let (title, test, word) = match column {
        Column::Bandwidth => ("Bandwidth against message size", Test::Bandwidth, "bw"),
        Column::Rate => ("Message rate against message size", Test::Bandwidth, "bw"),
        Column::Latency => ("Latency against message size", Test::Latency, "lat"),
    };
    let mut figure = Figure {
        title: title.to_owned(),
        subtitle: "RC, 1 QP, perftest's defaults".to_owned(),
        ..axes(column)
    };
    let list = SIZES.map(|size| size.to_string()).join(",");
    for (color, (operation, label, verb)) in OPERATIONS.into_iter().enumerate() {
        for (kind, (name, preset)) in cards.both() {
            let mut spec = PerfSpec::new(preset.clone(), operation, test);
            spec.sizes = SIZES.to_vec();
            spec.all_sizes = true;
            let command = format!("ferroce perf {verb}_{word} --preset {name} --sweep size={list}");
            figure.commands.push(command);
            match experiment::run(simulator, &spec) {
                Ok(rows) => {
                    let points = points(&rows, column);
                    figure.series.push(series(label, color, kind, points));
                }
                // If a card does not support one operation, the others are still shown.
                Err(error) => {
                    let first = error.lines().next().unwrap_or_default();
                    figure.caption += &format!("{label} on {name}: {first}. ");
                }
            }
        }
    }
    if figure.series.is_empty() {
        Err(figure.caption)
    } else {
        Ok(figure)
    }
}

fn qps(simulator: &dyn Simulator, cards: &Cards) -> Result<Figure, String> {
    let mut figure = Figure {
        title: "Message rate against queue pairs".to_owned(),
        subtitle: format!("RC WRITE of {QPS_BYTES} B"),
        x: Axis::count("queue pairs"),
        ..axes(Column::Rate)
    };
    for (kind, (name, preset)) in cards.both() {
        let mut found = Vec::new();
        for qps in QPS {
            let mut spec = PerfSpec::new(preset.clone(), Operation::Write, Test::Bandwidth);
            spec.sizes = vec![QPS_BYTES];
            spec.qps = qps;
            // A line ends where the card has no more QPs.
            let Ok(rows) = experiment::run(simulator, &spec) else {
                break;
            };
            let rate = points(&rows, Column::Rate).first().map(|point| point.1);
            found.extend(rate.map(|rate| (f64::from(qps), rate)));
        }
        figure.series.push(series("WRITE", 0, kind, found));
        let list = QPS.map(|qps| qps.to_string()).join(",");
        let command =
            format!("ferroce perf write_bw --preset {name} -s {QPS_BYTES} --sweep qps={list}");
        figure.commands.push(command);
    }
    Ok(figure)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::experiment::tests::Constant;

    #[test]
    fn a_card_is_drawn_beside_another_with_the_commands() {
        let preset = |name| Preset::load(name).expect("built in");
        let cards = Cards {
            line: ("mine.toml".to_owned(), preset("fpga-100g")),
            baseline: ("cx5-100g".to_owned(), preset("cx5-100g")),
        };
        let model = Constant {
            rate_mpps: 7.0,
            latency_us: 1.6,
        };
        for recipe in RECIPES {
            let figure = recipe.make(&model, &cards).expect("both run");
            assert!(figure.has_baseline(), "{}", figure.id);
            // The same constants on both cards.
            let errors = figure.errors();
            assert!(!errors.is_empty(), "{}", figure.id);
            let mut points = errors.iter().flat_map(|(_, points)| points);
            assert!(points.all(|point| point.1.abs() < 1e-9), "{}", figure.id);
            for preset in ["mine.toml", "cx5-100g"] {
                let word = format!("--preset {preset} ");
                assert!(figure.commands.iter().any(|line| line.contains(&word)));
            }
        }
    }
}
