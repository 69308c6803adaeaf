//! Contents of a plot, before it is drawn.

use ferroce_perf::number_text::short;

use crate::reference::size_class::{self, ClassErrors};

/// Which kind of line or point a series is drawn as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Points: measured values.
    Measured,
    /// Points: the baseline of the line, another card or another run.
    Baseline,
    /// A line: values of the model.
    Model,
    /// A dashed line: a formula, such as the goodput that headers leave of a link.
    Limit,
}

impl Kind {
    /// Returns true if it is drawn as points, and others are compared with it.
    pub fn is_points(self) -> bool {
        matches!(self, Self::Measured | Self::Baseline)
    }

    /// Returns the word for the legend and the files of figures.
    pub fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Baseline => "baseline",
            Self::Model => "model",
            Self::Limit => "formula",
        }
    }
}

/// Points that belong together.
#[derive(Clone, Debug)]
pub struct Series {
    /// Its label in the plot; series of one colour share it.
    pub label: String,
    /// Index into the palette: measured points and the model's line for the same thing share it.
    pub color: usize,
    /// How it is drawn.
    pub kind: Kind,
    /// x and y, ascending in x.
    pub points: Vec<(f64, f64)>,
}

/// Scale of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Equal distances are equal differences; starts at 0.
    Linear,
    /// Equal distances are equal ratios.
    Log,
}

/// Kind of the numbers of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Sizes: 64, 1 KiB, 1 MiB.
    Bytes,
    /// Powers of two without a unit: 1, 16, 1024, 16384.
    Count,
    /// Decimal numbers.
    Number,
    /// Fractions below one: 1e-6.
    Probability,
}

/// Kind of the measured points, which decides whether their errors have classes of message sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sizes {
    /// Bandwidth against message size.
    Bandwidth,
    /// Latency against message size.
    Latency,
    /// Anything else, or points that another figure has, too.
    #[default]
    None,
}

/// One axis.
#[derive(Clone, Debug)]
pub struct Axis {
    /// What is shown, with its unit.
    pub label: String,
    /// Logarithmic or not.
    pub scale: Scale,
    /// How ticks are written.
    pub unit: Unit,
}

impl Axis {
    /// Returns an axis of message sizes.
    pub fn bytes(label: &str) -> Self {
        Self::new(label, Scale::Log, Unit::Bytes)
    }

    /// Returns a logarithmic axis of counts.
    pub fn count(label: &str) -> Self {
        Self::new(label, Scale::Log, Unit::Count)
    }

    /// Returns a logarithmic axis of decimal numbers.
    pub fn log(label: &str) -> Self {
        Self::new(label, Scale::Log, Unit::Number)
    }

    /// Returns a linear axis of decimal numbers.
    pub fn linear(label: &str) -> Self {
        Self::new(label, Scale::Linear, Unit::Number)
    }

    /// Returns an axis.
    pub fn new(label: &str, scale: Scale, unit: Unit) -> Self {
        Self {
            label: label.to_owned(),
            scale,
            unit,
        }
    }
}

/// Names of two cards or runs that are compared.
#[derive(Clone, Debug)]
pub struct Compared {
    /// The one that is drawn as a line.
    pub line: String,
    /// The one that is drawn as points.
    pub baseline: String,
}

/// One plot.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Name of its files.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// How it was measured, in one line below the title.
    pub subtitle: String,
    /// The observation to make, below the plot on the page.
    pub caption: String,
    /// The x axis.
    pub x: Axis,
    /// The y axis.
    pub y: Axis,
    /// What is drawn.
    pub series: Vec<Series>,
    /// Kind of the measured points.
    pub sizes: Sizes,
    /// Names of the two cards or runs of a comparison.
    pub compared: Option<Compared>,
    /// Commands that make it, or its parts.
    pub commands: Vec<String>,
    /// Preset, its hash, host profile, version, seed.
    pub stamp: String,
}

impl Figure {
    /// Returns true if its points are another card or run, not a measurement.
    pub fn has_baseline(&self) -> bool {
        let mut kinds = self.series.iter().map(|series| series.kind);
        kinds.any(|kind| kind == Kind::Baseline)
    }

    /// Returns the name of a kind of series in the legend.
    pub fn kind_name(&self, kind: Kind) -> &str {
        match (&self.compared, kind) {
            (Some(compared), Kind::Model) => &compared.line,
            (Some(compared), Kind::Baseline) => &compared.baseline,
            _ => kind.name(),
        }
    }

