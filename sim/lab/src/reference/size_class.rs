//! Classes of message sizes, by the bottleneck of the test: the host, the wire, or something
//! between.
//!
//! The classes follow from the measured curve alone; the model has no influence on them.
//!
//! | table | class | sizes |
//! | --- | --- | --- |
//! | bandwidth | plateau | from the first size with 95 % of the best bandwidth on |
//! | | small | smaller ones, up to the last size with 85 % of the best message rate |
//! | | knee | between the two |
//! | latency | small | up to the last size within 20 % of the shortest latency |
//! | | long | all others |
//!
//! At least two sizes have to be near the best bandwidth or rate: a single one is an edge of the
//! table, not a flat part of its curve. A table of fewer than three sizes has no classes.

use serde_json::{Value, json};

use ferroce_perf::number_text::human_bytes;

/// Minimum share of the best bandwidth of a size on the plateau.
const PLATEAU_SHARE: f64 = 0.95;
/// Minimum share of the best message rate of a small size.
const SMALL_RATE_SHARE: f64 = 0.85;
/// Maximum latency of a small size, as a multiple of the shortest latency.
const SMALL_LATENCY_MULTIPLE: f64 = 1.2;
/// Minimum number of sizes of a flat part.
const FLAT_SIZES_MIN: usize = 2;
/// Minimum number of sizes of a curve.
const CURVE_SIZES_MIN: usize = 3;

/// Class of a message size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SizeClass {
    /// The host's posts limit the rate; for latencies, sizes on which the latency hardly depends.
    Small,
    /// Host and wire share the limit.
    Knee,
    /// The wire, or PCIe, limits the bandwidth.
    Plateau,
    /// Latencies that grow with the size.
    Long,
}

impl SizeClass {
    /// Every class, in the order of sizes.
    pub const ALL: [Self; 4] = [Self::Small, Self::Knee, Self::Plateau, Self::Long];

    /// Returns the class as one word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Knee => "knee",
            Self::Plateau => "plateau",
            Self::Long => "long",
        }
    }
}

/// Returns the class of each of these sizes and bandwidths in Gb/s.
pub fn of_bandwidths(points: &[(u64, f64)]) -> Vec<Option<SizeClass>> {
    let best = largest(points.iter().map(|(_, gbps)| *gbps));
    let rate = |(bytes, gbps): &(u64, f64)| gbps / *bytes as f64;
    let best_rate = largest(points.iter().map(rate));
    let plateau = flat(points, |point| point.1 >= best * PLATEAU_SHARE);
    let plateau_from = plateau.iter().min().copied().unwrap_or(u64::MAX);
    let small = flat(points, |point| {
        point.0 < plateau_from && rate(point) >= best_rate * SMALL_RATE_SHARE
    });
    let small_to = small.iter().max().copied().unwrap_or(0);
    classes(points, |bytes| match bytes {
        bytes if bytes >= plateau_from => SizeClass::Plateau,
        bytes if bytes <= small_to => SizeClass::Small,
        _ => SizeClass::Knee,
    })
}

/// Returns the class of each of these sizes and latencies.
pub fn of_latencies(points: &[(u64, f64)]) -> Vec<Option<SizeClass>> {
    let shortest = points.iter().map(|(_, us)| *us).fold(f64::MAX, f64::min);
    let is_flat = |point: &&(u64, f64)| point.1 <= shortest * SMALL_LATENCY_MULTIPLE;
    let flat = points.iter().filter(is_flat).map(|(bytes, _)| *bytes);
    let small_to = flat.max().unwrap_or(0);
    classes(points, |bytes| {
        if bytes <= small_to {
            SizeClass::Small
        } else {
            SizeClass::Long
        }
    })
}

/// Returns the sizes of a flat part; none if they are too few.
fn flat(points: &[(u64, f64)], is_near_best: impl Fn(&(u64, f64)) -> bool) -> Vec<u64> {
    let near = points.iter().filter(|point| is_near_best(point));
    let sizes: Vec<_> = near.map(|(bytes, _)| *bytes).collect();
    if sizes.len() < FLAT_SIZES_MIN {
        Vec::new()
    } else {
        sizes
    }
}

fn classes(points: &[(u64, f64)], class: impl Fn(u64) -> SizeClass) -> Vec<Option<SizeClass>> {
    let is_curve = points.len() >= CURVE_SIZES_MIN;
    let classes = points.iter();
    classes
        .map(|(bytes, _)| is_curve.then(|| class(*bytes)))
        .collect()
}

fn largest(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, f64::max)
}

/// Bytes, class, and error in percent of a size.
pub type Sized = (u64, Option<SizeClass>, f64);

/// Errors of the sizes of one class.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassErrors {
    /// The class.
    pub class: SizeClass,
    /// Smallest and largest size.
    pub bytes: (u64, u64),
    /// Number of sizes.
    pub count: usize,
    /// Median of the errors in percent, without their sign.
    pub median_percent: f64,
    /// The error that is farthest from zero, in percent.
    pub worst_percent: f64,
}

