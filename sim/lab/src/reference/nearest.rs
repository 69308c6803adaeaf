//! The built-in table that is nearest to a user's: a hint at card and host.

use super::pairs::PAIRS;
use super::size_class::{SizeClass, median, of_bandwidths, of_latencies};
use super::{Table, builtin};

/// Fewer common sizes say too little.
const MIN_SIZES: usize = 4;

/// Maximum median difference of a class of sizes that counts as alike.
const ALIKE_PERCENT: f64 = 10.0;

/// A built-in table, and how far another one is from it.
#[derive(Clone, Debug, PartialEq)]
pub struct Nearest {
    /// Its name.
    pub table: String,
    /// The preset that it is compared with.
    pub preset: &'static str,
    /// Median over the common sizes of the difference, in percent of its figures.
    pub median_percent: f64,
    /// The number of common sizes.
    pub sizes: usize,
    /// The same median for each class of sizes of the user's table.
    pub classes: Vec<(SizeClass, f64)>,
}

impl Nearest {
    /// Finds the table of the same verb and kind whose figures differ least; `None`: there is none
    /// with enough common sizes.
    pub fn of(table: &Table) -> Option<Self> {
        let all = PAIRS.iter().filter_map(|(name, pair)| {
            let preset = pair.ok()?;
            let candidates = builtin::find(name).into_iter();
            let others = candidates.filter(|other| is_alike(table, other));
            let mut nearest = others.filter_map(|other| difference(table, &other, preset));
            nearest.next()
        });
        all.min_by(|a, b| a.median_percent.total_cmp(&b.median_percent))
    }

    /// Returns a line of text.
    pub fn text(&self) -> String {
        let Self {
            table,
            preset,
            median_percent,
            sizes,
            classes,
        } = self;
        let reasons = classes.iter().map(|(class, percent)| {
            let subject = subject(*class);
            if *percent <= ALIKE_PERCENT {
                format!("{subject} alike ({} {percent:.1} %)", class.word())
            } else {
                format!("{subject} not ({} {percent:.1} %)", class.word())
            }
        });
        let reasons = reasons.collect::<Vec<_>>().join(", ");
        format!(
            "the nearest built-in table is {table}, {median_percent:.1} % away (median of {sizes} \
             sizes): {reasons}; it is compared with {preset}"
        )
    }
}

/// Returns what the sizes of a class depend on, with its verb.
fn subject(class: SizeClass) -> &'static str {
    match class {
        SizeClass::Small => "host and path are",
        SizeClass::Knee => "host and wire together are",
        SizeClass::Plateau | SizeClass::Long => "wire, slot and memory are",
    }
}

/// Returns true if both measure the same, in a way that can be compared.
fn is_alike(table: &Table, other: &Table) -> bool {
    let (setup, others) = (&table.setup, &other.setup);
    table.name != other.name
        && table.is_latency() == other.is_latency()
        && setup.verb == others.verb
        && setup.service == others.service
        && setup.qps == others.qps
        && setup.bidirectional == others.bidirectional
}

fn difference(table: &Table, other: &Table, preset: &'static str) -> Option<Nearest> {
    let points = table.points();
    let classes = if table.is_latency() {
        of_latencies(&points)
    } else {
        of_bandwidths(&points)
    };
    let others = other.points();
    let mut differences: Vec<(Option<SizeClass>, f64)> = Vec::new();
    for ((bytes, figure), class) in points.iter().zip(classes) {
        let found = others.iter().find(|(size, _)| size == bytes);
        let percent = found.map(|(_, others)| ((figure / others - 1.0) * 100.0).abs());
        differences.extend(percent.filter(|it| it.is_finite()).map(|it| (class, it)));
    }
    let sizes = differences.len();
    (sizes >= MIN_SIZES).then_some(())?;
    let of = |class: SizeClass| {
        let own = differences.iter().filter(|(own, _)| *own == Some(class));
        Some((class, median(own.map(|(_, percent)| *percent).collect())?))
    };
    Some(Nearest {
        table: other.name.clone(),
        preset,
        median_percent: median(differences.iter().map(|(_, percent)| *percent).collect())?,
        sizes,
        classes: SizeClass::ALL.into_iter().filter_map(of).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a table that is slightly faster than a built-in one finds it, and no other kind.
    #[test]
    fn a_changed_table_finds_its_original() {
        for name in ["cx6_hdr200_ib_write_bw", "cx5_edr100_ib_vf_send_lat"] {
            let mut table = builtin::find(name).remove(0);
            table.name = "mine".to_owned();
            match &mut table.rows {
                super::super::Rows::Bandwidth(rows) => {
                    rows.iter_mut().for_each(|row| row.average_gbps *= 1.02);
                }
                super::super::Rows::Latency(rows) => {
                    for row in rows {
                        row.typical_us = row.typical_us.map(|us| us * 1.02);
                    }
                }
            }
            let nearest = Nearest::of(&table).expect("there are such tables");
            assert_eq!(nearest.table, name);
            assert!((nearest.median_percent - 2.0).abs() < 0.01, "{nearest:?}");
            assert!(nearest.text().contains(nearest.preset));
            assert!(
                nearest
                    .text()
                    .contains("host and path are alike (small 2.0 %)")
            );
        }
        let mut few = builtin::find("cx6_hdr200_ib_write_bw").remove(0);
        few.setup.qps = 77;
        assert_eq!(Nearest::of(&few), None);
    }
}