    /// Returns the colours that have both measured points and a model, each with its errors in
    /// percent.
    pub fn errors(&self) -> Vec<(usize, Vec<(f64, f64)>)> {
        let of_kind = |kind| self.series.iter().filter(move |series| series.kind == kind);
        let mut errors = Vec::new();
        for measured in self.series.iter().filter(|series| series.kind.is_points()) {
            let same = |model: &&Series| model.color == measured.color;
            let Some(model) = of_kind(Kind::Model).find(same) else {
                continue;
            };
            let points: Vec<_> = measured
                .points
                .iter()
                .filter_map(|(x, value)| {
                    let point = model.points.iter().find(|point| point.0 == *x)?;
                    Some((*x, (point.1 / value - 1.0) * 100.0))
                })
                .collect();
            if !points.is_empty() {
                errors.push((measured.color, points));
            }
        }
        errors
    }

    /// Returns the errors by class of message sizes. Each measured curve has its own classes.
    pub fn class_errors(&self) -> Vec<ClassErrors> {
        ClassErrors::of(&self.classed_errors())
    }

    /// Returns size, class and error in percent of each measured point that the model has, too.
    pub fn classed_errors(&self) -> Vec<size_class::Sized> {
        let classes = match self.sizes {
            Sizes::Bandwidth => size_class::of_bandwidths,
            Sizes::Latency => size_class::of_latencies,
            Sizes::None => return Vec::new(),
        };
        let mut errors = Vec::new();
        for (color, own) in self.errors() {
            let is_measured =
                |series: &&Series| series.kind == Kind::Measured && series.color == color;
            let Some(measured) = self.series.iter().find(is_measured) else {
                continue;
            };
            let points = measured.points.iter();
            let points: Vec<_> = points
                .map(|(bytes, value)| (*bytes as u64, *value))
                .collect();
            let classes = classes(&points);
            for (bytes, percent) in own {
                let index = points.iter().position(|point| point.0 == bytes as u64);
                let class = index.and_then(|index| classes[index]);
                errors.push((bytes as u64, class, percent));
            }
        }
        errors
    }

    /// Returns the figures as CSV.
    pub fn csv(&self) -> String {
        let head = format!(
            "# {}\n# {}\n# {}\n# x: {}\n# y: {}\n",
            self.title, self.subtitle, self.stamp, self.x.label, self.y.label
        );
        let mut rows = csv::Writer::from_writer(head.into_bytes());
        let mut add = |row: [&str; 4]| rows.write_record(row).expect("a vector takes any bytes");
        add(["series", "kind", "x", "y"]);
        for series in &self.series {
            for (x, y) in &series.points {
                add([
                    &series.label,
                    series.kind.name(),
                    &x.to_string(),
                    &short(*y),
                ]);
            }
        }
        let text = rows.into_inner().expect("a vector takes any bytes");
        String::from_utf8(text).expect("labels and numbers are UTF-8")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_of_points_that_both_have() {
        let series = |kind, points: &[(f64, f64)]| Series {
            label: "WRITE".into(),
            color: 1,
            kind,
            points: points.to_vec(),
        };
        let figure = Figure {
            id: "x".into(),
            title: "t".into(),
            subtitle: "s".into(),
            caption: String::new(),
            x: Axis::bytes("message"),
            y: Axis::log("Gb/s"),
            series: vec![
                series(Kind::Measured, &[(2.0, 10.0), (4.0, 10.0)]),
                series(Kind::Model, &[(2.0, 9.0), (3.0, 1.0)]),
            ],
            sizes: Sizes::None,
            commands: Vec::new(),
            compared: None,
            stamp: String::new(),
        };
        let errors = figure.errors();
        assert_eq!(errors.len(), 1);
        assert!((errors[0].1[0].1 + 10.0).abs() < 1e-9);
        assert_eq!(errors[0].1.len(), 1);
        assert!(figure.csv().ends_with("WRITE,model,3,1\n"));
    }
    #[test]
    fn errors_have_the_classes_of_their_measured_curve() {
        let series = |kind, values: [f64; 4]| Series {
            label: "WRITE".into(),
            color: 0,
            kind,
            points: [64.0, 128.0, 256.0, 512.0]
                .into_iter()
                .zip(values)
                .collect(),
        };
        let mut figure = Figure {
            id: "x".into(),
            title: "t".into(),
            subtitle: "s".into(),
            caption: String::new(),
            x: Axis::bytes("message"),
            y: Axis::log("Gb/s"),
            series: vec![
                series(Kind::Measured, [5.0, 10.0, 18.0, 18.0]),
                series(Kind::Model, [5.5, 10.0, 18.0, 17.1]),
            ],
            sizes: Sizes::Bandwidth,
            commands: Vec::new(),
            compared: None,
            stamp: String::new(),
        };
        let words: Vec<_> = figure
            .class_errors()
            .iter()
            .map(ClassErrors::text)
            .collect();
        assert_eq!(
            words,
            [
                "small    64 to 128: 2 sizes, median 5.0 %, largest +10.0 %",
                "plateau  256 to 512: 2 sizes, median 2.5 %, largest -5.0 %"
            ]
        );
        figure.sizes = Sizes::None;
        assert!(figure.class_errors().is_empty());
    }
}