impl ClassErrors {
    /// Returns the errors of each class that has sizes.
    pub fn of(sizes: &[Sized]) -> Vec<Self> {
        let of_class = SizeClass::ALL.into_iter().map(|class| {
            let own = sizes.iter().filter(|(_, own, _)| *own == Some(class));
            let bytes: Vec<_> = own.clone().map(|(bytes, ..)| *bytes).collect();
            let errors: Vec<_> = own.map(|(.., percent)| *percent).collect();
            Some(Self {
                class,
                bytes: (*bytes.iter().min()?, *bytes.iter().max()?),
                count: bytes.len(),
                median_percent: median(errors.iter().map(|error| error.abs()).collect())?,
                worst_percent: errors
                    .into_iter()
                    .max_by(|a, b| a.abs().total_cmp(&b.abs()))?,
            })
        });
        of_class.flatten().collect()
    }

    /// Returns one line: `small, 2 to 512: 9 sizes, median 1.2 %, largest -3.4 %`.
    pub fn text(&self) -> String {
        let (from, to) = (
            human_bytes(self.bytes.0 as f64),
            human_bytes(self.bytes.1 as f64),
        );
        format!(
            "{:<8} {from} to {to}: {} sizes, median {:.1} %, largest {:+.1} %",
            self.class.word(),
            self.count,
            self.median_percent,
            self.worst_percent
        )
    }

    /// Returns it as JSON.
    pub fn json(&self) -> Value {
        json!({
            "class": self.class.word(),
            "from_bytes": self.bytes.0,
            "to_bytes": self.bytes.1,
            "sizes": self.count,
            "error_median_percent": self.median_percent,
            "error_largest_percent": self.worst_percent,
        })
    }
}

/// Returns the middle of the values; of an even number of them, the mean of the two in the middle.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        count if count % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use SizeClass::{Knee, Long, Plateau, Small};

    use super::*;
    use crate::reference::builtin;

    fn doubling(values: &[f64]) -> Vec<(u64, f64)> {
        let sizes = (0..values.len()).map(|index| 64 << index);
        sizes.zip(values.iter().copied()).collect()
    }

    fn known(classes: Vec<Option<SizeClass>>) -> Vec<SizeClass> {
        classes.into_iter().flatten().collect()
    }

    #[test]
    fn a_curve_has_three_parts() {
        let curve = doubling(&[1.0, 2.0, 3.9, 7.0, 9.0, 9.6, 10.0, 9.9]);
        let expected = [Small, Small, Small, Small, Knee, Plateau, Plateau, Plateau];
        assert_eq!(known(of_bandwidths(&curve)), expected);
    }

    /// Goal: noise below the best rate, or a dip above the size of best bandwidth, changes no
    /// class.
    #[test]
    fn a_noisy_size_is_of_the_class_of_those_around_it() {
        let curve = doubling(&[0.7, 2.0, 3.2, 8.0, 12.0, 19.8, 18.0, 20.0]);
        let expected = [Small, Small, Small, Small, Knee, Plateau, Plateau, Plateau];
        assert_eq!(known(of_bandwidths(&curve)), expected);
    }

    #[test]
    fn an_edge_of_a_table_is_no_flat_part() {
        assert_eq!(
            known(of_bandwidths(&doubling(&[1.0, 1.5, 2.0, 2.5]))),
            [Knee; 4]
        );
        assert_eq!(
            known(of_bandwidths(&doubling(&[1.0, 2.0, 4.0]))),
            [Small; 3]
        );
        assert_eq!(
            known(of_bandwidths(&doubling(&[9.8, 9.9, 10.0]))),
            [Plateau; 3]
        );
        assert_eq!(of_bandwidths(&doubling(&[1.0, 2.0])), [None; 2]);
    }

    #[test]
    fn latencies_are_flat_up_to_the_inline_step() {
        let classes = of_latencies(&doubling(&[1.87, 1.96, 2.87, 3.85]));
        assert_eq!(known(classes), [Small, Small, Long, Long]);
    }

    /// Goal: the rule finds the parts of every measured table that has all sizes.
    #[test]
    fn every_complete_table_has_every_class() {
        let complete = |table: &&crate::reference::Table| table.sizes().len() == 23;
        let tables = builtin::tables();
        assert!(tables.iter().filter(complete).count() > 10);
        for table in tables.iter().filter(complete) {
            let points = table.points();
            let (classes, expected) = if table.is_latency() {
                (of_latencies(&points), vec![Small, Long])
            } else {
                (of_bandwidths(&points), vec![Small, Knee, Plateau])
            };
            let mut found = known(classes);
            found.dedup();
            let has_all = expected.iter().all(|class| found.contains(class));
            assert!(
                has_all || found == [Small, Plateau],
                "{}: {found:?}",
                table.name
            );
        }
    }

    #[test]
    fn errors_are_summed_up_by_class() {
        let sizes = [
            (2, Some(Small), 1.0),
            (4, Some(Small), -3.0),
            (8, Some(Knee), 20.0),
            (16, None, 90.0),
        ];
        let errors = ClassErrors::of(&sizes);
        assert_eq!(errors.len(), 2);
        assert_eq!(
            (errors[0].median_percent, errors[0].worst_percent),
            (2.0, -3.0)
        );
        assert_eq!(
            errors[0].text(),
            "small    2 to 4: 2 sizes, median 2.0 %, largest -3.0 %"
        );
        assert_eq!(errors[1].json()["class"], "knee");
        assert_eq!(median(Vec::new()), None);
    }
}
