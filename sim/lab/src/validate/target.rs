//! The file of targets.

use crate::reference::builtin::Other;

/// One line of `validation_targets.csv`.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// Number, as `V04a`.
    pub id: String,
    /// Its card or host.
    pub preset: String,
    /// The measured quantity.
    pub metric: String,
    /// The conditions of the measurement.
    pub condition: String,
    /// Lower end of a band, if there is one.
    pub low: Option<f64>,
    /// The values, as the file has them.
    pub reference: String,
    /// Upper end of a band, if there is one.
    pub high: Option<f64>,
    /// Unit of all of them.
    pub unit: String,
    /// Tolerance, as in the file.
    pub tolerance: String,
}

impl Target {
    /// Returns the numbers in the reference, in order.
    pub fn values(&self) -> Vec<f64> {
        numbers(&self.reference)
    }
}

/// Returns every target.
pub fn all() -> Vec<Target> {
    let csv = Other::ValidationTargets.csv();
    let targets = csv.rows.iter().map(|row| {
        let text = |column| csv.text(row, column).to_owned();
        let number = |column| csv.number(row, column).ok().flatten();
        Target {
            id: text("id"),
            preset: text("preset"),
            metric: text("metric"),
            condition: text("condition"),
            low: number("low"),
            reference: text("reference"),
            high: number("high"),
            unit: text("unit"),
            tolerance: text("tolerance"),
        }
    });
    targets.collect()
}

/// Returns every number in `text`, except digits after a letter or after the minus of an arrow.
fn numbers(text: &str) -> Vec<f64> {
    let is_part = |c: char| c.is_ascii_digit() || c == '.';
    let pieces = text.split(|c: char| !is_part(c));
    pieces.filter_map(|piece| piece.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_a_target() {
        let targets = all();
        assert!(targets.len() > 40, "{}", targets.len());
        let mut ids: Vec<_> = targets.iter().map(|target| &target.id).collect();
        ids.dedup();
        assert_eq!(ids.len(), targets.len());
    }

    #[test]
    fn references_are_one_number_or_several() {
        let of = |id| {
            let found = all().into_iter().find(|target| target.id == id);
            found.expect("a target of the file").values()
        };
        assert_eq!(of("V01a"), [9.24]);
        assert_eq!(of("V09"), [7.67, 2.72, 1.17]);
        assert_eq!(of("V18"), [42.10, 44.10, 52.92, 53.69, 52.92, 53.69]);
        assert_eq!(of("V19c"), [427.0, 653.0, 427.0, 707.0]);
        assert_eq!(of("V21"), [0.0; 0]);
        assert_eq!(of("L1"), [2000.0, 4000.0, 8000.0, 16000.0]);
    }
}
